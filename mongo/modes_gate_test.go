package mongolock

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Gates, and the ends of holds in a phase.

// TestP19_WriterAmongReaders: a writer that waits gets the key beside readers that come all the
// time, and none is granted while its gate stands.
func TestP19_WriterAmongReaders(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	var grants atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				q := readerOf("k")
				r := acquire(t, s, q)
				if r.Status != driver.Granted {
					time.Sleep(2 * time.Millisecond)
					continue
				}
				grants.Add(1)
				time.Sleep(20 * time.Millisecond) // the next one comes before this one goes
				release(t, s, holdOf(q, r))
			}
		})
	}
	defer wg.Wait()
	defer stop()
	for range 3 {
		var before driver.HoldID
		for {
			w := writerOf("k", before)
			r := acquire(t, s, w)
			if r.Status == driver.Granted {
				if i := inspect(t, s, "k"); i.InPhase() || i.Hold != w.ID {
					t.Errorf("P16: beside a writer: %+v", i)
				}
				release(t, s, holdOf(w, r))
				break
			}
			if r.Gated {
				before = w.ID
			}
			if ctx.Err() != nil {
				t.Fatalf("P19: no writer among readers, after %d of their grants", grants.Load())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if grants.Load() == 0 {
		t.Error("no reader came: this test shows nothing")
	}
}

// TestWatchPhases: the stream tells of the last release of a phase and of that of a slot, not of
// a reader's beside others, of joins, renewals and gates.
func TestWatchPhases(t *testing.T) {
	t.Parallel()
	s := shared(t)
	freed, stop := watching(t, s)
	a, b := granted(t, s, readerOf("a")), granted(t, s, readerOf("a"))
	renew(t, s, a)
	release(t, s, a)
	release(t, s, b)
	c, d := granted(t, s, slotOf("c", 5)), granted(t, s, slotOf("c", 5))
	renew(t, s, c)
	w := writerOf("c", driver.HoldID{})
	if r := acquire(t, s, w); !r.Gated {
		t.Fatalf("a writer in a phase: %+v", r)
	}
	release(t, s, c)
	release(t, s, d)
	undo := undoOf(w)
	release(t, s, undo)
	release(t, s, granted(t, s, readerOf("end")))
	want := []string{"a", "c", "c", "c", "end"}
	for i, key := range want {
		if got := next(t, freed); got != key {
			t.Fatalf("event %d is for %q, want those of %v", i, got, want)
		}
	}
	_ = stop()
}

// TestP19_GateOfAnUnansweredWriter: the undo of an attempt whose answer was lost ends its gate.
func TestP19_GateOfAnUnansweredWriter(t *testing.T) {
	s := shared(t)
	other := beside(t, s, testserver.DSN(t, testserver.Mongo))
	h := granted(t, s, readerOf("k"))
	w := writerOf("k", driver.HoldID{})
	if r := acquire(t, other, w); !r.Gated {
		t.Fatalf("a writer in a phase: %+v", r)
	}
	sess, err := other.sessions.Get()
	must(t, err)
	next := writerOf("k", w.ID)
	other.gates.add(next.ID, next.GateTime)
	_, err = other.cmd.Write(t.Context(), sess, document.TakeInPhase(s.leases, next, false), time.Second)
	must(t, err)
	other.sessions.AddUnanswered(sess, next.ID)
	if r := acquire(t, s, readerOf("k")); r.Status != driver.Held {
		t.Fatalf("P19: a reader behind a gate: %v", r.Status)
	}
	if r := release(t, other, undoOf(next)); !r.Final {
		t.Errorf("P7: the undo of an attempt that left a gate: %+v", r)
	}
	release(t, s, granted(t, s, readerOf("k")))
	release(t, s, h)
}

// TestP16_LateRenewalAfterATake: an exclusive request ends a phase whose holds have all expired in
// the step that grants, without a gate, and a renewal that comes later revives nothing.
func TestP16_LateRenewalAfterATake(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := granted(t, s, readerOf("k")), granted(t, s, slotOf("k", 3))
	expireAll(t, s, "k")
	if st := renew(t, s, a); st != driver.Alive { // as an exclusive hold that nobody has taken
		t.Errorf("a renewal of a reader that has expired: %v", st)
	}
	expireAll(t, s, "k")
	w := granted(t, s, request("k"))
	for _, h := range []driver.Hold{a, b} {
		if st := renew(t, s, h); st != driver.Taken {
			t.Errorf("P16: a late renewal of mode %v: %v", h.Mode, st)
		}
		if r := release(t, s, h); r.Status != driver.Taken {
			t.Errorf("P5: a late release of mode %v: %v", h.Mode, r.Status)
		}
	}
	if st := renew(t, s, w); st != driver.Alive {
		t.Errorf("the writer after them: %v", st)
	}
}

// TestExpiredEntriesGo: what crashed readers leave in a phase that goes on is forgotten, not at once.
func TestExpiredEntriesGo(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lives := granted(t, s, readerOf("k"))
	crashed := granted(t, s, readerOf("k"))
	entries := func() int {
		var doc struct{ Holds []bson.D }
		must(t, s.db.Collection(s.leases).FindOne(t.Context(), document.ByKey("k")).Decode(&doc))
		return len(doc.Holds)
	}
	end := func(ago time.Duration) {
		t.Helper()
		_, err := s.db.Collection(s.leases).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: document.KeyID("k")}, {Key: "holds.h", Value: document.HoldID(crashed.ID)}},
			document.Op("$set", document.Op("holds.$.e", time.Now().Add(-ago))))
		must(t, err)
	}
	end(time.Second)
	release(t, s, granted(t, s, readerOf("k")))
	if n := entries(); n != 2 {
		t.Errorf("%d entries a second after the end of one of two", n)
	}
	end(time.Hour)
	release(t, s, granted(t, s, readerOf("k")))
	if n := entries(); n != 1 {
		t.Errorf("%d entries an hour after the end of one of two", n)
	}
	if st := renew(t, s, crashed); st != driver.Removed {
		t.Errorf("a renewal of an entry that is forgotten: %v", st)
	}
	if st := renew(t, s, lives); st != driver.Alive {
		t.Errorf("the reader beside it: %v", st)
	}
}
