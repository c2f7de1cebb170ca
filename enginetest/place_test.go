package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/memory"
)

// What may become of a place in the line when answers are late or lost.

// TestP1_ARequestGoesOutOneWayAtATime: the release of one caller adds the request of the next to the line, and is answered late. Meanwhile
// an attempt for that caller is due. If both had one ID, the loss of the attempt's answer would undo the hold that the request gets.
func TestP1_ARequestGoesOutOneWayAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		f := locktest.NewFault(store)
		c, other := newClient(t, f, rowlock.Options{}), newClient(t, store)
		errLost := errors.New("lost")
		var fails, lost atomic.Bool
		fails.Store(true)
		var next atomic.Value
		next.Store(driver.HoldID{})
		f.On(locktest.OpAcquire, func(ctx context.Context, q *locktest.Call, send locktest.Send) ([]driver.Result, error) {
			switch {
			case !q.Requests[0].Stand:
			case fails.Load():
				return nil, errLost
			case q.Requests[0].ID == next.Load().(driver.HoldID) && !lost.Swap(true):
				_, _ = send(ctx)
				time.Sleep(2 * time.Second)
				return nil, errLost
			}
			return send(ctx)
		})
		f.On(locktest.OpRelease, func(ctx context.Context, q *locktest.Call, send locktest.Send) ([]driver.Result, error) {
			switch h := q.Holds[0]; {
			case h.Next != nil:
				next.Store(h.Next.ID)
				r, err := send(ctx)
				time.Sleep(1500 * time.Millisecond)
				return r, err
			case h.Undo && h.ID == next.Load().(driver.HoldID):
				time.Sleep(2500 * time.Millisecond)
			}
			return send(ctx)
		})
		got := make(chan *rowlock.Lease, 1)
		go func() { got <- acquire(t, c, "k", rowlock.Fair()) }()
		time.Sleep(600 * time.Millisecond) // its attempts fail: another is planned
		fails.Store(false)
		l, err := c.TryAcquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		go l.Release(context.Background())
		w := <-got
		time.Sleep(3 * time.Second)
		theirs, err := other.TryAcquire(context.Background(), "k")
		if err == nil {
			if w.Err() == nil {
				locktest.Breach(t, "P1", "two holders: one is trusted for another %v, the other has token %d", w.Left(), theirs.Token())
			}
			release(t, theirs)
		}
		w.Release(context.Background())
	})
}

// TestP6_LateRefresh: the refresh of a place was given up without an answer, and comes to the server when its caller has had the key and
// released it. Nobody gets the key by it.
func TestP6_LateRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		f := locktest.NewFault(store)
		c, other := newClient(t, f), newClient(t, store)
		var n atomic.Int64
		f.On(locktest.OpAcquire, func(ctx context.Context, q *locktest.Call, send locktest.Send) ([]driver.Result, error) {
			if n.Add(1) == 2 { // the refresh
				time.AfterFunc(5*time.Second, func() { send(context.WithoutCancel(ctx)) })
				return nil, errors.New("connection reset")
			}
			return send(ctx)
		})
		theirs := acquire(t, other, "k")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l := acquire(t, c, "k")
			time.Sleep(time.Second)
			release(t, l)
		}()
		for n.Load() < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		release(t, theirs)
		<-ended
		time.Sleep(6 * time.Second) // the refresh has arrived, and what it got is taken back
		l, err := other.TryAcquire(context.Background(), "k")
		if err != nil {
			t.Fatalf("P6: nobody has the key, and nothing undoes it: %v", err)
		}
		release(t, l)
	})
}

// TestSlotPassedInAnOldPhase: a slot that is passed begins then, however long others have had theirs: MaxHold, and a period of Every, count
// from there.
func TestSlotPassedInAnOldPhase(t *testing.T) {
	waits := func(t *testing.T, run func(c *rowlock.Client)) {
		synctest.Test(t, func(t *testing.T) {
			f := newFaultStore()
			a, b, c := newClient(t, f.Store), newClient(t, f.Store), newClient(t, f)
			stays, l := acquire(t, a, "k", rowlock.Slots(2)), acquire(t, b, "k", rowlock.Slots(2))
			time.Sleep(10 * time.Minute)
			time.AfterFunc(5*time.Second, func() { release(t, l) })
			run(c)
			release(t, stays)
		})
	}
	t.Run("MaxHold", func(t *testing.T) {
		waits(t, func(c *rowlock.Client) {
			l := acquire(t, c, "k", rowlock.Slots(2), rowlock.MaxHold(time.Minute))
			at := time.Now()
			<-l.Done()
			if d := time.Since(at); d < 50*time.Second {
				t.Errorf("MaxHold of a minute ended the hold after %v: %v", d, l.Err())
			}
		})
	})
	t.Run("Every", func(t *testing.T) {
		waits(t, func(c *rowlock.Client) {
			ctx, cancel := context.WithCancel(context.Background())
			runs := make(chan time.Time, 10)
			done := make(chan struct{})
			go func() {
				defer close(done)
				rowlock.Every(ctx, c, "k", 10*time.Second, func(context.Context, *rowlock.Lease) error {
					runs <- time.Now()
					return nil
				}, rowlock.Slots(2))
			}()
			first, second := <-runs, <-runs
			if d := second.Sub(first); d < 10*time.Second || d > 15*time.Second {
				t.Errorf("P24: a period of 10s: the second run began %v after the first", d)
			}
			cancel()
			<-done
		})
	})
}

// TestReleaseBeforeAPlannedTry: an attempt is due while a release of another caller, which adds the request to the line, is not answered. It
// goes out after that. (Without, nothing of the client moved any more.)
func TestReleaseBeforeAPlannedTry(t *testing.T) {
	bounded(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(q call) verdict {
			switch {
			case q.op == "acquire" && q.n == 0:
				return verdict{answer: []driver.Result{{Status: driver.Pinned}}}
			case q.op == "release":
				return verdict{slow: 2 * time.Second}
			}
			return verdict{}
		})
		got := make(chan *rowlock.Lease, 1)
		go func() { got <- acquire(t, c, "k", rowlock.Fair()) }()
		time.Sleep(100 * time.Millisecond)
		l, err := c.TryAcquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		release(t, l)
		release(t, <-got)
	})
}

// TestReleaseBeforeATryForAFullLine: the same, of an attempt that is planned because the line was full.
func TestReleaseBeforeATryForAFullLine(t *testing.T) {
	bounded(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store)
		l := acquire(t, c, "k", rowlock.Slots(2))
		o := acquire(t, other, "k", rowlock.Slots(2))
		for range driver.MaxLine {
			q := driver.Request{Key: "k", Mode: driver.Slot, Slots: 2, Slot: -1, TTL: time.Minute, Stand: true, EntryTime: 6 * time.Second, Claim: time.Second}
			rand.Read(q.ID[:])
			r, err := f.Store.Acquire(context.Background(), []driver.Request{q})
			if err != nil || r[0].Place == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		f.set(on("release", verdict{slow: 2 * time.Second}))
		got := make(chan *rowlock.Lease, 1)
		go func() { got <- acquire(t, c, "k", rowlock.Slots(2)) }()
		time.Sleep(100 * time.Millisecond)
		release(t, l)
		f.set(nil)
		release(t, <-got)
		release(t, o)
	})
}

// freeTheKey lets a client wait in the line for a while, with refresh until one refresh of its place was lost, then frees the key.
func freeTheKey(t *testing.T, f *faultStore, theirs *rowlock.Lease, refresh bool) {
	t.Helper()
	if !refresh {
		time.Sleep(5 * time.Second)
		release(t, theirs)
		return
	}
	lost := make(chan struct{})
	n := 0
	f.set(func(q call) verdict {
		if q.op == "acquire" && q.reqs[0].Stand {
			if n++; n == 2 {
				close(lost)
				return verdict{err: errors.New("connection reset")}
			}
		}
		return verdict{}
	})
	<-lost
	time.Sleep(100 * time.Millisecond)
	release(t, theirs)
}

// TestP24_EveryAfterALostRefresh: a run lost its lease. The undo of a refresh that was lost before it does not end its period.
func TestP24_EveryAfterALostRefresh(t *testing.T) {
	for _, refresh := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFaultStore()
			c, other := newClient(t, f), newClient(t, f.Store)
			theirs := acquire(t, other, "k")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			began := make(chan time.Time, 10)
			done := make(chan struct{})
			go func() {
				defer close(done)
				rowlock.Every(ctx, c, "k", 10*time.Minute, func(ctx context.Context, l *rowlock.Lease) error {
					began <- time.Now()
					f.set(on("renew", verdict{err: errors.New("no answer")}))
					<-l.Done()
					f.set(nil)
					return nil
				})
			}()
			freeTheKey(t, f, theirs, refresh)
			first, second := <-began, <-began
			if d := second.Sub(first); d < 10*time.Minute {
				t.Errorf("P24: refresh lost: %v: a period of 10m: the second run began %v after the first", refresh, d)
			}
			cancel()
			<-done
		})
	}
}

// TestMinHoldAfterALostRefresh: a release with MinHold was lost, and is repeated. The undo of a refresh that was lost does not overtake it.
func TestMinHoldAfterALostRefresh(t *testing.T) {
	for _, refresh := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFaultStore()
			c, other := newClient(t, f), newClient(t, f.Store)
			theirs := acquire(t, other, "k")
			got := make(chan *rowlock.Lease, 1)
			go func() { got <- acquire(t, c, "k", rowlock.MinHold(time.Hour)) }()
			freeTheKey(t, f, theirs, refresh)
			l := <-got
			n := 0
			f.set(func(q call) verdict {
				if q.op == "release" && !q.hold[0].Undo {
					if n++; n <= 2 {
						return verdict{err: errors.New("connection reset")}
					}
				}
				return verdict{}
			})
			release(t, l)
			at := time.Now()
			next := acquire(t, other, "k")
			if d := time.Since(at); d < 50*time.Minute {
				t.Errorf("MinHold of an hour: refresh lost: %v: the key was free %v after the release", refresh, d)
			}
			release(t, next)
		})
	}
}

// TestP6_LateRefreshOfALongerTTL: the attempt that was lost was for another caller, with a longer TTL than the one that got the key.
func TestP6_LateRefreshOfALongerTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store)
		theirs := acquire(t, other, "k")
		lost, n := make(chan struct{}), 0
		f.set(func(q call) verdict {
			if q.op == "acquire" && q.reqs[0].Stand {
				if n++; n == 2 {
					close(lost)
					req := q.reqs
					time.AfterFunc(20*time.Second, func() { f.Store.Acquire(context.Background(), req) })
					return verdict{err: errors.New("connection reset")}
				}
			}
			return verdict{}
		})
		ctx, cancel := context.WithCancel(context.Background())
		go c.Acquire(ctx, "k", rowlock.TTL(10*time.Minute))
		time.Sleep(time.Second)
		got := make(chan *rowlock.Lease, 1)
		go func() { got <- acquire(t, c, "k", rowlock.TTL(3*time.Second)) }()
		<-lost
		cancel()
		time.Sleep(100 * time.Millisecond)
		release(t, theirs)
		release(t, <-got)
		time.Sleep(60 * time.Second)
		l, err := other.TryAcquire(context.Background(), "k")
		if err != nil {
			t.Fatalf("P6: nobody has the key, and nothing undoes it: %v", err)
		}
		release(t, l)
	})
}

// bounded is synctest.Test with an end: where a goroutine never waits, a bubble never gets to a time-out of its own.
func bounded(t *testing.T, f func(*testing.T)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		synctest.Test(t, f)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing of the client moves any more")
	}
}
