// Rules 16 and 18 of the seam: phases, and the tokens of their holds.

package locktest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamPhase = []testCase{
	{name: "Store_PhaseTokens", run: phaseTokens, needs: modes},
	{name: "Store_PhaseForced", run: phaseForced, needs: modesForcing},
	{name: "Store_PhaseForcedIf", run: phaseForcedIf, needs: modesForcing},
	{name: "Store_PhaseInfo", run: phaseInfo, needs: modes},
	{name: "Store_PhaseBatches", run: phaseBatches, needs: modes},
	{name: "Store_PhaseHints", run: phaseHints, needs: gates},
	{name: "Store_PhaseReaped", run: phaseReaped, needs: func(e *env) bool { return modes(e) && reaping(e) }},
}

// phaseTokens: equal within a phase, rising from phase to phase and per slot.
func phaseTokens(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	top := int64(0)
	above := func(h driver.Hold, what string) {
		t.Helper()
		if h.Token < top+driver.TokenRange && top > 0 {
			Breach(t, "P20", "%s has token %d after %d", what, h.Token, top)
		}
		top = max(top, h.Token)
	}
	h := grant(t, a, writer(key))
	above(h, "a writer")
	answer(t, a.Release, h, driver.Released)
	for range 3 {
		first := grant(t, a, reader(key))
		above(first, "a phase")
		if first.Phase != first.Token || first.Stored != first.Token {
			t.Errorf("P20: a reader has token %d, stored %d, in phase %d", first.Token, first.Stored, first.Phase)
		}
		slot := grant(t, b, slotOf(key, 1))
		if slot.Phase != first.Phase || slot.Token <= first.Phase {
			t.Errorf("P20: a slot has token %d in phase %d, beside a reader in phase %d", slot.Token, slot.Phase, first.Phase)
		}
		top = max(top, slot.Token)
		answer(t, b.Release, slot, driver.Released)
		again := grant(t, a, slotOf(key, 1))
		if again.Token < slot.Token+driver.TokenRange || again.Phase != first.Phase {
			Breach(t, "P20", "the next hold of a slot has token %d in phase %d after %d in %d", again.Token, again.Phase, slot.Token, slot.Phase)
		}
		top = max(top, again.Token)
		second := grant(t, b, reader(key))
		if second.Token != first.Token || second.Phase != first.Phase {
			t.Errorf("P20: two readers of a phase have tokens %d and %d, phases %d and %d", first.Token, second.Token, first.Phase, second.Phase)
		}
		answer(t, a.Release, first, driver.Released)
		answer(t, a.Release, again, driver.Released)
		answer(t, b.Release, second, driver.Released)
		h := grant(t, b, writer(key))
		above(h, "a writer after slots")
		answer(t, b.Release, h, driver.Released)
	}
}

// phaseForced: a forced release ends all holds of a key, and its gate.
func phaseForced(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	holds := []driver.Hold{grant(t, a, reader(key)), grant(t, b, reader(key)), grant(t, a, slotOf(key, 2))}
	if gates(e) {
		if gated := one(t, b, with(writer(key), waiting)); !gated.Gated {
			t.Errorf("P19: a waiting writer in a phase: %+v, want its gate", gated)
		}
	}
	if i := force(t, b, key); !i.Held || i.Readers != 2 || i.Slots != 1 {
		t.Errorf("force release says the key was %+v", i)
	}
	if i := inspect(t, a, key); i.Held {
		t.Errorf("a key after a force release: %+v", i)
	}
	for i, h := range holds {
		s := []driver.Store{a, b}[i%2]
		answer(t, s.Renew, h, driver.Forced)
		answer(t, s.Release, h, driver.Forced)
	}
	h := grant(t, b, reader(key)) // no gate
	if h.Token < holds[2].Token+driver.TokenRange {
		Breach(t, "P20", "token %d after a forced release of %d", h.Token, holds[2].Token)
	}
	ended(t, a, holds[0])
	answer(t, b.Renew, h, driver.Alive)
	answer(t, b.Release, h, driver.Released)
}

// phaseForcedIf: a forced release of the phase that was seen ends all its holds, also those that
// came since, and no later phase or hold.
func phaseForcedIf(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	forcer, ok := b.(driver.ForcerIf)
	if !ok {
		t.Skip("the store has no ForceReleaseIf")
	}
	refused := func(what string, seen driver.Info) {
		t.Helper()
		if _, err := forcer.ForceReleaseIf(soon(t), seen); !errors.Is(err, driver.ErrChanged) || !driver.IsNotApplied(err) {
			t.Errorf("force release of %s: %v, want ErrChanged, not applied", what, err)
		}
	}
	first := grant(t, a, reader(key))
	seen := inspect(t, b, key)
	if seen.Hold != (driver.HoldID{}) {
		t.Errorf("a phase has hold %v, want none: its token names it", seen.Hold)
	}
	other := seen
	other.Token += driver.TokenRange
	refused("another phase", other)
	other = seen
	other.Hold = first.ID
	refused("a reader's ID", other)
	slot := grant(t, b, slotOf(key, 2))
	answer(t, a.Renew, first, driver.Alive)
	answer(t, a.Release, first, driver.Released)
	if gates(e) {
		one(t, b, with(writer(key), waiting)) // its gate
	}
	if i, err := forcer.ForceReleaseIf(soon(t), seen); err != nil || i.Readers != 0 || i.Slots != 1 || i.Token != seen.Token {
		t.Errorf("force release of the phase that was seen: %+v, %v, want one slot", i, err)
	}
	answer(t, b.Renew, slot, driver.Forced)
	refused("a phase that was ended", seen)

	first = grant(t, a, reader(key)) // no gate
	refused("the phase before", seen)
	seen = inspect(t, b, key)
	answer(t, a.Release, first, driver.Released)
	refused("a phase in which nobody is left", seen)
	w := grant(t, a, writer(key))
	refused("the phase before a writer", seen)
	answer(t, a.Renew, w, driver.Alive)
	seen = inspect(t, b, key)
	answer(t, a.Release, w, driver.Released)
	first = grant(t, a, reader(key))
	refused("the writer before a phase", seen)
	answer(t, a.Renew, first, driver.Alive)

	answer(t, a.Release, first, driver.Released)
	kept := grant(t, a, with(slotOf(key, 1), func(q *driver.Request) { q.Keep = longTTL }))
	answer(t, a.Release, kept, driver.Released)
	if i, err := forcer.ForceReleaseIf(soon(t), inspect(t, b, key)); err != nil || !i.Held {
		t.Errorf("force release of a kept slot that was seen: %+v, %v", i, err)
	}
	h := grant(t, b, writer(key))
	answer(t, b.Release, h, driver.Released)
}

// phaseInfo: Inspect and List tell of all holds.
func phaseInfo(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	check := func(what string, readers, slots, free int, gated bool) driver.Info {
		t.Helper()
		i := inspect(t, b, key)
		if i.Readers != readers || i.Slots != slots || readers+slots > 0 && (i.FreeSlot != free || i.Gated != gated) {
			t.Errorf("%s: %+v, want %d readers, %d slots, free slot %d, gated %v", what, i, readers, slots, free, gated)
		}
		if held := readers+slots > 0; i.Held != held || i.InPhase() != held || held != (i.Left > 0) {
			t.Errorf("%s: %+v", what, i)
		}
		return i
	}
	check("a key that never was", 0, 0, 0, false)
	w := grant(t, a, writer(key))
	if i := inspect(t, b, key); i.InPhase() || !i.Held || i.Readers+i.Slots > 0 {
		t.Errorf("an exclusive hold: %+v", i)
	}
	answer(t, a.Release, w, driver.Released)
	first := grant(t, a, with(reader(key), func(q *driver.Request) { q.Owner = "first" }))
	i := check("one reader", 1, 0, 0, false)
	if i.Owner != "first" || i.Token != first.Phase || i.Left > longTTL || i.Left < longTTL/2 {
		t.Errorf("one reader: %+v, want owner first, token %d, some %v left", i, first.Phase, longTTL)
	}
	s0, s1 := grant(t, a, slotOf(key, 3)), grant(t, b, slotOf(key, 3))
	free := 0
	for free == s0.Slot || free == s1.Slot {
		free++
	}
	i = check("a reader and two slots", 1, 2, free, false)
	if i.Token != first.Phase {
		t.Errorf("a phase of token %d: %+v", first.Phase, i)
	}
	if gates(e) {
		if r := one(t, b, with(writer(key), waiting)); !r.Gated {
			t.Errorf("a waiting writer: %+v", r)
		}
		check("a gate", 1, 2, free, true)
	}
	if l, ok := a.(driver.Lister); ok {
		infos, err := l.List(soon(t), key, "", 1)
		if err != nil && len(infos) == 0 {
			t.Errorf("list: %v", err)
		}
		for _, i := range infos {
			if i.Key == key && (i.Readers != 1 || i.Slots != 2 || i.FreeSlot != free) {
				t.Errorf("List has %+v", i)
			}
		}
	}
	answer(t, a.Release, first, driver.Released)
	answer(t, b.Release, s1, driver.Released)
	answer(t, a.Release, s0, driver.Released)
	if i := inspect(t, b, key); i.Held || i.Readers+i.Slots > 0 {
		t.Errorf("after the last release: %+v", i)
	}
}

// phaseBatches: one call of all modes; renewals and releases with several holds of a key.
func phaseBatches(t *testing.T, e *env) {
	s := e.Open(t)
	key, alone := e.key(t), e.key(t)
	holds := []driver.Hold{
		grant(t, s, reader(key)), grant(t, s, slotOf(key, 5)), grant(t, s, slotOf(key, 5)),
		grant(t, s, writer(alone)), grant(t, s, reader(key)), grant(t, s, slotOf(key, 5)),
	}
	gone := grant(t, s, slotOf(key, 5))
	answer(t, s.Release, gone, driver.Released)
	call := append([]driver.Hold{gone}, holds...)
	if e.limits.Batch >= len(call) {
		for i, r := range settle(t, s.Renew, call) {
			if (r.Status == driver.Alive) != (i > 0) {
				t.Errorf("renewal %d of a batch with one key many times: %v", i, r.Status)
			}
		}
		for i, r := range settle(t, s.Release, call[:4]) {
			if i > 0 && r.Status != driver.Released {
				t.Errorf("release %d of a batch with one key many times: %v", i, r.Status)
			}
		}
		if i := inspect(t, s, key); i.Readers != 1 || i.Slots != 1 {
			t.Errorf("P18: after the release of some: %+v", i)
		}
		answerAll(t, s.Renew, call[4:], driver.Alive)
		answerAll(t, s.Release, call[4:], driver.Released)
	} else {
		for _, h := range holds {
			answer(t, s.Release, h, driver.Released)
		}
	}
	var reqs []driver.Request
	for i, k := range []string{e.key(t), e.key(t), e.key(t), key, alone, e.key(t)} {
		q := []driver.Request{writer(k), reader(k), slotOf(k, 2)}[i%3]
		q.Owner = "locktest"
		reqs = append(reqs, q)
	}
	reqs = reqs[:min(len(reqs), e.limits.Batch)]
	var mixed []driver.Hold
	for i, r := range e.askAll(t, s, reqs) {
		if r.Status != driver.Granted {
			t.Errorf("request %d of a batch of all modes: %+v", i, r)
			continue
		}
		mixed = append(mixed, holdOf(reqs[i], r))
	}
	answerAll(t, s.Renew, mixed, driver.Alive)
	answerAll(t, s.Release, mixed, driver.Released)
}

// phaseHints: a refused reader or slot leaves its hint as others do, and a granted one clears
// its own.
func phaseHints(t *testing.T, e *env) {
	inTime(t, driver.HintTime/2, func() string { return phaseHintsOf(t, e.Open(t), e.key(t)) })
}

func phaseHintsOf(t *testing.T, s driver.Store, key string) (wrong string) {
	h := grant(t, s, with(writer(key), func(q *driver.Request) { q.Client = clientA }))
	wanted := func(when string, client uint32) {
		if h := inspect(t, s, key).Wanted; h.Client != client || client > 0 && (h.Left <= 0 || h.Left > driver.HintTime) {
			wrong = fmt.Sprintf("%s: the hint is %+v, want one of client %d", when, h, client)
		}
	}
	asks := func(client uint32) func(*driver.Request) {
		return func(q *driver.Request) { q.Client, q.Wants = client, true }
	}
	heldBy(t, s, with(reader(key), asks(clientB)), "beside a writer")
	wanted("beside a writer", clientB)
	h.Asks = true
	if r := answer(t, s.Release, h, driver.Released); r.Wanted.Client != clientB {
		wrong = fmt.Sprintf("the release tells of %+v, want the hint of %d", r.Wanted, clientB)
	}
	answer(t, s.Release, grant(t, s, with(reader(key), asks(clientB))), driver.Released)
	wanted("after its client was granted", 0)
	one := grant(t, s, with(slotOf(key, 1), asks(clientA)))
	heldBy(t, s, with(slotOf(key, 1), asks(clientC)), "with all slots taken")
	wanted("with all slots taken", clientC)
	answer(t, s.Release, one, driver.Released)
	return wrong
}

// phaseReaped: the reaper ends no live hold of a phase.
func phaseReaped(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	a, b := grant(t, s, reader(key)), grant(t, s, slotOf(key, 2))
	if _, err := s.(driver.Reaper).Reap(soon(t), 24*time.Hour); err != nil {
		t.Errorf("reap: %v", err)
	}
	answer(t, s.Renew, a, driver.Alive)
	answer(t, s.Renew, b, driver.Alive)
	heldBy(t, s, writer(key), "beside a reader and a slot")
	answer(t, s.Release, a, driver.Released)
	answer(t, s.Release, b, driver.Released)
}
