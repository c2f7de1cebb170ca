// Rules 19 to 23 of the seam: readers and slots in the line of a key.

package locktest

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var seamLineModes = []testCase{
	{name: "Store_LineWriterKeepsReadersOut", run: lineWriterFirst, needs: linesOfModes},
	{name: "Store_LineReadersTogether", run: lineReadersTogether, needs: linesOfModes},
	{name: "Store_LineSharedClaimOver", run: lineSharedClaimOver, needs: linesOfModes},
	{name: "Store_LineDeadReaders", run: lineDeadReaders, needs: linesOfModes},
	{name: "Store_LineSlotsBesideFewer", run: lineSlotsBesideFewer, needs: linesOfModes},
	{name: "Store_LineSlotKept", run: lineSlotKept, needs: linesOfModes},
	{name: "Store_LineSlotsOfTheNextCaller", run: lineSlotsOfNext, needs: linesOfModes},
	{name: "Store_LineAge", run: lineAge, needs: linesOfModes},
	{name: "Store_LineSlotsInOrder", run: lineSlotsInOrder, needs: linesOfModes},
}

// A Store may pass a phase without its holds, and tell each reader and slot that it can join (rule 20): so what was
// passed in these modes is taken by gets.

// keptOut checks that a request is refused because of one that stands before it.
func keptOut(t testing.TB, s driver.Store, q driver.Request, why string) {
	t.Helper()
	if r := ask(t, s, q); r.Status != driver.Held {
		t.Fatalf("P29: a request of mode %v, %s: %+v, want held", q.Mode, why, r)
	}
	if v := look(t, s, q)[0]; v.Mine || v.Free && q.Mode != driver.Exclusive { // readers may have the turn, but not yet their holds
		t.Fatalf("P29: a look of a request of mode %v, %s: %+v", q.Mode, why, v)
	}
}

// lineWriterFirst: no reader or slot comes after a writer that stands. The last release of those before it
// passes the key on.
func lineWriterFirst(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	holds := []driver.Hold{grant(t, a, reader(key)), grant(t, b, slotOf(key, 3)), grant(t, b, reader(key))}
	w := stand(t, b, waiter(key), 1, 1)
	keptOut(t, a, reader(key), "behind a writer")
	keptOut(t, a, slotOf(key, 3), "behind a writer")
	r := stand(t, a, with(reader(key), stands), 2, 2)
	keptOut(t, a, r, "behind a writer")
	s := stand(t, a, with(slotOf(key, 3), stands), 3, 3)
	for _, h := range holds {
		if v := notPassed(t, b, w, "beside readers"); v.Free || !v.Shared {
			t.Errorf("P29: a writer's look beside readers: %+v", v)
		}
		answer(t, a.Renew, h, driver.Alive)
		answer(t, a.Release, h, driver.Released)
	}
	h := gets(t, b, w)
	for _, before := range holds {
		rises(t, before, h)
		ended(t, a, before)
	}
	keptOut(t, a, r, "beside a writer")
	keptOut(t, a, s, "beside a writer")
	answer(t, b.Release, h, driver.Released)
	last := []driver.Hold{gets(t, a, r), gets(t, a, s)}
	rises(t, h, last[0])
	for _, h := range last {
		answer(t, a.Renew, h, driver.Alive)
		answer(t, a.Release, h, driver.Released)
	}
	nobodyStands(t, a, key)
}

// lineReadersTogether: the readers at the head of the line have the key together, those behind the next writer after it.
func lineReadersTogether(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	h := grant(t, a, writer(key))
	all := []driver.Request{
		with(reader(key), stands), with(reader(key), stands), with(slotOf(key, 1), stands),
		waiter(key), with(reader(key), stands), waiter(key),
	}
	for i, q := range all {
		stand(t, b, q, i+1, i+1)
	}
	inOrder(t, a, all...)
	answer(t, a.Release, h, driver.Released)
	first := gets(t, b, all[0])
	keptOut(t, a, reader(key), "behind a writer")
	keptOut(t, a, all[3], "behind readers")
	answer(t, b.Release, first, driver.Released)
	keptOut(t, a, all[3], "behind readers")
	holds := []driver.Hold{gets(t, b, all[1]), gets(t, b, all[2])}
	inOrder(t, a, all[3:]...)
	if v := look(t, a, all[4])[0]; v.Free || v.Mine {
		t.Errorf("P29: a look of a reader behind a writer: %+v", v)
	}
	if holds[0].Phase != first.Phase {
		t.Errorf("P20: readers that were passed the key are in the phases %d and %d", first.Phase, holds[0].Phase)
	}
	for _, got := range holds {
		rises(t, h, got)
		keptOut(t, a, all[3], "behind readers")
		answer(t, b.Renew, got, driver.Alive)
		answer(t, b.Release, got, driver.Released)
	}
	w := gets(t, b, all[3])
	rises(t, holds[1], w)
	inOrder(t, a, all[4:]...)
	answer(t, b.Release, w, driver.Released)
	last := gets(t, b, all[4])
	rises(t, w, last)
	inOrder(t, a, all[5])
	answer(t, b.Release, last, driver.Released)
	answer(t, b.Release, gets(t, b, all[5]), driver.Released)
}

// lineSharedClaimOver: a reader's or slot's claim that is over is not told as a hold that lives, and keeps no writer out.
func lineSharedClaimOver(t *testing.T, e *env) {
	a, b := e.Open(t), e.Open(t)
	for _, ask1 := range []driver.Request{reader(""), slotOf("", 1)} {
		key := e.key(t)
		q := with(ask1, func(q *driver.Request) { q.Key = key; stands(q) })
		h := grant(t, a, writer(key))
		stand(t, a, with(q, e.briefClaim), 1, 1)
		answer(t, a.Release, h, driver.Released)
		expired(t, a, key)
		r := ask(t, a, q)
		if r.Status != driver.Granted || r.Left > 0 && r.Left < longTTL/2 {
			t.Errorf("P29: the acquire of a %v whose claim is over: %+v, want it anew", q.Mode, r)
		}
		if i := inspect(t, a, key); i.Left < longTTL/2 {
			t.Errorf("P29: the acquire of a %v whose claim is over is granted %+v, and it has %+v", q.Mode, r, i)
		}
		got := holdOf(q, r)
		if r := ask(t, a, q); r.Status != driver.Granted || r.Stored != got.Stored || r.Left <= 0 || r.Left > q.TTL {
			t.Errorf("P29: the acquire of a %v that has the key: %+v, want the stored token %d", q.Mode, r, got.Stored)
		}
		answer(t, a.Release, got, driver.Released)

		key = e.key(t)
		q.Key, q.ID = key, newID()
		h = grant(t, a, writer(key))
		stand(t, a, with(q, e.briefClaim), 1, 1)
		w := stand(t, b, waiter(key), 2, 2)
		answer(t, a.Release, h, driver.Released)
		next := inItsTurn(t, b, w)
		rises(t, h, next)
		keptOut(t, a, q, "beside a writer")
		answer(t, b.Release, next, driver.Released)
	}
}

// inItsTurn is the hold of a request that asks until it has the key, before those that stand before it end by themselves.
func inItsTurn(t testing.TB, s driver.Store, q driver.Request) driver.Hold {
	t.Helper()
	var r driver.Result
	untilFor(t, driver.MaxEntryTime/2, "a request behind dead ones has the key", func() bool {
		r = ask(t, s, q)
		return r.Status == driver.Granted
	})
	return holdOf(q, r)
}

// lineDeadReaders: readers and slots that have died at the head of the line delay a writer behind them by a claim, and with it
// those behind that.
func lineDeadReaders(t *testing.T, e *env) {
	a, b := e.Open(t), e.Open(t)
	for _, phase := range []bool{false, true} { // the key was in a phase before
		key := e.key(t)
		var h driver.Hold
		if phase {
			h = grant(t, a, slotOf(key, 1))
			stand(t, a, with(with(slotOf(key, 1), stands), e.briefClaim), 1, 1)
			stand(t, a, with(with(slotOf(key, 1), stands), e.briefClaim), 2, 2)
		} else {
			h = grant(t, a, writer(key))
			stand(t, a, with(with(reader(key), stands), e.briefClaim), 1, 1)
			stand(t, a, with(with(slotOf(key, 1), stands), e.briefClaim), 2, 2)
		}
		w := stand(t, b, waiter(key), 3, 3)
		r := stand(t, b, with(reader(key), stands), 4, 4)
		answer(t, a.Release, h, driver.Released)
		if phase { // one that stands behind does as well as the writer
			untilFor(t, driver.MaxEntryTime/2, "a reader behind dead ones passes the key on", func() bool {
				ask(t, b, r)
				return look(t, b, w)[0].Mine
			})
		}
		next := inItsTurn(t, b, w)
		rises(t, h, next)
		keptOut(t, a, r, "beside a writer")
		answer(t, b.Release, next, driver.Released)
		answer(t, b.Release, gets(t, b, r), driver.Released)
	}
}

// lineSlotsBesideFewer: requests of more slots take none of those for which another stands, and wait for nothing else.
func lineSlotsBesideFewer(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	low := []driver.Hold{grant(t, a, slotOf(key, 2)), grant(t, a, slotOf(key, 2))}
	q := stand(t, a, with(slotOf(key, 2), stands), 1, 1)
	keptOut(t, b, slotOf(key, 2), "behind another for the same slots")
	r := grant(t, b, reader(key)) // waits for no slot
	high := grant(t, b, with(slotOf(key, 10), stands))
	if high.Slot < 2 {
		t.Errorf("P29: slot %d was granted while another stands for the first two", high.Slot)
	}
	low[0].Guarded = true // so its release passes the slot to nobody
	answer(t, a.Release, low[0], driver.Released)
	next := grant(t, b, with(slotOf(key, 10), func(q *driver.Request) { q.Slot = low[0].Slot }))
	if next.Slot < 2 || next.Slot == high.Slot {
		t.Errorf("P29: slot %d was granted while another stands for the first two", next.Slot)
	}
	got := gets(t, a, q)
	if got.Slot != low[0].Slot {
		t.Errorf("P17: slot %d was passed where %d was free", got.Slot, low[0].Slot)
	}
	for _, h := range []driver.Hold{low[1], r, high, next, got} {
		answer(t, a.Renew, h, driver.Alive)
		answer(t, a.Release, h, driver.Released)
	}
}

// lineSlotKept: a slot that MinHold keeps is passed to nobody, and hides no slot that is free.
func lineSlotKept(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	kept := grant(t, a, with(slotOf(key, 2), func(q *driver.Request) { q.Keep = longTTL }))
	other := grant(t, a, slotOf(key, 2))
	q := stand(t, b, with(slotOf(key, 2), stands), 1, 1)
	w := stand(t, b, waiter(key), 2, 2)
	r := stand(t, b, with(reader(key), stands), 3, 3)
	answer(t, a.Release, kept, driver.Released)
	if v := notPassed(t, b, q, "while MinHold keeps the slot"); v.Free {
		t.Errorf("P29: a look at slots of which one is kept: %+v", v)
	}
	keptOut(t, b, r, "behind a writer")
	leave(t, b, r, driver.Released)
	answer(t, a.Release, other, driver.Released)
	h := gets(t, b, q)
	if h.Slot != other.Slot {
		t.Errorf("P17: slot %d was granted while %d is kept", h.Slot, kept.Slot)
	}
	answer(t, b.Release, h, driver.Released)
	if v := notPassed(t, b, w, "while MinHold keeps a slot"); v.Free {
		t.Errorf("P29: a writer's look at slots of which one is kept: %+v", v)
	}
	leave(t, b, w, driver.Released)
	h = grant(t, b, slotOf(key, 2))
	if h.Slot != other.Slot {
		t.Errorf("P17: slot %d was granted while %d is kept", h.Slot, kept.Slot)
	}
	answer(t, b.Release, h, driver.Released)
}

// lineSlotsInOrder: each release passes its slot to the first that stands for one.
func lineSlotsInOrder(t *testing.T, e *env) {
	const n = 3
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	var holds []driver.Hold
	for range n {
		holds = append(holds, grant(t, a, slotOf(key, n)))
	}
	var all []driver.Request
	for i := range 2 * n {
		all = append(all, stand(t, b, with(slotOf(key, n), stands), i+1, i+1))
	}
	for i, q := range all {
		answer(t, a.Release, holds[i], driver.Released)
		h := gets(t, b, q)
		rises(t, holds[i], h)
		if h.Slot != holds[i].Slot {
			t.Errorf("P17: slot %d was passed where %d was free", h.Slot, holds[i].Slot)
		}
		inOrder(t, b, all[i+1:]...)
		holds = append(holds, h)
	}
	for _, h := range holds[len(holds)-n:] {
		answer(t, b.Release, h, driver.Released)
	}
	answer(t, b.Release, grant(t, b, writer(key)), driver.Released)
}

// lineSlotsOfNext: a request that stands goes on for another caller of its program, which wants a slot of more.
func lineSlotsOfNext(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	grant(t, s, slotOf(key, 2))
	grant(t, s, slotOf(key, 2))
	q := stand(t, s, with(slotOf(key, 2), stands), 1, 1)
	q.Slots = 10
	if v := look(t, s, q)[0]; !v.Free {
		t.Errorf("P29: a look of one who wants a slot of ten, of which two are taken: %+v", v)
	}
	if r := ask(t, s, q); r.Status != driver.Granted || r.Slot < 2 {
		t.Errorf("P29: a request that stands, and wants a slot of ten now, of which two are taken: %+v", r)
	}
}

// lineAge: a look says how long its own slot is held, not another of the phase: MaxHold and MinHold count from there.
func lineAge(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	grant(t, s, slotOf(key, 2))
	h := grant(t, s, slotOf(key, 2))
	q := stand(t, s, with(slotOf(key, 2), stands), 1, 1)
	const apart = 300 * time.Millisecond
	time.Sleep(apart)
	began := time.Now()
	answer(t, s.Release, h, driver.Released)
	gets(t, s, q)
	granted := time.Now()
	time.Sleep(apart)
	grant(t, s, slotOf(key, 3))
	after := time.Since(granted)
	v := look(t, s, q)[0]
	if slack := 20 * time.Millisecond; !v.Mine || v.Age < after-slack || v.Age > time.Since(began)+slack {
		t.Errorf("P24: a look of one that has had its slot for %v to %v: %+v", after, time.Since(began), v)
	}
}
