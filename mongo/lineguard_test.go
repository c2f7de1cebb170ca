package mongolock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

// Guards and terms of holds that were passed the key.

func guardedOne(q driver.Request) driver.Request {
	q.Guarded = true
	return q
}

// guard writes the guard of h in a transaction, and reports whether its fence let it.
func guard(t testing.TB, s *Store, ctx context.Context, h driver.Hold) bool {
	t.Helper()
	r, err := s.db.Collection(s.fences).UpdateOne(ctx, fence.Guard(h), document.Op("$inc", document.Op("n", int64(1))))
	must(t, err)
	return r.MatchedCount == 1
}

// confirmed renews h with Confirm.
func confirmed(t testing.TB, s *Store, h driver.Hold) driver.Status {
	t.Helper()
	h.Confirm = true
	return renew(t, s, h)
}

// has reports whether q has the key for certain: granted, or passed and confirmed.
func has(t testing.TB, s *Store, q driver.Request) bool {
	t.Helper()
	r := acquire(t, s, q)
	if r.Status == driver.Granted && r.Left > 0 {
		return confirmed(t, s, mineNow(t, s, q)) == driver.Alive
	}
	return r.Status == driver.Granted
}

// TestP4_GuardedHoldIsNotPassed: the first of the line takes the key itself, and waits for the transaction that is open, at
// the head of the line.
func TestP4_GuardedHoldIsNotPassed(t *testing.T) {
	t.Parallel()
	s := shared(t)
	kept := standerOf("kept") // what MinHold keeps is not kept for one that had to go back to its place
	kept.Keep = time.Minute
	for _, wanted := range []driver.Request{standerOf("k"), kept, stands(readerOf("r")), stands(slotOf("s", 2)), guardedOne(stands(readerOf("gr")))} {
		h := granted(t, s, guardedOne(request(wanted.Key)))
		sess, tx := begin(t, s)
		if !guard(t, s, tx, h) {
			t.Fatal("the guard of the holder")
		}
		behind := standerOf(wanted.Key)
		placed(t, s, wanted, 1, 1)
		placed(t, s, behind, 2, 2)
		release(t, s, h)
		if v := viewOf(t, s, wanted); v.Mine || !v.Free || v.Place != 1 {
			t.Errorf("P4: after the release of a guarded hold: %+v", v)
		}
		for range 2 {
			if r := acquire(t, s, wanted); r.Status != driver.Pinned || r.Place != 1 || r.Standing != 2 {
				t.Errorf("P4: while its transaction is open: %+v", r)
			}
		}
		if v := viewOf(t, s, behind); v.Place != 2 || v.Mine {
			t.Errorf("P29: behind one who is pinned: %+v", v)
		}
		if r := acquire(t, s, request(wanted.Key)); r.Status == driver.Granted {
			t.Errorf("P4, P29: a try: %+v", r)
		}
		must(t, sess.CommitTransaction(context.Background()))
		waitFor(t, "the grant", func() bool { return has(t, s, wanted) })
		_, tx = begin(t, s)
		if guard(t, s, tx, h) {
			t.Error("P4: a guard of the old holder after the grant")
		}
	}
}

// TestP24_ToldByItsAcquire: a request was passed a key with a fence, and its acquire comes next, which raises the fence. It is answered
// like a new grant, so the hold begins then: MinHold counts from there.
func TestP24_ToldByItsAcquire(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, wanted := range []driver.Request{standerOf("k"), stands(slotOf("s", 2))} {
		wanted.Keep = time.Minute
		granted(t, s, guardedOne(request(wanted.Key)))
		behind := standerOf(wanted.Key)
		placed(t, s, wanted, 1, 1)
		placed(t, s, behind, 2, 2)
		expire(t, s, wanted.Key)
		if r := acquire(t, s, behind); r.Status != driver.Held { // it passes the key to the first
			t.Fatalf("advance: %+v", r)
		}
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		r := acquire(t, s, wanted)
		if r.Status != driver.Granted {
			t.Fatalf("mode %v: %+v", wanted.Mode, r)
		}
		i := inspect(t, s, wanted.Key)
		if r.Left == 0 && i.Since.Before(began.Add(-20*time.Millisecond)) {
			t.Errorf("P24: mode %v: answered like a new grant, and held since %v before it was asked for", wanted.Mode, began.Sub(i.Since))
		}
	}
}

// TestSlotPassedToAnotherCaller: a slot was passed to a request that goes on for another caller, which wants one of fewer. It is not said
// to be changed by hand, and a look shows it, so that it can be given back.
func TestSlotPassedToAnotherCaller(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var holds []driver.Hold
	for range 3 {
		holds = append(holds, granted(t, s, slotOf("k", 3)))
	}
	q := stands(slotOf("k", 3))
	placed(t, s, q, 1, 1)
	for _, h := range holds {
		if h.Slot == 2 {
			release(t, s, h)
		}
	}
	q.Slots = 2
	if v := viewOf(t, s, q); !v.Mine || v.Slot != 2 {
		t.Errorf("a look of one that was passed slot 2, and wants one of two: %+v", v)
	}
	if r := acquire(t, s, q); r.Err != nil || r.Status != driver.Granted || r.Left <= 0 {
		t.Errorf("an acquire of one that was passed slot 2, and wants one of two: %+v", r)
	}
}

// TestP4_ConfirmRaisesTheFence: who was passed the key and will be guarded has its fence after Confirm, and not before the
// transaction of an older holder has ended.
func TestP4_ConfirmRaisesTheFence(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, wanted := range []driver.Request{standerOf("k"), stands(readerOf("r")), stands(slotOf("s", 2))} {
		wanted = guardedOne(wanted)
		key := used(t, s, wanted.Key)
		old := granted(t, s, guardedOne(request(key)))
		sess, tx := begin(t, s)
		if !guard(t, s, tx, old) {
			t.Fatal("the guard of the holder")
		}
		behind := standerOf(key)
		placed(t, s, wanted, 1, 1)
		placed(t, s, behind, 2, 2)
		expire(t, s, key)
		if r := acquire(t, s, behind); r.Status != driver.Held { // it passes the key to the first
			t.Fatalf("advance: %+v", r)
		}
		h := mineNow(t, s, wanted)
		if st := confirmed(t, s, h); st != driver.Pinned {
			t.Errorf("P4: Confirm while a transaction of the holder before is open: %v", st)
		}
		must(t, sess.CommitTransaction(context.Background()))
		waitFor(t, "the confirmation", func() bool { return confirmed(t, s, h) == driver.Alive })
		sess, tx = begin(t, s)
		if guard(t, s, tx, old) {
			t.Error("P4: a guard of the old holder after the confirmation")
		}
		must(t, sess.AbortTransaction(context.Background()))
		sess, tx = begin(t, s)
		if !guard(t, s, tx, h) {
			t.Errorf("%v: the guard of a hold that was passed the key and confirmed", wanted.Mode)
		}
		// The next one waits for it.
		if _, err := s.ForceRelease(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if r := acquire(t, s, behind); r.Status != driver.Pinned || r.Place != 1 {
			t.Errorf("P4, P21: behind a guarded transaction of %v: %+v", wanted.Mode, r)
		}
		must(t, sess.CommitTransaction(context.Background()))
		waitFor(t, "the grant", func() bool { return has(t, s, behind) })
	}
}

// TestP4_PassedPastAFence: who was passed a key that has a fence, and is not guarded itself, is not told that the key is
// its own before the fence is raised.
func TestP4_PassedPastAFence(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, wanted := range []driver.Request{standerOf("k"), stands(readerOf("r")), stands(slotOf("s", 2))} {
		old := granted(t, s, guardedOne(request(wanted.Key)))
		sess, tx := begin(t, s)
		if !guard(t, s, tx, old) {
			t.Fatal("the guard of the holder")
		}
		behind := standerOf(wanted.Key)
		placed(t, s, wanted, 1, 1)
		placed(t, s, behind, 2, 2)
		expire(t, s, wanted.Key)
		if r := acquire(t, s, behind); r.Status != driver.Held {
			t.Fatalf("advance: %+v", r)
		}
		if v := viewOf(t, s, wanted); v.Mine || !v.Free || v.Place != 1 {
			t.Errorf("P4: %v is told of a key whose fence is not raised: %+v", wanted.Mode, v)
		}
		if r := acquire(t, s, wanted); r.Status != driver.Pinned || r.Place != 1 {
			t.Errorf("P4: %v while the transaction is open: %+v", wanted.Mode, r)
		}
		must(t, sess.CommitTransaction(context.Background()))
		if r := acquire(t, s, behind); r.Status != driver.Held { // it passes the key to the first
			t.Fatalf("advance: %+v", r)
		}
		waitFor(t, "the look", func() bool { return viewOf(t, s, wanted).Mine })
		_, tx = begin(t, s)
		if guard(t, s, tx, old) {
			t.Errorf("P4: a guard of the old holder after a look of %v told that the key is its own", wanted.Mode)
		}
	}
}

// TestP21_FenceOfAReaderThatWasPassed: its fence is made after its hold, so it looks whether that still stands: a writer that
// was granted the key in between has found no fence to raise.
func TestP21_FenceOfAReaderThatWasPassed(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, q := range []driver.Request{guardedOne(stands(readerOf("r"))), guardedOne(stands(slotOf("s", 2)))} {
		used(t, s, q.Key)
		h := granted(t, s, request(q.Key))
		placed(t, s, q, 1, 1)
		release(t, s, h)
		h = mineNow(t, s, q)
		states, err := s.statesWith(t.Context(), document.LineFields([]driver.Entry{document.EntryOf(q)}), []string{q.Key}, nil)
		must(t, err)
		_, err = s.ForceRelease(t.Context(), q.Key)
		must(t, err)
		granted(t, s, request(q.Key))
		if r := s.raiseConfirmed(t.Context(), "confirm", q, states[q.Key]); r.Status == driver.Alive {
			t.Errorf("P21: %v is told that it may guard after a writer was granted the key", q.Mode)
		}
		if st := confirmed(t, s, h); st == driver.Alive {
			t.Errorf("P5: Confirm of %v after a writer was granted the key: %v", q.Mode, st)
		}
	}
}

// TestConfirm: it writes what a pass cannot, and never shortens.
func TestConfirm(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, wanted := range []driver.Request{standerOf("k"), stands(slotOf("s", 2)), stands(readerOf("r"))} {
		key := used(t, s, wanted.Key)
		wanted.Owner, wanted.Keep = "somebody", 50*time.Second
		if wanted.Mode == driver.Shared {
			wanted.Keep = 0
		}
		h := granted(t, s, request(key))
		placed(t, s, wanted, 1, 1)
		placed(t, s, standerOf(key), 2, 2)
		release(t, s, h)
		h = mineNow(t, s, wanted)
		h.Owner, h.Keep, h.TTL = "somebody", wanted.Keep, 40*time.Second
		for _, ttl := range []time.Duration{40 * time.Second, time.Second} {
			h.TTL = ttl
			if st := confirmed(t, s, h); st != driver.Alive {
				t.Fatalf("confirm %v: %v", wanted.Mode, st)
			}
			if i := inspect(t, s, key); i.Owner != "somebody" || i.Left < 30*time.Second || i.Left > 55*time.Second || i.Waiting != 1 {
				t.Errorf("after Confirm of %v: %+v", wanted.Mode, i)
			}
		}
		if v := viewOf(t, s, wanted); !v.Mine || v.Token != h.Token {
			t.Errorf("after Confirm of %v: %+v", wanted.Mode, v)
		}
		release(t, s, h)
		if i := inspect(t, s, key); wanted.Keep > 0 && (!i.Kept || i.Left < 30*time.Second || i.Waiting != 1) {
			t.Errorf("MinHold of %v after the release: %+v", wanted.Mode, i)
		}
		if st := confirmed(t, s, h); st == driver.Alive {
			t.Errorf("P5: Confirm after the release of %v: %v", wanted.Mode, st)
		}
	}
}

// TestConfirmMany: beside renewals in one call.
func TestConfirmMany(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var holds []driver.Hold
	for _, key := range []string{"a", "b", "c"} {
		used(t, s, key)
		h, q := granted(t, s, request(key)), standerOf(key)
		placed(t, s, q, 1, 1)
		release(t, s, h)
		h = mineNow(t, s, q)
		h.Confirm = key != "a"
		holds = append(holds, h)
	}
	gone := holds[1]
	gone.ID, gone.Key = newID(), "gone"
	results := settled(t, func() ([]driver.Result, error) { return s.Renew(patient(t), append(holds, gone)) })
	for i, r := range results {
		if want := map[bool]driver.Status{true: driver.Alive, false: driver.Removed}[i < 3]; r.Status != want {
			t.Errorf("renewal %d: %v, want %v", i, r.Status, want)
		}
	}
}

// TestP15_FenceNamesTheSessionOfAConfirmation: a confirmation is sent again where its answer was lost. The fence names the session in
// which InTx runs all the same, so that the next holder can end what is open in it.
func TestP15_FenceNamesTheSessionOfAConfirmation(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, mode := range []driver.Mode{driver.Exclusive, driver.Slot} {
		q := request(fmt.Sprint("k", mode))
		q.Guarded, q.Mode, q.TTL = true, mode, time.Hour
		if mode == driver.Slot {
			q.Slots, q.Slot = 2, -1
		}
		h := granted(t, s, q)
		before := s.txSessions.Find(h.ID)
		for range 2 {
			if status := confirmed(t, s, h); status != driver.Alive {
				t.Fatalf("%v: confirm: %v", mode, status)
			}
		}
		if s.txSessions.Find(h.ID) != before {
			t.Errorf("%v: the session of the hold is another one than the fence names", mode)
		}
		if r, err := s.Release(patient(t), []driver.Hold{h}); err != nil || r[0].Status != driver.Released {
			t.Errorf("release: %v, %v", r, err)
		}
		if s.txSessions.Find(h.ID) != nil {
			t.Errorf("%v: the session of a released lease is remembered", mode)
		}
	}
}
