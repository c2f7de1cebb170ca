// Rule 17 of the seam: the gate of a waiting writer.

package locktest

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamGate = []testCase{
	{name: "Store_GateKeepsOut", run: gateKeepsOut, needs: gates},
	{name: "Store_GateOfOne", run: gateOfOne, needs: gates},
	{name: "Store_GateUndone", run: gateUndone, needs: gates},
	{name: "Store_GateEnds", run: gateEnds, needs: gates},
	{name: "Store_GateOfTry", run: gateOfTry, needs: gates},
	{name: "Store_GateEndsWithTheGrant", run: gateEndsWithTheGrant, needs: gates},
	{name: "Store_GateAfter", run: gateAfter, needs: gates},
	{name: "Store_GateOnlyInAPhase", run: gateOnlyInAPhase, needs: gates},
}

// waiting makes a request one of a caller that waits, whose gate stands for long.
func waiting(q *driver.Request) {
	q.Wants, q.Client, q.GateTime = true, clientA, longTTL
}

// after makes a request the next one of the same waiting client.
func after(before driver.HoldID) func(*driver.Request) {
	return func(q *driver.Request) {
		waiting(q)
		q.Gate = before
	}
}

// gateKeepsOut: while it stands no reader or slot comes, those that are there go on, and after
// them its client gets the key.
func gateKeepsOut(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	holds := []driver.Hold{grant(t, a, reader(key)), grant(t, a, slotOf(key, 4))}
	w := with(writer(key), waiting)
	if r := heldBy(t, b, w, "in a phase"); !r.Gated || !r.Shared {
		t.Fatalf("P19: a waiting writer in a phase: %+v, want Shared and Gated", r)
	}
	for _, s := range []driver.Store{a, b} {
		heldBy(t, s, reader(key), "behind a gate")
		heldBy(t, s, slotOf(key, 4), "behind a gate")
		heldBy(t, s, writer(key), "in a phase with a gate")
	}
	for _, h := range holds {
		answer(t, a.Renew, h, driver.Alive)
		next := with(writer(key), after(w.ID))
		if r := heldBy(t, b, next, "in a phase, with its gate"); !r.Gated {
			t.Errorf("P19: the next request of a writer whose gate stands: %+v", r)
		}
		w = next
		answer(t, a.Release, h, driver.Released)
	}
	heldBy(t, a, reader(key), "behind a gate, with nobody there")
	next := with(writer(key), after(w.ID))
	r := one(t, b, next)
	if r.Status != driver.Granted {
		t.Fatalf("P19: a writer whose gate stands, with nobody there: %+v", r)
	}
	h := holdOf(next, r)
	heldBy(t, a, reader(key), "beside a writer")
	answer(t, b.Release, h, driver.Released)
	answer(t, a.Release, grant(t, a, reader(key)), driver.Released)
}

// gateOfOne: one gate stands at a time, and a writer without it does not get the key.
func gateOfOne(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	h := grant(t, a, reader(key))
	w, other := with(writer(key), waiting), with(writer(key), waiting)
	if r := heldBy(t, a, w, "in a phase"); !r.Gated {
		t.Fatalf("P19: a waiting writer in a phase: %+v", r)
	}
	for range 2 {
		if r := heldBy(t, b, other, "in a phase with another's gate"); r.Gated {
			t.Errorf("P19: two gates stand: %+v", r)
		}
		other = with(writer(key), after(other.ID))
	}
	answer(t, a.Release, h, driver.Released)
	heldBy(t, b, other, "with another's gate")
	next := with(writer(key), after(w.ID))
	r := one(t, a, next)
	if r.Status != driver.Granted {
		t.Fatalf("P19: the writer whose gate stands: %+v", r)
	}
	answer(t, a.Release, holdOf(next, r), driver.Released)
	answer(t, b.Release, grant(t, b, with(writer(key), after(other.ID))), driver.Released)
}

// gateUndone: a writer that gives up clears its gate, and no other's.
func gateUndone(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	h := grant(t, a, reader(key))
	w := with(writer(key), waiting)
	heldBy(t, b, w, "in a phase")
	none := []driver.Status{driver.Removed, driver.Released, driver.Taken}
	answer(t, a.Release, driver.Hold{Key: key, ID: newID(), TTL: longTTL, Undo: true}, none...)
	heldBy(t, a, reader(key), "behind a gate, after the undo of another attempt")
	answer(t, b.Release, driver.Hold{Key: key, ID: w.ID, TTL: longTTL, Undo: true}, none...)
	other := grant(t, a, reader(key))
	if other.Token != h.Token {
		Breach(t, "P20", "the gate was cleared, and a reader has token %d after %d", other.Token, h.Token)
	}
	answer(t, a.Renew, h, driver.Alive)
	answer(t, a.Release, h, driver.Released)
	answer(t, a.Release, other, driver.Released)
}

// gateEnds by itself: a writer that died delays others for no longer.
func gateEnds(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, reader(key))
	began := time.Now()
	w := with(writer(key), func(q *driver.Request) { waiting(q); q.GateTime = 2 * e.short })
	if r := heldBy(t, s, w, "in a phase"); !r.Gated {
		t.Fatalf("P19: a waiting writer in a phase: %+v", r)
	}
	next := grant(t, s, reader(key)) // waits for it
	if took := time.Since(began); took < 2*e.short-slack {
		t.Errorf("P19: a reader came %v after a gate of %v", took, w.GateTime)
	}
	// A gate that is over is nobody's, so that the writer leaves it anew.
	if r := heldBy(t, s, with(writer(key), after(w.ID)), "in a phase"); !r.Gated {
		t.Errorf("P19: a writer whose gate was over: %+v", r)
	}
	heldBy(t, s, reader(key), "behind a gate")
	answer(t, s.Release, h, driver.Released)
	answer(t, s.Release, next, driver.Released)
}

// gateOfTry: a writer that does not wait leaves none.
func gateOfTry(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	h := grant(t, a, reader(key))
	for range 2 {
		if r := heldBy(t, b, writer(key), "in a phase"); r.Gated || !r.Shared {
			t.Errorf("P19: a writer that does not wait: %+v, want Shared without Gated", r)
		}
		answer(t, a.Release, grantNow(t, a, reader(key)), driver.Released)
	}
	answer(t, a.Release, h, driver.Released)
	answer(t, b.Release, grantNow(t, b, writer(key)), driver.Released)
}

// grantNow takes a key that is free.
func grantNow(t testing.TB, s driver.Store, q driver.Request) driver.Hold {
	t.Helper()
	r := one(t, s, q)
	if r.Status != driver.Granted {
		t.Fatalf("a request of mode %v for a key that is free for it: %+v", q.Mode, r)
	}
	return holdOf(q, r)
}

// gateEndsWithTheGrant: a phase after it begins without one.
func gateEndsWithTheGrant(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, slotOf(key, 1))
	w := with(writer(key), waiting)
	heldBy(t, s, w, "beside a slot")
	answer(t, s.Release, h, driver.Released)
	next := with(writer(key), after(w.ID))
	answer(t, s.Release, grantNow(t, s, next), driver.Released)
	r := grantNow(t, s, reader(key))
	if i := inspect(t, s, key); i.Gated {
		t.Errorf("P19: a phase after a writer: %+v", i)
	}
	answer(t, s.Release, grantNow(t, s, reader(key)), driver.Released)
	answer(t, s.Release, r, driver.Released)
}

// gateAfter: a phase that begins with a reader that waited has a time without a gate.
func gateAfter(t *testing.T, e *env) {
	s := e.Open(t)
	until(t, "a writer asked early enough", func() bool {
		key := e.key(t)
		began := time.Now()
		h := grantNow(t, s, with(reader(key), func(q *driver.Request) { q.Waited = true }))
		first := with(writer(key), waiting)
		r := heldBy(t, s, first, "in a phase")
		early := time.Since(began) < driver.GateAfter-slack
		if early && r.Gated {
			t.Fatalf("P19: a gate stands less than %v after the phase began for a reader that had waited", driver.GateAfter)
		}
		last := first.ID
		until(t, "the writer's gate stands", func() bool {
			q := with(writer(key), after(last))
			r = heldBy(t, s, q, "in a phase")
			last = q.ID
			return r.Gated
		})
		heldBy(t, s, reader(key), "behind a gate")
		answer(t, s.Release, h, driver.Released)
		return early
	})
	key := e.key(t)
	h := grantNow(t, s, reader(key)) // that did not wait
	if r := heldBy(t, s, with(writer(key), waiting), "in a phase"); !r.Gated {
		t.Errorf("P19: no gate in a phase whose first reader had not waited: %+v", r)
	}
	answer(t, s.Release, h, driver.Released)
}

// gateOnlyInAPhase: a writer that waits for another leaves none.
func gateOnlyInAPhase(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, writer(key))
	if r := heldBy(t, s, with(writer(key), waiting), "beside a writer"); r.Gated || r.Shared {
		t.Errorf("a writer that waits for another: %+v", r)
	}
	answer(t, s.Release, h, driver.Released)
	next := grantNow(t, s, reader(key))
	answer(t, s.Release, grantNow(t, s, reader(key)), driver.Released)
	answer(t, s.Release, next, driver.Released)
}
