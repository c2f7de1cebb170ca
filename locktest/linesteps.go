// Steps at the seam that the cases of the line make.

package locktest

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/driver"
)

// stands makes a request one that stands. Its entry and its claim outlast a busy machine.
func stands(q *driver.Request) {
	q.Stand, q.EntryTime, q.Claim, q.Owner = true, driver.MaxEntryTime, driver.MaxClaim, "locktest"
}

// waiter is an exclusive request that stands.
func waiter(key string) driver.Request { return with(writer(key), stands) }

// ask makes one acquire, and again while a slow statement pins the key.
func ask(t testing.TB, s driver.Store, q driver.Request) (r driver.Result) {
	t.Helper()
	until(t, fmt.Sprintf("%q is not pinned", q.Key), func() bool {
		r = one(t, s, q)
		return r.Status != driver.Pinned
	})
	return r
}

// stand adds a request to the line, or refreshes it, and checks its place.
func stand(t testing.TB, s driver.Store, q driver.Request, place, standing int) driver.Request {
	t.Helper()
	if r := ask(t, s, q); r.Status != driver.Held || r.Place != place || r.Standing != standing {
		t.Fatalf("P29: a request that stands: %+v, want held, place %d of %d", r, place, standing)
	}
	return q
}

// standAll adds n exclusive requests to an empty line.
func standAll(t testing.TB, s driver.Store, key string, n int) (all []driver.Request) {
	t.Helper()
	for i := range n {
		all = append(all, stand(t, s, waiter(key), i+1, i+1))
	}
	return all
}

// look asks for the line and for each request. No two are of the same key and mode.
func look(t testing.TB, s driver.Store, qs ...driver.Request) (views []driver.View) {
	t.Helper()
	entries := make([]driver.Entry, len(qs))
	for i, q := range qs {
		entries[i] = driver.Entry{Key: q.Key, ID: q.ID, Mode: q.Mode, Slots: q.Slots}
	}
	until(t, fmt.Sprintf("a look at %d keys", len(qs)), func() bool {
		var err error
		if views, err = s.(driver.Liner).Look(soon(t), entries); err != nil {
			t.Logf("look at %d keys: %v", len(qs), err)
			return false
		}
		if len(views) != len(qs) {
			t.Fatalf("%d views of %d keys", len(views), len(qs))
		}
		return true
	})
	return views
}

// inOrder checks that these requests are the line.
func inOrder(t testing.TB, s driver.Store, qs ...driver.Request) {
	t.Helper()
	for i, q := range qs {
		if v := look(t, s, q)[0]; v.Place != i+1 || v.Standing != len(qs) || v.Mine || v.First < 0 {
			t.Fatalf("P29: a look of request %d in a line of %d: %+v", i+1, len(qs), v)
		}
	}
}

// nobodyStands checks that the line is empty.
func nobodyStands(t testing.TB, s driver.Store, key string) {
	t.Helper()
	if v := look(t, s, driver.Request{Key: key})[0]; v.Standing != 0 || v.First != 0 || v.Place != 0 || v.Mine {
		t.Fatalf("P29: a look at an empty line: %+v", v)
	}
}

// mine is the hold that a look shows.
func mine(q driver.Request, v driver.View) driver.Hold {
	return holdOf(q, driver.Result{Token: v.Token, Stored: v.Stored, Slot: v.Slot, Phase: v.Phase})
}

// passed checks that the key was passed to a request.
func passed(t testing.TB, s driver.Store, q driver.Request) driver.Hold {
	t.Helper()
	v := look(t, s, q)[0]
	if !v.Mine || v.Token <= 0 || v.Stored <= 0 || v.Left <= 0 || v.Left > q.Claim || v.Place != 0 {
		t.Fatalf("P29: a look of a request to which the key was passed: %+v", v)
	}
	return mine(q, v)
}

// notPassed checks that the key was not passed to a request, which stands first.
func notPassed(t testing.TB, s driver.Store, q driver.Request, why string) driver.View {
	t.Helper()
	v := look(t, s, q)[0]
	if v.Mine || v.Place != 1 {
		t.Fatalf("P29: a look of the first in the line, %s: %+v, want place 1", why, v)
	}
	return v
}

// leave takes a request out of the line, or undoes its hold.
func leave(t testing.TB, s driver.Store, q driver.Request, want ...driver.Status) {
	t.Helper()
	answer(t, s.Release, driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Slot: -1, TTL: q.TTL, Undo: true}, want...)
}

// rises checks the token of a hold after another of the same key.
func rises(t testing.TB, before, h driver.Hold) {
	t.Helper()
	if h.Token < before.Token+driver.TokenRange {
		Breach(t, "P3", "token %d was passed after %d", h.Token, before.Token)
	}
}

// gets is the hold of a request to which the key was passed, or whose acquire finds it free.
func gets(t testing.TB, s driver.Store, q driver.Request) driver.Hold {
	t.Helper()
	v := look(t, s, q)[0]
	if v.Mine {
		return passed(t, s, q)
	}
	if !v.Free || v.Pinned {
		t.Fatalf("P29: a look of a request whose turn it is: %+v", v)
	}
	r := ask(t, s, q)
	if r.Status != driver.Granted || r.Token <= 0 || r.Stored <= 0 {
		t.Fatalf("P29: an acquire whose turn it is: %+v", r)
	}
	return holdOf(q, r)
}
