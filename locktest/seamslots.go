// Rule 15 of the seam: slots.

package locktest

import (
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamSlots = []testCase{
	{name: "Store_SlotNumbers", run: slotNumbers, needs: slots},
	{name: "Store_SlotsDisagree", run: slotsDisagree, needs: slots},
	{name: "Store_SlotTriedFirst", run: slotTriedFirst, needs: slots},
	{name: "Store_SlotRace", run: slotRace, needs: slots},
	{name: "Store_SlotKeep", run: slotKeep, needs: slots},
	{name: "Store_SlotLeft", run: slotLeft, needs: slots},
	{name: "Store_SlotsMany", run: slotsMany, needs: slots},
}

// slotNumbers: n requests get n numbers, and the next one none until one is free.
func slotNumbers(t *testing.T, e *env) {
	const n = 4
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	var holds [n]driver.Hold
	var stores [n]driver.Store
	for i := range n {
		s := []driver.Store{a, b}[i%2]
		h := grant(t, s, slotOf(key, n))
		if h.Slot < 0 || h.Slot >= n || holds[h.Slot].Key != "" {
			t.Fatalf("P17: hold %d has slot %d of %d, the others %+v", i, h.Slot, n, holds)
		}
		holds[h.Slot], stores[h.Slot] = h, s
	}
	for i, h := range holds {
		heldBy(t, b, slotOf(key, n), "with all slots taken")
		answer(t, stores[i].Release, h, driver.Released)
		next := grant(t, b, slotOf(key, n))
		if next.Slot != i || next.Token < h.Token+driver.TokenRange {
			t.Errorf("P17: slot %d (token %d) was granted when %d (token %d) was free", next.Slot, next.Token, i, h.Token)
		}
		ended(t, stores[i], h)
		answer(t, b.Renew, next, driver.Alive)
		holds[i] = next
	}
	answerAllOf(t, e, b.Release, holds[:], driver.Released)
}

// answerAllOf is answerAll in calls that the Store takes.
func answerAllOf(t testing.TB, e *env, do step, holds []driver.Hold, want driver.Status) {
	t.Helper()
	for len(holds) > 0 {
		n := min(len(holds), e.limits.Batch)
		answerAll(t, do, holds[:n], want)
		holds = holds[n:]
	}
}

// slotsDisagree: each request gets a slot below its own number.
func slotsDisagree(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	var low []driver.Hold
	for range 2 {
		low = append(low, grant(t, s, slotOf(key, 2)))
	}
	high := grant(t, s, slotOf(key, 5))
	if high.Slot < 2 || high.Slot > 4 {
		t.Errorf("P17: a slot of 5 with 0 and 1 taken is %d", high.Slot)
	}
	heldBy(t, s, slotOf(key, 2), "with its two slots taken")
	answer(t, s.Release, high, driver.Released)
	heldBy(t, s, slotOf(key, 2), "with its two slots taken and another free")
	high = grant(t, s, with(slotOf(key, 5), func(q *driver.Request) { q.Slot = 4 }))
	if high.Slot != 4 {
		t.Errorf("P17: slot %d was granted where 4 was free and asked for", high.Slot)
	}
	answer(t, s.Release, low[0], driver.Released)
	if r := one(t, s, slotOf(key, 1)); (r.Status == driver.Granted) != (low[0].Slot == 0) {
		t.Errorf("P17: a slot of 1 with slot %d free: %v", low[0].Slot, r.Status)
	} else if r.Status == driver.Granted && r.Slot != 0 {
		t.Errorf("P17: slot %d of 1", r.Slot)
	}
	heldBy(t, s, writer(key), "beside slots")
}

// slotTriedFirst: a client gets the slot it had, if that is free and below its number.
func slotTriedFirst(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	first := func(n, slot int) driver.Request {
		return with(slotOf(key, n), func(q *driver.Request) { q.Slot = slot })
	}
	for _, want := range []int{3, 0, 2} {
		h := grant(t, s, first(4, want))
		if h.Slot != want {
			t.Errorf("slot %d was granted where %d was free and asked for", h.Slot, want)
		}
		if other := grant(t, s, first(4, want)); other.Slot == want {
			t.Errorf("P17: slot %d was granted twice", want)
		} else {
			answer(t, s.Release, other, driver.Released)
		}
		answer(t, s.Release, h, driver.Released)
	}
	for _, beyond := range []int{2, 3, driver.MaxSlots} {
		h := grant(t, s, first(2, beyond))
		if h.Slot > 1 {
			t.Errorf("P17: slot %d of 2", h.Slot)
		}
		answer(t, s.Release, h, driver.Released)
	}
}

// slotRace has more requests than slots at the same time.
func slotRace(t *testing.T, e *env) {
	const n = 3
	key := e.key(t)
	var mu sync.Mutex
	holder := make(map[int]driver.HoldID)
	grants := 0
	var wg sync.WaitGroup
	for range e.load(12) {
		s := e.Open(t)
		wg.Go(func() {
			for range 6 {
				q := slotOf(key, n)
				r := one(t, s, q)
				if r.Status != driver.Granted {
					time.Sleep(time.Millisecond)
					continue
				}
				h := holdOf(q, r)
				mu.Lock()
				if other, taken := holder[h.Slot]; taken || h.Slot >= n {
					t.Errorf("P17: slot %d of %d was granted while hold %v has it", h.Slot, n, other)
				}
				holder[h.Slot] = h.ID
				grants++
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
				mu.Lock()
				delete(holder, h.Slot)
				mu.Unlock()
				answer(t, s.Release, h, driver.Released)
			}
		})
	}
	wg.Wait()
	if grants == 0 {
		t.Error("no grant was seen")
	}
}

// slotKeep: MinHold keeps the slot, not the others.
func slotKeep(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, with(slotOf(key, 1), func(q *driver.Request) { q.TTL, q.Keep = longTTL/4, longTTL }))
	answer(t, s.Release, h, driver.Released)
	heldBy(t, s, slotOf(key, 1), "with its slot kept")
	heldBy(t, s, writer(key), "with a slot kept")
	w := with(writer(key), waiting)
	heldBy(t, s, w, "with a slot kept")
	next := with(writer(key), after(w.ID))
	heldBy(t, s, next, "with its gate and a slot kept")
	answer(t, s.Release, driver.Hold{Key: key, ID: next.ID, TTL: longTTL, Undo: true}, driver.Removed, driver.Released, driver.Taken)
	other := grant(t, s, slotOf(key, 2))
	if other.Slot != 1 {
		t.Errorf("P17: slot %d while 0 is kept", other.Slot)
	}
	answer(t, s.Release, other, driver.Released)
	if i := inspect(t, s, key); !i.Held {
		t.Errorf("a key with a slot kept: %+v", i)
	}
}

// slotLeft: an expired slot is granted again, by the server's clock.
func slotLeft(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	ttl := 2 * e.short
	began := time.Now()
	h := grant(t, a, with(slotOf(key, 1), func(q *driver.Request) { q.TTL = ttl }))
	next := grant(t, b, slotOf(key, 1))
	if took := time.Since(began); took < ttl-slack {
		t.Errorf("P17: the slot was granted to another after %v of a TTL of %v", took, ttl)
	}
	ended(t, a, h)
	answer(t, b.Release, next, driver.Released)
}

// slotsMany takes slots of a large number, and the last of the largest.
func slotsMany(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	seen := make(map[int]bool)
	var holds []driver.Hold
	for range e.hold(40) {
		h := grant(t, s, slotOf(key, driver.MaxSlots))
		if seen[h.Slot] || h.Slot < 0 || h.Slot >= driver.MaxSlots {
			t.Fatalf("P17: slot %d of %d beside %v", h.Slot, driver.MaxSlots, seen)
		}
		seen[h.Slot] = true
		holds = append(holds, h)
	}
	last := grant(t, s, with(slotOf(key, driver.MaxSlots), func(q *driver.Request) { q.Slot = driver.MaxSlots - 1 }))
	if last.Slot != driver.MaxSlots-1 && !seen[driver.MaxSlots-1] {
		t.Errorf("slot %d, want the last", last.Slot)
	}
	answerAllOf(t, e, s.Renew, append(holds, last), driver.Alive)
	answerAllOf(t, e, s.Release, append(holds, last), driver.Released)
	answer(t, s.Release, grant(t, s, writer(key)), driver.Released)
}
