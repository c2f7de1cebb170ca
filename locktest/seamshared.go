// Rule 15 of the seam: holds that may be beside each other, each one of its own.

package locktest

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamShared = []testCase{
	{name: "Store_ModesExclude", run: modesExclude, needs: modes},
	{name: "Store_ModesAfterEachOther", run: modesAfterEachOther, needs: modes},
	{name: "Store_SharedEndsAlone", run: sharedEndsAlone, needs: shared},
	{name: "Store_SharedExpiresAlone", run: sharedExpiresAlone, needs: shared},
	{name: "Store_SharedLateRenewal", run: sharedLateRenewal, needs: modes},
	{name: "Store_SharedUndo", run: sharedUndo, needs: modes},
	{name: "Store_SharedOwnHoldAgain", run: sharedOwnHoldAgain, needs: modes},
	{name: "Store_SharedRenewals", run: sharedRenewals, needs: modes},
	{name: "Store_SharedRenewalsKeepOut", run: sharedRenewalsKeepOut, needs: modes},
}

// writer, reader and slotOf are requests of each mode, with a long TTL.
func writer(key string) driver.Request {
	return driver.Request{Key: key, ID: newID(), TTL: longTTL}
}

func reader(key string) driver.Request {
	return driver.Request{Key: key, ID: newID(), Mode: driver.Shared, TTL: longTTL}
}

func slotOf(key string, n int) driver.Request {
	return driver.Request{Key: key, ID: newID(), Mode: driver.Slot, Slots: n, Slot: -1, TTL: longTTL}
}

// with changes a request.
func with(q driver.Request, change func(*driver.Request)) driver.Request {
	change(&q)
	return q
}

// heldBy checks that a request is refused.
func heldBy(t testing.TB, s driver.Store, q driver.Request, why string) driver.Result {
	t.Helper()
	r := one(t, s, q)
	if r.Status != driver.Held {
		t.Fatalf("P16: a request of mode %v, %s: %+v, want held", q.Mode, why, r)
	}
	return r
}

// ended checks that a hold is over: its renewal and release change nothing.
func ended(t testing.TB, s driver.Store, h driver.Hold) {
	t.Helper()
	over := []driver.Status{driver.Taken, driver.Removed, driver.Forced, driver.Released}
	answer(t, s.Renew, h, over...)
	answer(t, s.Release, h, over...)
}

// modesExclude is the table of driver.Mode.
func modesExclude(t *testing.T, e *env) {
	ask := []func(string) driver.Request{
		writer, reader,
		func(key string) driver.Request { return slotOf(key, 3) },
	}
	for i, first := range ask {
		for j, second := range ask {
			a, b, key := e.Open(t), e.Open(t), e.key(t)
			h := grant(t, a, first(key))
			q := second(key)
			r := one(t, b, q)
			want := driver.Held
			if i > 0 && j > 0 {
				want = driver.Granted
			}
			if r.Status != want {
				t.Errorf("P16: %v beside %v: %v, want %v", q.Mode, h.Mode, r.Status, want)
			}
			if r.Status == driver.Held && r.Shared != (h.Mode != driver.Exclusive && q.Mode == driver.Exclusive) {
				t.Errorf("%v refused by %v: Shared is %v", q.Mode, h.Mode, r.Shared)
			}
			if r.Status == driver.Granted {
				other := holdOf(q, r)
				answer(t, b.Renew, other, driver.Alive)
				answer(t, a.Renew, h, driver.Alive)
				answer(t, b.Release, other, driver.Released)
			}
			answer(t, a.Release, h, driver.Released)
		}
	}
}

// modesAfterEachOther takes a key in each order of modes, released each time.
func modesAfterEachOther(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	var last driver.Hold
	for i, q := range []driver.Request{
		reader(key), writer(key), slotOf(key, 2), writer(key), writer(key), reader(key), slotOf(key, 2), reader(key), writer(key),
	} {
		s := []driver.Store{a, b}[i%2]
		h := grant(t, s, q)
		if h.Mode == driver.Exclusive && h.Token < last.Token+driver.TokenRange || h.Token < last.Token && h.Mode != driver.Shared {
			Breach(t, "P20", "token %d of mode %v was granted after %d of mode %v", h.Token, h.Mode, last.Token, last.Mode)
		}
		answer(t, s.Release, h, driver.Released)
		answer(t, s.Release, h, driver.Released, driver.Removed, driver.Taken)
		last = h
	}
}

// sharedEndsAlone: the end of one reader is not the end of others, and a writer gets the key
// after the last.
func sharedEndsAlone(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	stores := []driver.Store{a, b, a, b, a, b}
	var readers []driver.Hold
	for _, s := range stores {
		readers = append(readers, grant(t, s, reader(key)))
	}
	for i, h := range readers {
		heldBy(t, b, writer(key), "beside readers")
		answer(t, stores[i].Release, h, driver.Released)
		for j := i + 1; j < len(readers); j++ {
			answer(t, stores[j].Renew, readers[j], driver.Alive)
		}
	}
	h := grant(t, b, writer(key))
	for i, r := range readers {
		ended(t, stores[i], r)
	}
	answer(t, b.Renew, h, driver.Alive)
	answer(t, b.Release, h, driver.Released)
}

// sharedExpiresAlone: a reader that is not renewed ends within its TTL, whatever others do,
// and they go on.
func sharedExpiresAlone(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	silent := grant(t, a, with(reader(key), func(q *driver.Request) { q.TTL = e.short }))
	lives := grant(t, b, reader(key))
	until(t, "the reader that is not renewed has expired", func() bool { return inspect(t, b, key).Readers == 1 })
	heldBy(t, b, writer(key), "beside a reader that lives")
	answer(t, b.Renew, lives, driver.Alive)
	answer(t, b.Release, lives, driver.Released)
	h := grant(t, b, writer(key))
	ended(t, a, silent)
	answer(t, b.Renew, h, driver.Alive)
	answer(t, b.Release, h, driver.Released)
}

// sharedLateRenewal: a hold that has expired and was ended by a writer, or whose slot another
// has, is not revived by a renewal.
func sharedLateRenewal(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	short := func(q *driver.Request) { q.TTL = e.limits.MinTTL }
	late := []driver.Hold{
		grant(t, s, with(reader(key), short)),
		grant(t, s, with(slotOf(key, 1), short)),
	}
	expired(t, s, key)
	h := grant(t, s, slotOf(key, 1))
	if h.Token < late[1].Token+driver.TokenRange {
		Breach(t, "P20", "the slot's token is %d after %d", h.Token, late[1].Token)
	}
	ended(t, s, late[1])
	answer(t, s.Renew, h, driver.Alive)
	answer(t, s.Release, h, driver.Released)
	w := grant(t, s, writer(key))
	ended(t, s, late[0])
	ended(t, s, h)
	heldBy(t, s, reader(key), "beside a writer")
	answer(t, s.Release, w, driver.Released)
	next := grant(t, s, reader(key))
	ended(t, s, late[0])
	answer(t, s.Release, next, driver.Released)
}

// sharedUndo: the undo of one attempt ends that one, and nothing else; by its ID, also where
// the slot is not known.
func sharedUndo(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	a, b := grant(t, s, reader(key)), grant(t, s, reader(key))
	c, d := grant(t, s, slotOf(key, 4)), grant(t, s, with(slotOf(key, 4), func(q *driver.Request) { q.Keep = longTTL }))
	undo := func(h driver.Hold, want ...driver.Status) {
		t.Helper()
		answer(t, s.Release, driver.Hold{Key: key, ID: h.ID, TTL: longTTL, Keep: h.Keep, Mode: h.Mode, Slot: -1, Undo: true}, want...)
	}
	none := []driver.Status{driver.Removed, driver.Released, driver.Taken}
	undo(driver.Hold{ID: newID(), Mode: driver.Shared}, none...)
	undo(driver.Hold{ID: newID(), Mode: driver.Slot}, none...)
	undo(a, driver.Released)
	undo(d, driver.Released)
	undo(d, none...)
	if i := inspect(t, s, key); i.Readers != 1 || i.Slots != 1 {
		t.Errorf("P18: after the undo of one reader and one slot of two: %+v", i)
	}
	answer(t, s.Renew, b, driver.Alive)
	answer(t, s.Renew, c, driver.Alive)
	undo(c, driver.Released)
	undo(b, driver.Released)
	answer(t, s.Release, grant(t, s, writer(key)), driver.Released)
}

// sharedOwnHoldAgain repeats acquires whose reply may have been lost.
func sharedOwnHoldAgain(t *testing.T, e *env) {
	s, other, key := e.Open(t), e.Open(t), e.key(t)
	for _, q := range []driver.Request{reader(key), slotOf(key, 3)} {
		h := grant(t, s, q)
		before := inspect(t, s, key)
		stores := []driver.Store{s}
		if !e.limits.Heartbeat {
			stores = append(stores, other)
		}
		for _, s := range stores {
			if r := one(t, s, q); r.Status != driver.Granted || holdOf(q, r) != h {
				t.Errorf("an acquire of mode %v that finds its own hold: %+v, want %+v", q.Mode, r, h)
			}
		}
		if after := inspect(t, s, key); after.Readers != before.Readers || after.Slots != before.Slots || after.Left > before.Left {
			t.Errorf("an acquire of mode %v that finds its own hold changed the key from %+v to %+v", q.Mode, before, after)
		}
		defer answer(t, s.Release, h, driver.Released)
	}
}

// sharedRenewals: they never shorten, and stop at MaxHold.
func sharedRenewals(t *testing.T, e *env) {
	s := e.Open(t)
	for _, ask := range []func(string) driver.Request{reader, func(key string) driver.Request { return slotOf(key, 2) }} {
		key := e.key(t)
		h := grant(t, s, ask(key))
		late := h
		late.TTL, late.MaxHold = e.limits.MinTTL, e.limits.MinTTL
		answer(t, s.Renew, late, driver.Alive)
		if i := inspect(t, s, key); i.Left < longTTL/2 {
			t.Errorf("a renewal for %v cut a hold of mode %v and %v to %v", late.TTL, h.Mode, longTTL, i.Left)
		}
		h.TTL = 2 * longTTL
		answer(t, s.Renew, h, driver.Alive)
		if i := inspect(t, s, key); i.Left <= longTTL || i.Left > 2*longTTL {
			t.Errorf("a renewal of mode %v for %v left %v", h.Mode, h.TTL, i.Left)
		}
		answer(t, s.Release, h, driver.Released)

		h = grant(t, s, with(ask(key), func(q *driver.Request) { q.TTL = 10 * time.Second }))
		h.TTL, h.MaxHold = longTTL, time.Minute
		answer(t, s.Renew, h, driver.Alive)
		if i := inspect(t, s, key); i.Left > time.Minute {
			t.Errorf("a renewal of mode %v with MaxHold %v left %v", h.Mode, h.MaxHold, i.Left)
		}
		answer(t, s.Release, h, driver.Released)
	}
}

// sharedRenewalsKeepOut: a reader or slot that was renewed keeps exclusive requests out after the end that its grant
// had, whether or not they wait.
func sharedRenewalsKeepOut(t *testing.T, e *env) {
	a, b := e.Open(t), e.Open(t)
	short := func(q *driver.Request) { q.TTL = e.short }
	for _, ask := range []func(string) driver.Request{reader, func(key string) driver.Request { return slotOf(key, 2) }} {
		key, other := e.key(t), e.key(t)
		h := grant(t, a, with(ask(key), short))
		grant(t, a, with(reader(other), short)) // which ends after the grant of h would have
		h.TTL = longTTL
		answer(t, a.Renew, h, driver.Alive)
		expired(t, b, other)
		if i := inspect(t, b, key); !i.Held || i.Left < longTTL/2 {
			t.Errorf("P16: a hold of mode %v that was renewed for %v: %+v", h.Mode, h.TTL, i)
		}
		heldBy(t, b, writer(key), "beside a hold that was renewed")
		w := with(writer(key), waiting)
		heldBy(t, b, w, "beside a hold that was renewed")
		heldBy(t, b, with(writer(key), after(w.ID)), "with its gate, beside a hold that was renewed")
		answer(t, a.Renew, h, driver.Alive)
		answer(t, a.Release, h, driver.Released)
	}
}
