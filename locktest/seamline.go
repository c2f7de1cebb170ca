// Rules 19 to 23 of the seam: the line of a key. Steps that its cases make are in linesteps.go.

package locktest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/driver"
)

var seamLine = []testCase{
	{name: "Store_LineOrder", run: lineOrder, needs: lines},
	{name: "Store_LineRepeats", run: lineRepeats, needs: lines},
	{name: "Store_LineNewcomers", run: lineNewcomers, needs: lines},
	{name: "Store_LineLeave", run: lineLeave, needs: lines},
	{name: "Store_LineNext", run: lineNext, needs: lines},
	{name: "Store_LineFull", run: lineFull, needs: lines},
	{name: "Store_LineConfirm", run: lineConfirm, needs: lines},
	{name: "Store_LinePassed", run: linePassed, needs: lines},
	{name: "Store_LineBatch", run: lineBatch, needs: lines},
}

// lineOrder: twelve that stand are passed the key in their order, each by the release of the one before.
func lineOrder(t *testing.T, e *env) {
	const n = 12
	key := e.key(t)
	stores := []driver.Store{e.Open(t), e.Open(t)}
	first := grant(t, stores[0], writer(key))
	var all []driver.Request
	for i := range n {
		all = append(all, stand(t, stores[i%2], waiter(key), i+1, i+1))
	}
	inOrder(t, stores[0], all...)
	h := first
	for i, q := range all {
		s, other := stores[i%2], stores[(i+1)%2]
		answer(t, other.Release, h, driver.Released)
		next := passed(t, s, q)
		rises(t, h, next)
		if r := ask(t, s, q); r.Status != driver.Granted || r.Token != next.Token || r.Left <= 0 || r.Left > q.Claim {
			t.Errorf("P29: the acquire of one to which the key was passed: %+v, want token %d", r, next.Token)
		}
		if i+1 < n {
			notPassed(t, other, all[i+1], "behind one to which the key was passed")
			last := look(t, other, all[n-1])[0]
			if last.Place != n-1-i || last.Standing != n-1-i || last.Mine || last.Free || last.First <= 0 {
				t.Errorf("P29: a look of the last in the line after pass %d of %d: %+v", i+1, n, last)
			}
		}
		answer(t, s.Renew, next, driver.Alive)
		h = next
	}
	answer(t, stores[0].Release, h, driver.Released)
	nobodyStands(t, stores[0], key)
	last := grant(t, stores[1], writer(key))
	rises(t, h, last)
	answer(t, stores[1].Release, last, driver.Released)
}

// lineRepeats: a step that comes again, or late, changes nothing.
func lineRepeats(t *testing.T, e *env) {
	s, other, key := e.Open(t), e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	all := standAll(t, s, key, 3)
	for i := range all {
		stand(t, other, all[i], i+1, 3)
	}
	holds := []driver.Hold{h}
	for i, q := range all {
		answer(t, s.Release, holds[i], driver.Released)
		next := passed(t, other, q)
		for _, old := range append(holds, holds[i]) {
			ended(t, s, old)
		}
		if r := ask(t, other, q); r.Status != driver.Granted || r.Token != next.Token { // its stand comes again
			t.Errorf("P29: a stand that comes again after the pass: %+v", r)
		}
		answer(t, other.Renew, next, driver.Alive)
		if i < 2 {
			inOrder(t, other, all[i+1:]...)
		}
		holds = append(holds, next)
	}
	nobodyStands(t, s, key)
	last := holds[len(holds)-1]
	answer(t, s.Release, last, driver.Released)
	answer(t, s.Release, last, driver.Released, driver.Removed)
	answer(t, s.Release, grant(t, s, writer(key)), driver.Released)
}

// lineNewcomers: a request that does not stand is granted nothing while others stand. It passes a free key to the first.
func lineNewcomers(t *testing.T, e *env) {
	s, other, key := e.Open(t), e.Open(t), e.key(t)
	refused := func(why string) {
		t.Helper()
		if r := ask(t, other, writer(key)); r.Status != driver.Held || r.Place != 0 {
			t.Fatalf("P29: a request without Stand, %s: %+v, want held", why, r)
		}
	}
	h := grant(t, s, with(writer(key), func(q *driver.Request) { q.Guarded = true }))
	all := standAll(t, s, key, 3)
	refused("of a held key")
	inOrder(t, s, all...)
	for i, pass := range []func(){
		func() { refused("of a free key with a line") },
		func() { stand(t, other, all[2], 1, 1) },
		func() {
			if r := ask(t, other, all[2]); r.Status != driver.Granted {
				t.Errorf("P29: the first in the line asks for a free key: %+v", r)
			}
		},
	} {
		h.Guarded = true // so its release passes the key to nobody
		answer(t, s.Release, h, driver.Released)
		if v := notPassed(t, s, all[i], "after the release of a guarded hold"); !v.Free || v.Pinned || v.Left != 0 {
			t.Errorf("P29: a look at a key that is free: %+v", v)
		}
		pass()
		v := look(t, s, all[i])[0]
		if !v.Mine || v.Place != 0 {
			t.Fatalf("P29: a look of the first after acquire %d of a free key: %+v", i, v)
		}
		next := mine(all[i], v)
		rises(t, h, next)
		h = next
	}
	nobodyStands(t, s, key)
	answer(t, s.Release, h, driver.Released)
}

// lineLeave: who leaves is passed over, wherever it stood, and nobody else's place is lost.
func lineLeave(t *testing.T, e *env) {
	s, other, key := e.Open(t), e.Open(t), e.key(t)
	h := grant(t, s, with(writer(key), func(q *driver.Request) { q.Guarded = true }))
	all := standAll(t, s, key, 7)
	leave(t, other, all[0], driver.Released)
	inOrder(t, s, all[1:]...)
	leave(t, other, all[2], driver.Released)
	leave(t, other, all[6], driver.Released)
	gone := []driver.Status{driver.Released, driver.Removed, driver.Taken, driver.Forced}
	leave(t, other, all[2], gone...) // twice
	leave(t, other, waiter(key), gone...)
	inOrder(t, s, all[1], all[3], all[4], all[5])
	answer(t, s.Renew, h, driver.Alive)

	// While the key is free: it is passed to the next.
	answer(t, s.Release, h, driver.Released)
	notPassed(t, s, all[1], "after the release of a guarded hold")
	leave(t, other, all[1], driver.Released)
	next := passed(t, s, all[3])
	rises(t, h, next)
	inOrder(t, s, all[4], all[5])

	// After the key was passed to it.
	leave(t, other, all[3], driver.Released)
	ended(t, s, next)
	last := passed(t, s, all[4])
	rises(t, next, last)
	leave(t, other, all[5], driver.Released)
	nobodyStands(t, s, key)
	answer(t, s.Release, last, driver.Released)
	answer(t, s.Release, grant(t, s, writer(key)), driver.Released)
}

// lineNext: a release adds the next request of its client.
func lineNext(t *testing.T, e *env) {
	s, other, key := e.Open(t), e.Open(t), e.key(t)
	release := func(h driver.Hold, next driver.Request, want driver.Status, places ...int) {
		t.Helper()
		h.Next = &next
		if r := answer(t, s.Release, h, want); !slices.Contains(places, r.Place) {
			t.Errorf("P29: the next request of a release stands at place %d, want %v", r.Place, places)
		}
	}
	h, alone := grant(t, s, writer(key)), waiter(key)
	release(h, alone, driver.Released, 0, 1)
	got := gets(t, s, alone)
	rises(t, h, got)
	nobodyStands(t, s, key)

	all := standAll(t, other, key, 2)
	next := waiter(key)
	release(got, next, driver.Released, 0, 2)
	first := passed(t, other, all[0])
	rises(t, got, first)
	inOrder(t, s, all[1], next)
	ended(t, s, got)
	inOrder(t, s, all[1], next)
	stand(t, s, next, 2, 2)

	late := waiter(key)
	release(got, late, driver.Taken, 0) // whose hold is another's now adds nothing
	if v := look(t, s, late)[0]; v.Place != 0 || v.Mine || v.Standing != 2 {
		t.Errorf("P29: the next request of a hold that is taken: %+v", v)
	}

	first.Guarded = true
	behind := waiter(key)
	release(first, behind, driver.Released, 0, 3)
	inOrder(t, s, all[1], next, behind) // passed to nobody
	answer(t, other.Release, gets(t, other, all[1]), driver.Released)
	answer(t, s.Release, passed(t, s, next), driver.Released)
	answer(t, s.Release, passed(t, s, behind), driver.Released)
}

// lineFull: one too many has no place, until another leaves.
func lineFull(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	all := standAll(t, s, key, driver.MaxLine)
	late := stand(t, s, waiter(key), 0, driver.MaxLine)
	if v := look(t, s, late)[0]; v.Place != 0 || v.Standing != driver.MaxLine || v.Free || v.Mine {
		t.Errorf("P29: a look of one too many: %+v", v)
	}
	stand(t, s, all[0], 1, driver.MaxLine)
	stand(t, s, all[driver.MaxLine-1], driver.MaxLine, driver.MaxLine)
	leave(t, s, all[5], driver.Released)
	stand(t, s, late, driver.MaxLine, driver.MaxLine)
	answer(t, s.Release, h, driver.Released)
	h = passed(t, s, all[0])
	next := waiter(key)
	h.Next = &next
	answer(t, s.Release, h, driver.Released)
	passed(t, s, all[1])
	if v := look(t, s, late)[0]; v.Place != driver.MaxLine-2 || v.Standing > driver.MaxLine-1 {
		t.Errorf("P29: a look of the last after two passes: %+v", v)
	}
}

// lineConfirm: a renewal writes what a pass could not.
func lineConfirm(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, with(writer(key), func(q *driver.Request) { q.Owner = "first" }))
	q := stand(t, s, with(waiter(key), func(q *driver.Request) { q.Owner, q.Keep = "second", longTTL }), 1, 1)
	answer(t, s.Release, h, driver.Released)
	h = passed(t, s, q)
	if i := inspect(t, s, key); i.Owner == "first" || !i.Held || i.Left > q.Claim {
		t.Errorf("a key that was passed to another: %+v", i)
	}
	answer(t, s.Renew, h, driver.Alive)
	h.Owner, h.Confirm = q.Owner, true
	until(t, "the renewal confirms the hold", func() bool {
		return settle(t, s.Renew, []driver.Hold{h})[0].Status == driver.Alive
	})
	if i := inspect(t, s, key); i.Owner != "second" || i.Left <= driver.MaxClaim {
		t.Errorf("a key that was passed to another and renewed: %+v", i)
	}
	answer(t, s.Release, h, driver.Released)
	if i := inspect(t, s, key); !i.Held || !i.Kept {
		t.Errorf("P29: after the release of a hold that MinHold keeps: %+v", i)
	}
}

// linePassed: the acquire of one to which the key was passed says so, however long its claim is beside its TTL: what it asked for is not
// written yet, so MinHold would be lost.
func linePassed(t *testing.T, e *env) {
	s := e.Open(t)
	for _, mode := range []driver.Mode{driver.Exclusive, driver.Slot} {
		if mode == driver.Slot && !slots(e) {
			continue
		}
		for _, owner := range []string{"second", ""} {
			what := fmt.Sprintf("mode %v, owner %q", mode, owner)
			var all []driver.Request
			for range 3 {
				key := e.key(t)
				h := grant(t, s, writer(key))
				all = append(all, stand(t, s, with(waiter(key), func(q *driver.Request) {
					q.Mode, q.Owner, q.TTL, q.Keep = mode, owner, q.Claim/2, longTTL
					if mode == driver.Slot {
						q.Slots, q.Slot = 1, -1
					}
				}), 1, 1))
				answer(t, s.Release, h, driver.Released)
			}
			results := []driver.Result{ask(t, s, all[0])}
			batch, err := s.Acquire(soon(t), all[1:])
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for i, r := range append(results, batch...) {
				if r.Status != driver.Granted {
					t.Fatalf("P29: %s: the acquire of one to which the key was passed: %+v", what, r)
				}
				if r.Left > 0 { // it was passed, and is not what was asked for
					continue
				}
				answer(t, s.Release, holdOf(all[i], r), driver.Released)
				if r := ask(t, s, writer(all[i].Key)); r.Status != driver.Held {
					t.Errorf("P24: %s: request %d was answered like a new grant, and its release kept nothing: %+v", what, i, r)
				}
			}
		}
	}
}
