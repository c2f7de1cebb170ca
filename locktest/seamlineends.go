// Rules 19 to 23 of the seam: entries and claims that are over, and holds whose release passes the key to nobody.

package locktest

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamLineEnds = []testCase{
	{name: "Store_LineEntryOver", run: lineEntryOver, needs: lines},
	{name: "Store_LineEntryRefreshed", run: lineEntryRefreshed, needs: lines},
	{name: "Store_LineClaimOver", run: lineClaimOver, needs: lines},
	{name: "Store_LineOwnHold", run: lineOwnHold, needs: lines},
	{name: "Store_LineOwnHoldOver", run: lineOwnHoldOver, needs: lines},
	{name: "Store_LineMinHold", run: lineMinHold, needs: lines},
	{name: "Store_LineForced", run: lineForced, needs: func(e *env) bool { return lines(e) && forcing(e) }},
	{name: "Store_LineCounted", run: lineCounted, needs: lines},
}

// brief makes the entry or the claim of a request end soon.
func (e *env) briefEntry(q *driver.Request) { q.EntryTime = e.short }
func (e *env) briefClaim(q *driver.Request) { q.Claim = e.short }

// over waits until the entry of a request is over.
func over(t testing.TB, s driver.Store, q driver.Request) {
	t.Helper()
	until(t, "its entry is over", func() bool { return look(t, s, q)[0].Place == 0 })
}

// lineEntryOver: an entry that its program does not refresh is passed over, and counts for nobody.
func lineEntryOver(t *testing.T, e *env) {
	s, other, key := e.Open(t), e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	dead := with(waiter(key), e.briefEntry)
	if r := ask(t, s, dead); r.Status != driver.Held {
		t.Fatalf("a request that stands: %+v", r)
	}
	second, third := waiter(key), waiter(key)
	for _, q := range []driver.Request{second, third} {
		if r := ask(t, other, q); r.Status != driver.Held || r.Place == 0 {
			t.Fatalf("a request that stands: %+v", r)
		}
	}
	over(t, s, dead)
	inOrder(t, s, second, third)
	stand(t, other, third, 2, 2)
	if i := inspect(t, s, key); i.Waiting != 2 {
		t.Errorf("P29: %d stand, want 2 and none that is over", i.Waiting)
	}
	answer(t, s.Release, h, driver.Released)
	h = passed(t, other, second)
	stand(t, s, with(dead, stands), 2, 2) // at the end
	answer(t, other.Release, h, driver.Released)
	h = passed(t, other, third)

	// A line of the dead alone keeps nobody out.
	leave(t, s, dead, driver.Released)
	alone := with(waiter(key), e.briefEntry)
	if r := ask(t, s, alone); r.Status != driver.Held {
		t.Fatalf("a request that stands: %+v", r)
	}
	over(t, s, alone)
	nobodyStands(t, s, key)
	h.Guarded = true
	answer(t, other.Release, h, driver.Released)
	last := writer(key)
	if r := ask(t, other, last); r.Status != driver.Granted {
		t.Errorf("P29: a free key with a dead line: %+v, want granted", r)
	}
	leave(t, other, last, driver.Released)
}

// lineEntryRefreshed: a stand that comes again moves the end of its entry, never earlier.
func lineEntryRefreshed(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	first := stand(t, s, waiter(key), 1, 1)
	stand(t, s, with(first, e.briefEntry), 1, 1)
	second := with(waiter(key), e.briefEntry)
	if r := ask(t, s, second); r.Status != driver.Held {
		t.Fatalf("a request that stands: %+v", r)
	}
	second = stand(t, s, with(second, stands), 2, 2)
	dead := with(waiter(key), e.briefEntry)
	if r := ask(t, s, dead); r.Status != driver.Held {
		t.Fatalf("a request that stands: %+v", r)
	}
	over(t, s, dead) // as the others would be
	inOrder(t, s, first, second)
	answer(t, s.Release, h, driver.Released)
	answer(t, s.Release, passed(t, s, first), driver.Released)
	answer(t, s.Release, passed(t, s, second), driver.Released)
}

// claimOver passes the key to a request, and waits until its claim is over.
func claimOver(t testing.TB, s driver.Store, h driver.Hold, q driver.Request) driver.Hold {
	t.Helper()
	answer(t, s.Release, h, driver.Released)
	expired(t, s, q.Key)
	token := inspect(t, s, q.Key).Token
	late := holdOf(q, driver.Result{Token: token, Stored: token})
	rises(t, h, late)
	return late
}

// lineClaimOver: the next acquire passes the key on, and the late holder learns that it is another's.
func lineClaimOver(t *testing.T, e *env) {
	s, other := e.Open(t), e.Open(t)
	for _, who := range []string{"the first", "the last", "a newcomer"} {
		key := e.key(t)
		h := grant(t, s, writer(key))
		q := stand(t, s, with(waiter(key), e.briefClaim), 1, 1)
		first := stand(t, other, waiter(key), 2, 2)
		last := stand(t, other, waiter(key), 3, 3)
		late := claimOver(t, s, h, q)
		if v := notPassed(t, other, first, "behind one whose claim is over"); !v.Free {
			t.Errorf("P29: a look at a key whose claim is over: %+v", v)
		}
		if v := look(t, s, q)[0]; v.Mine {
			t.Errorf("P29: a look of one whose claim is over: %+v", v)
		}
		switch who {
		case "the first":
			if r := ask(t, other, first); r.Status != driver.Granted {
				t.Errorf("P29: the first asks for a key whose claim is over: %+v", r)
			}
		case "the last":
			stand(t, other, last, 1, 1)
		default:
			if r := ask(t, other, writer(key)); r.Status != driver.Held {
				t.Errorf("P29: a newcomer asks for a key whose claim is over: %+v", r)
			}
		}
		next := mine(first, look(t, other, first)[0])
		rises(t, late, next)
		answer(t, s.Renew, late, driver.Taken)
		answer(t, s.Release, late, driver.Taken)
		answer(t, other.Renew, next, driver.Alive)
		inOrder(t, s, last)
		answer(t, other.Release, next, driver.Released)
		answer(t, other.Release, passed(t, s, last), driver.Released)
	}
}

// lineOwnHold: an acquire that finds its own passed hold is told how much of it is left, and extends nothing.
func lineOwnHold(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	q := stand(t, s, waiter(key), 1, 1)
	answer(t, s.Release, h, driver.Released)
	h = passed(t, s, q)
	for range 2 {
		if r := ask(t, s, q); r.Status != driver.Granted || r.Stored != h.Stored || r.Left <= 0 || r.Left > q.Claim {
			t.Errorf("P29: the acquire of one that has the key: %+v, want the stored token %d and what is left of %v", r, h.Stored, q.Claim)
		}
	}
	if i := inspect(t, s, key); i.Left > q.Claim || !i.Held || i.Waiting != 0 {
		t.Errorf("P29: an acquire extended a hold: %+v", i)
	}
	answer(t, s.Release, h, driver.Released)

	// A request that was granted and asks again, as after an answer that was lost.
	q = waiter(key)
	results, err := s.Acquire(soon(t), []driver.Request{q})
	if err == nil && results[0].Status == driver.Granted && results[0].Left != 0 {
		t.Errorf("P29: a new hold says that %v is left", results[0].Left)
	}
	if r := ask(t, s, q); err == nil && (r.Status != driver.Granted || r.Left <= 0 || r.Left > q.TTL) {
		t.Errorf("P29: the acquire of one that has the key: %+v", r)
	}
	leave(t, s, q, driver.Released)
}

// lineOwnHoldOver: a hold whose claim is over is not told as one that lives.
func lineOwnHoldOver(t *testing.T, e *env) {
	s, other := e.Open(t), e.Open(t)

	// Nobody else stands: it may have the key anew, for its whole TTL.
	key := e.key(t)
	h := grant(t, s, writer(key))
	q := stand(t, s, with(waiter(key), e.briefClaim), 1, 1)
	late := claimOver(t, s, h, q)
	r := ask(t, s, with(q, stands))
	i := inspect(t, s, key)
	switch {
	case r.Status != driver.Granted:
		t.Errorf("P29: the acquire of one whose claim is over, of a free key: %+v", r)
	case r.Stored == late.Stored:
		t.Errorf("P29: the acquire of one whose claim is over is granted with the old token: %+v", r)
	case r.Left == 0 && i.Left < longTTL/2 || !i.Held:
		t.Errorf("P29: the acquire of one whose claim is over: %+v, and the hold is %+v", r, i)
	}
	leave(t, s, q, driver.Released)

	// Another stands: the key is its.
	key = e.key(t)
	h = grant(t, s, writer(key))
	q = stand(t, s, with(waiter(key), e.briefClaim), 1, 1)
	next := stand(t, other, waiter(key), 2, 2)
	late = claimOver(t, s, h, q)
	if r := ask(t, s, q); r.Status != driver.Held || r.Place != 1 {
		t.Errorf("P29: the acquire of one whose claim is over while another stands: %+v, want held at the end of the line", r)
	}
	got := passed(t, other, next)
	rises(t, late, got)
	answer(t, other.Release, got, driver.Released)
	leave(t, s, q, driver.Released)
}

// lineMinHold: a release passes the key to nobody while MinHold keeps it.
func lineMinHold(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	kept := func(keep time.Duration) driver.Hold {
		return grant(t, s, with(writer(key), func(q *driver.Request) { q.Keep = keep }))
	}
	h := kept(longTTL)
	first, second := stand(t, s, waiter(key), 1, 1), stand(t, s, waiter(key), 2, 2)
	answer(t, s.Release, h, driver.Released)
	for range 2 {
		if v := notPassed(t, s, first, "while MinHold keeps the key"); v.Free || !v.Kept || v.Left <= 0 || v.Left > longTTL {
			t.Errorf("P29: a look at a key that MinHold keeps: %+v", v)
		}
		stand(t, s, second, 2, 2) // passes nothing either
	}
	leave(t, s, first, driver.Released)
	notPassed(t, s, second, "while MinHold keeps the key")
	leave(t, s, second, driver.Released)

	key = e.key(t)
	h = kept(2 * e.short)
	first, second = stand(t, s, waiter(key), 1, 1), stand(t, s, waiter(key), 2, 2)
	answer(t, s.Release, h, driver.Released)
	until(t, "MinHold is over", func() bool {
		v := look(t, s, first)[0]
		return v.Free || v.Mine // of a slow release
	})
	stand(t, s, second, 1, 1)
	next := passed(t, s, first)
	rises(t, h, next)
	answer(t, s.Release, next, driver.Released)
	answer(t, s.Release, passed(t, s, second), driver.Released)
}

// lineForced: a forced release leaves the line as it is, and passes the key to nobody.
func lineForced(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	first, second := stand(t, s, waiter(key), 1, 1), stand(t, s, waiter(key), 2, 2)
	if i := force(t, s, key); i.Waiting != 2 || !i.Held {
		t.Errorf("P29: a forced release of a key for which two wait says %+v", i)
	}
	answer(t, s.Renew, h, driver.Forced)
	inOrder(t, s, first, second)
	stand(t, s, second, 1, 1)
	passedHold := passed(t, s, first)
	rises(t, h, passedHold)
	force(t, s, key)
	answer(t, s.Renew, passedHold, driver.Forced)
	inOrder(t, s, second)
	last := gets(t, s, second)
	rises(t, passedHold, last)
	answer(t, s.Release, last, driver.Released)
}

// lineCounted: Inspect and List tell how many stand, and since when.
func lineCounted(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	check := func(n int) (since time.Time) {
		t.Helper()
		infos := []driver.Info{inspect(t, s, key)}
		if e.lister {
			listed, err := s.(driver.Lister).List(soon(t), key, "", 10)
			if err != nil || len(listed) != 1 && n > 0 {
				t.Fatalf("list: %+v, %v", listed, err)
			}
			infos = append(infos, listed...) // a Store may remove the row of a key that is free
		}
		for _, i := range infos {
			if i.Waiting != n || i.WaitingSince.IsZero() != (n == 0) || n > 0 && time.Since(i.WaitingSince).Abs() > time.Hour {
				t.Errorf("P29: %d wait since %v, want %d", i.Waiting, i.WaitingSince, n)
			}
			since = i.WaitingSince
		}
		return since
	}
	check(0)
	first := stand(t, s, waiter(key), 1, 1)
	before := check(1)
	time.Sleep(20 * time.Millisecond)
	second := stand(t, s, waiter(key), 2, 2)
	if again := check(2); !again.Equal(before) {
		t.Errorf("P29: the first waits since %v, and then since %v", before, again)
	}
	answer(t, s.Release, h, driver.Released)
	if later := check(1); !later.After(before) {
		t.Errorf("P29: the second waits since %v, the first did since %v", later, before)
	}
	answer(t, s.Release, passed(t, s, first), driver.Released)
	check(0)
	answer(t, s.Release, passed(t, s, second), driver.Released)
	check(0)
}
