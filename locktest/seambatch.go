// The rules of the seam for many holds in one call: each has its own answer, in
// its own place.

package locktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamBatch = []testCase{
	{name: "Store_BatchAcquire", run: batchAcquire},
	{name: "Store_BatchRenewAndRelease", run: batchRenewRelease},
	{name: "Store_BatchOfTTLs", run: batchTTLs},
	{name: "Store_LargeBatch", run: largeBatch},
	{name: "Store_InspectMany", run: inspectMany},
	{name: "Store_List", run: list, needs: listing},
}

// entry is one place of a batch, with the answer that belongs there.
type entry struct {
	name string
	hold driver.Hold
	want []driver.Status
}

// atMost cuts a batch to what the Store takes, in an order that is not the keys'.
func (e *env) atMost(entries []entry) [][]entry {
	slices.SortFunc(entries, func(a, b entry) int { return -compareID(a.hold.ID, b.hold.ID) })
	return slices.Collect(slices.Chunk(entries, e.limits.Batch))
}

func compareID(a, b driver.HoldID) int { return slices.Compare(a[:], b[:]) }

func batchAcquire(t *testing.T, e *env) {
	s, other := e.Open(t), e.Open(t)
	request := func() driver.Request {
		return driver.Request{Key: e.key(t), ID: newID(), Owner: "locktest", TTL: longTTL}
	}
	var entries []entry
	var mine []driver.Hold
	add := func(name string, q driver.Request, want driver.Status) {
		entries = append(entries, entry{name, driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL}, []driver.Status{want}})
	}
	for range 3 {
		add("a new key", request(), driver.Granted)

		q := request()
		grant(t, other, q)
		add("held by another", driver.Request{Key: q.Key, ID: newID(), TTL: longTTL}, driver.Held)

		q = request()
		mine = append(mine, grant(t, s, q))
		add("my own hold", q, driver.Granted)

		q = request()
		answer(t, other.Release, grant(t, other, q), driver.Released)
		add("released", driver.Request{Key: q.Key, ID: newID(), TTL: longTTL}, driver.Granted)

		q = request()
		q.TTL = e.limits.MinTTL
		grant(t, other, q)
		expired(t, s, q.Key)
		add("expired", driver.Request{Key: q.Key, ID: newID(), TTL: longTTL}, driver.Granted)

		q = request()
		q.Keep = longTTL
		answer(t, other.Release, grant(t, other, q), driver.Released)
		add("kept", driver.Request{Key: q.Key, ID: newID(), TTL: longTTL}, driver.Held)
	}
	for _, batch := range e.atMost(entries) {
		var reqs []driver.Request
		for _, en := range batch {
			reqs = append(reqs, driver.Request{Key: en.hold.Key, ID: en.hold.ID, Owner: "locktest", TTL: en.hold.TTL})
		}
		results := e.askAll(t, s, reqs)
		compare(t, "acquire", batch, results)
		for i, r := range results {
			if r.Status != driver.Granted {
				continue
			}
			for _, h := range mine {
				if h.ID == reqs[i].ID && h.Stored != r.Stored {
					t.Errorf("my own hold: stored token %d, want %d", r.Stored, h.Stored)
				}
			}
			answer(t, s.Release, holdOf(reqs[i], r), driver.Released)
		}
	}
}

// compare checks each answer of a batch.
func compare(t testing.TB, what string, batch []entry, results []driver.Result) {
	t.Helper()
	for i, r := range results {
		if !slices.Contains(batch[i].want, r.Status) {
			t.Errorf("%s in a batch, %s: %v (%v), want %v", what, batch[i].name, r.Status, r.Err, batch[i].want)
		}
	}
}

func batchRenewRelease(t *testing.T, e *env) {
	s, other := e.Open(t), e.Open(t)
	var entries []entry
	add := func(name string, h driver.Hold, want ...driver.Status) {
		entries = append(entries, entry{name, h, want})
	}
	over := []driver.Status{driver.Released, driver.Removed}
	for range 3 {
		h := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
		add("live", h, driver.Alive, driver.Released)

		h = grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
		answer(t, s.Release, h, driver.Released)
		add("released", h, over...)

		h = grant(t, s, driver.Request{Key: e.key(t), TTL: e.limits.MinTTL})
		grant(t, other, driver.Request{Key: h.Key, TTL: longTTL})
		h.TTL = longTTL
		add("taken", h, driver.Taken)

		h = grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
		h.ID = newID()
		add("another's", h, driver.Taken)

		add("never was", driver.Hold{Key: e.key(t), ID: newID(), Token: 1, Stored: 1, TTL: longTTL}, driver.Removed)

		if e.forcer {
			h = grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
			force(t, s, h.Key)
			add("forced", h, driver.Forced)
		}
	}
	for _, batch := range e.atMost(entries) {
		var holds []driver.Hold
		for _, en := range batch {
			holds = append(holds, en.hold)
		}
		compare(t, "renew", batch, settle(t, s.Renew, holds))
		compare(t, "release", batch, settle(t, s.Release, holds))
		for _, en := range batch {
			taken := en.name == "taken" || en.name == "another's"
			if i := inspect(t, s, en.hold.Key); i.Held != taken {
				t.Errorf("P5: after a renewal and a release in a batch, %s: %+v", en.name, i)
			}
		}
	}
}

// batchTTLs renews holds with TTLs and MaxHolds of their own in one call.
func batchTTLs(t *testing.T, e *env) {
	s := e.Open(t)
	holds := e.holds(t, s, min(6, e.limits.Batch), longTTL)
	for i := range holds {
		holds[i].TTL = longTTL * [...]time.Duration{2, 3, 4}[i%3]
		if i%2 == 1 {
			holds[i].MaxHold = longTTL * 3 / 2
		}
	}
	answerAll(t, s.Renew, holds, driver.Alive)
	for _, h := range holds {
		want := h.TTL
		if h.MaxHold > 0 {
			want = min(want, h.MaxHold)
		}
		if left := inspect(t, s, h.Key).Left; left > want || left < want-longTTL/2 {
			t.Errorf("a renewal for %v with MaxHold %v left %v", h.TTL, h.MaxHold, left)
		}
	}
	answerAll(t, s.Release, holds, driver.Released)
}

func largeBatch(t *testing.T, e *env) {
	s := e.Open(t)
	n := min(e.limits.Batch, 300)
	if most := e.hold(n); most < n { // a connection for each
		n = most
	}
	holds := e.holds(t, s, n, longTTL)
	answerAll(t, s.Renew, holds, driver.Alive)
	var reqs []driver.Request
	for _, h := range holds {
		reqs = append(reqs, driver.Request{Key: h.Key, ID: newID(), TTL: longTTL})
	}
	for i, r := range e.askAll(t, s, reqs) {
		if r.Status != driver.Held {
			t.Fatalf("acquire %d held keys: answer %d is %v", n, i, r.Status)
		}
	}
	answerAll(t, s.Release, holds, driver.Released)
}

func inspectMany(t *testing.T, e *env) {
	s := e.Open(t)
	if infos, err := s.Inspect(soon(t), nil); err != nil || len(infos) != 0 {
		t.Errorf("inspect of no key: %v, %v", infos, err)
	}
	holds := e.holds(t, s, min(6, e.limits.Batch), longTTL)
	answer(t, s.Release, holds[0], driver.Released)
	asked := make([]string, 0, 2*len(holds))
	for _, h := range holds {
		asked = append(asked, h.Key, e.key(t))
	}
	asked = asked[:min(len(asked), e.limits.Batch)]
	infos, err := s.Inspect(soon(t), asked)
	if err != nil || len(infos) != len(asked) {
		t.Fatalf("inspect %d keys: %d answers, %v", len(asked), len(infos), err)
	}
	for i, info := range infos {
		h := holds[i/2]
		switch {
		case info.Key != asked[i]:
			t.Errorf("inspect: place %d has key %q, want %q", i, info.Key, asked[i])
		case i == 0 && info.Held:
			t.Errorf("inspect of a released key: %+v", info)
		case i%2 == 1 && info != (driver.Info{Key: asked[i]}):
			t.Errorf("inspect of a key that never was: %+v", info)
		case i > 0 && i%2 == 0 && (!info.Held || info.Kept || info.Pinned || info.Token > h.Token || info.Owner != "locktest" ||
			info.Since.IsZero() || info.Left <= 0 || info.Left > longTTL):
			t.Errorf("inspect of a held key: %+v", info)
		}
	}
	answerAll(t, s.Release, holds[1:], driver.Released)
}

func list(t *testing.T, e *env) {
	s := e.Open(t)
	l := s.(driver.Lister)
	prefix := e.key(t) + ":"
	var want []string
	for i := range min(e.hold(25), 25) {
		want = append(want, fmt.Sprintf("%s%03d", prefix, i))
	}
	// Neighbours that must not be listed, and a key that is just the prefix.
	around := []string{prefix[:len(prefix)-1], prefix[:len(prefix)-1] + ";", prefix[:len(prefix)-1] + "\xff"}
	want = append([]string{prefix}, want...)
	for _, key := range append(around, want...) {
		grant(t, s, driver.Request{Key: key, TTL: longTTL})
	}
	for _, limit := range []int{1, 7, 1000} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			infos, err := l.List(soon(t), prefix, after, limit)
			if err != nil || len(infos) > limit {
				t.Fatalf("list: %d of at most %d, %v", len(infos), limit, err)
			}
			for _, i := range infos {
				if !i.Held || i.Token == 0 || i.Owner != "locktest" {
					t.Errorf("list: a held key is %+v", i)
				}
				got = append(got, i.Key)
			}
			if len(infos) < limit || len(got) > 2*len(want) {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("list in pages of %d:\n got  %q\n want %q", limit, got, want)
		}
	}
	if infos, err := l.List(soon(t), prefix+"none", "", 10); err != nil || len(infos) != 0 {
		t.Errorf("list of a prefix that nothing has: %+v, %v", infos, err)
	}
	if _, err := l.List(soon(t), prefix, "", 0); err == nil {
		t.Error("list with limit 0: no error")
	}
}
