package mongolock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
)

// Readers and slots in the line: rules 16 and 20 to 22 of package driver.

// used makes a key that was held and released before: nobody need look for its fence.
func used(t testing.TB, s *Store, key string) string {
	t.Helper()
	release(t, s, granted(t, s, request(key)))
	return key
}

func waits(t testing.TB, s *Store, q driver.Request, place int) {
	t.Helper()
	if r := stand(t, s, q); r.Status != driver.Held || r.Place != place {
		t.Fatalf("P19: %v: %+v, want held, at place %d", q.Mode, r, place)
	}
	if v := viewOf(t, s, q); v.Place != place || v.Mine || v.Free {
		t.Fatalf("P19: a look of %v: %+v, want place %d, not free", q.Mode, v, place)
	}
}

// mineNow wants q to have been passed the key, in a phase if it is no exclusive one.
func mineNow(t testing.TB, s *Store, q driver.Request) driver.Hold {
	t.Helper()
	v := viewOf(t, s, q)
	if !v.Mine || v.Left <= 0 || v.Left > q.Claim || v.Place != 0 || (q.Mode != driver.Exclusive) != (v.Phase > 0) {
		t.Fatalf("P29: %v is not passed: %+v", q.Mode, v)
	}
	return driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Token: v.Token, Stored: v.Stored, Slot: v.Slot, Phase: v.Phase, TTL: q.TTL, Owner: q.Owner, Keep: q.Keep, Guarded: q.Guarded}
}

// TestP19_RunOfReaders: the readers at the head of the line are passed the key together, an exclusive entry keeps later ones
// out, and the end of the last of them passes the key on.
func TestP19_RunOfReaders(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	h := granted(t, s, request("k"))
	r1, r2, w, r3 := stands(readerOf("k")), stands(readerOf("k")), standerOf("k"), stands(readerOf("k"))
	for i, q := range []driver.Request{r1, r2, w, r3} {
		waits(t, s, q, i+1)
	}
	release(t, s, h)
	h1, h2 := mineNow(t, s, r1), mineNow(t, s, r2)
	if h1.Phase != h2.Phase || h1.Token != h1.Phase || h1.Phase < h.Token+driver.TokenRange {
		t.Errorf("P20: readers of one phase: %+v, %+v", h1, h2)
	}
	waits(t, s, w, 1)
	waits(t, s, r3, 2)
	for _, q := range []driver.Request{readerOf("k"), slotOf("k", 3), request("k")} {
		if r := acquire(t, s, q); r.Status != driver.Held {
			t.Errorf("P29: a try of %v passes the line: %+v", q.Mode, r)
		}
		if r := acquire(t, beside(t, s, uriOf(t)), q); r.Status != driver.Held {
			t.Errorf("P29: a try of %v of a Store that knows of no line passes it: %+v", q.Mode, r)
		}
	}
	if st := renew(t, s, h1); st != driver.Alive {
		t.Errorf("renewal of a reader that was passed the key: %v", st)
	}
	if i := inspect(t, s, "k"); i.Readers != 2 || i.Waiting != 2 {
		t.Errorf("inspect: %+v", i)
	}
	release(t, s, h1)
	waits(t, s, w, 1)
	// The last one of another Store, which knows nothing of the line.
	if r := release(t, beside(t, s, uriOf(t)), h2); r.Status != driver.Released {
		t.Errorf("release of the last reader: %+v", r)
	}
	wh := mineNow(t, s, w)
	if wh.Token < h1.Phase+driver.TokenRange {
		locktest.Breach(t, "P20", "token %d after the phase %d", wh.Token, h1.Phase)
	}
	release(t, s, wh)
	h3 := mineNow(t, s, r3)
	if h3.Phase < wh.Token+driver.TokenRange {
		locktest.Breach(t, "P20", "phase %d after %d", h3.Phase, wh.Token)
	}
	release(t, s, h3)
	if i := inspect(t, s, "k"); i.Held || i.Waiting != 0 {
		t.Errorf("the key is not free: %+v", i)
	}
	release(t, s, granted(t, s, readerOf("k")))
	doc := documentOf(t, s, "k")
	for _, name := range []string{"line", "keepUntil", "passed", "passing", "hold", "holds"} {
		if v := doc.Lookup(name); v.Type != 0 {
			t.Errorf("P25: a key without a line has %s: %v", name, v)
		}
	}
}

// TestP19_ReaderJoins: a reader joins a phase past slots that wait, for it takes nothing from them.
func TestP19_ReaderJoins(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	one := granted(t, s, slotOf("k", 1))
	waiting := stands(slotOf("k", 1))
	waits(t, s, waiting, 1)
	if r := acquire(t, s, stands(readerOf("k"))); r.Status != driver.Granted || r.Phase != one.Phase {
		t.Errorf("P19: a reader beside slots: %+v", r)
	}
	if r := acquire(t, s, readerOf("k")); r.Status != driver.Granted {
		t.Errorf("P19: a try of a reader beside slots: %+v", r)
	}
	waits(t, s, waiting, 1)
	release(t, s, one)
	if h := mineNow(t, s, waiting); h.Slot != 0 || h.Token < one.Token+driver.TokenRange || h.Phase != one.Phase {
		t.Errorf("P17: the slot that was released: %+v after %+v", h, one)
	}
}

// TestP19_SlotsPassWhereTheyTakeNothing: a slot passes one that waits if it takes none of its slots.
func TestP19_SlotsPassWhereTheyTakeNothing(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	a, b := granted(t, s, slotOf("k", 2)), granted(t, s, slotOf("k", 2))
	two := stands(slotOf("k", 2))
	waits(t, s, two, 1)
	ten := stands(slotOf("k", 10))
	ten.Slot = 1
	r := acquire(t, s, ten)
	if r.Status != driver.Granted || r.Slot < 2 {
		t.Fatalf("P29: Slots(10) behind Slots(2): %+v", r)
	}
	three := stands(slotOf("k", 3)) // the third slot is the ten's
	waits(t, s, three, 2)
	release(t, s, b)
	if h := mineNow(t, s, two); h.Slot != b.Slot {
		t.Errorf("P17: %+v, want slot %d", h, b.Slot)
	}
	waits(t, s, three, 1)
	release(t, s, holdOf(ten, r))
	if h := mineNow(t, s, three); h.Slot != r.Slot {
		t.Errorf("P17: %+v, want slot %d", h, r.Slot)
	}
	if i := inspect(t, s, "k"); i.Slots != 3 || i.Waiting != 0 {
		t.Errorf("inspect: %+v", i)
	}
	w := standerOf("k")
	waits(t, s, w, 1)
	if r := acquire(t, s, slotOf("k", 10)); r.Status != driver.Held {
		t.Errorf("P29: a slot past a writer: %+v", r)
	}
	_ = a
}

// TestP19_SlotsOfManyRuns: slots that wait are served in order, each with a token above the last, and no slot twice.
func TestP19_SlotsOfManyRuns(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	h := granted(t, s, request("k"))
	var all []driver.Request
	for i := range 7 {
		q := stands(slotOf("k", 3))
		all = append(all, q)
		waits(t, s, q, i+1)
	}
	release(t, s, h)
	var token int64
	var holds []driver.Hold
	for n, q := range all {
		if n >= 3 {
			waits(t, s, q, 1)
			release(t, s, holds[n-3])
		}
		got := mineNow(t, s, q)
		if got.Slot != n%3 || got.Token <= token || got.Token <= got.Phase {
			t.Errorf("P17, P20: %d of the line: %+v after the token %d", n, got, token)
		}
		token = got.Token
		holds = append(holds, got)
	}
}

// TestP19_ClaimOfAReader: a reader that was passed the key and does not look costs its claim, and no more.
func TestP19_ClaimOfAReader(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	h := granted(t, s, request("k"))
	r, w := stands(readerOf("k")), standerOf("k")
	r.Claim = 300 * time.Millisecond
	waits(t, s, r, 1)
	waits(t, s, w, 2)
	release(t, s, h)
	if v := viewOf(t, s, w); v.Mine || v.Place != 1 {
		t.Errorf("P29: behind a reader: %+v", v)
	}
	waitFor(t, "the claim to be over", func() bool { return viewOf(t, s, w).Free })
	if r := acquire(t, s, w); r.Status != driver.Granted {
		t.Errorf("P29: behind a reader that did not look: %+v", r)
	}
	if st := renew(t, s, driver.Hold{Key: "k", ID: r.ID, Mode: driver.Shared, Phase: h.Token + 1, TTL: time.Minute}); st == driver.Alive || st == driver.Released {
		t.Errorf("P5: the renewal of a reader whose claim ran out: %v", st)
	}
}

// TestP19_ReaderThatWasPassedAsksAgain: its acquire finds its hold and changes nothing.
func TestP19_ReaderThatWasPassedAsksAgain(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for i, q := range []driver.Request{stands(readerOf("k0")), stands(slotOf("k1", 2))} {
		key := used(t, s, fmt.Sprint("k", i))
		h := granted(t, s, request(key))
		waits(t, s, q, 1)
		release(t, s, h)
		passed := mineNow(t, s, q)
		for range 2 {
			r := acquire(t, s, q)
			if r.Status != driver.Granted || r.Token != passed.Token || r.Slot != passed.Slot || r.Phase != passed.Phase || r.Left <= 0 || r.Left > q.Claim {
				t.Errorf("the request again: %+v, want %+v", r, passed)
			}
		}
		if i := inspect(t, s, key); i.Owner != "" || i.Left > q.Claim || i.Readers+i.Slots != 1 {
			t.Errorf("a hold that was passed: %+v", i)
		}
		undo := passed
		undo.Undo = true
		if r := release(t, s, undo); r.Status != driver.Released || !r.Final {
			t.Errorf("undo: %+v", r)
		}
		if i := inspect(t, s, key); i.Held {
			t.Errorf("P6: after the undo: %+v", i)
		}
	}
}

// TestP19_LeaveAndNextOfReaders: a reader that leaves its place is out of the line, and Next of a reader stands behind a writer.
func TestP19_LeaveAndNextOfReaders(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	h := granted(t, s, readerOf("k"))
	w, r := standerOf("k"), stands(readerOf("k"))
	waits(t, s, w, 1)
	waits(t, s, r, 2)
	if r := release(t, s, driver.Hold{Key: "k", ID: r.ID, Mode: driver.Shared, Slot: -1, Undo: true}); r.Status != driver.Released {
		t.Errorf("P6: a reader leaves the line: %+v", r)
	}
	next := stands(readerOf("k"))
	h.Next = &next
	if r := release(t, s, h); r.Status != driver.Released || r.Place != 1 {
		t.Errorf("release with Next: %+v", r)
	}
	wh := mineNow(t, s, w)
	if r := release(t, s, driver.Hold{Key: "k", ID: w.ID, Mode: driver.Exclusive, Undo: true}); r.Status != driver.Released {
		t.Errorf("undo of a writer that was passed the key: %+v", r)
	}
	if h := mineNow(t, s, next); h.Phase < wh.Token+driver.TokenRange {
		locktest.Breach(t, "P20", "phase %d after %d", h.Phase, wh.Token)
	}
}

// TestP19_WriterLeaves: when the writer that kept readers out leaves, those who stand behind it join the phase.
func TestP19_WriterLeaves(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	h := granted(t, s, readerOf("k"))
	w, r := standerOf("k"), stands(readerOf("k"))
	waits(t, s, w, 1)
	waits(t, s, r, 2)
	if r := release(t, s, driver.Hold{Key: "k", ID: w.ID, Undo: true}); r.Status != driver.Released {
		t.Errorf("P6: a writer leaves the line: %+v", r)
	}
	if got := mineNow(t, s, r); got.Phase != h.Phase {
		t.Errorf("P20: %+v beside %+v", got, h)
	}
	if r := acquire(t, beside(t, s, uriOf(t)), readerOf("k")); r.Status != driver.Granted {
		t.Errorf("P19: no writer waits: %+v", r)
	}
}
