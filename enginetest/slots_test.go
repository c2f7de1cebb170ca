package enginetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestSlotHandoff: a slot passes to the next caller here that may have it, for as long as it is
// young.
func TestSlotHandoff(t *testing.T) {
	for name, tc := range map[string]struct {
		hold   time.Duration
		waits  []int // the numbers of those that wait
		passes int   // to which of them; -1: none
	}{
		"young":                          {time.Millisecond, []int{2}, 0},
		"old":                            {60 * time.Millisecond, []int{2}, -1},
		"a caller that cannot have it":   {time.Millisecond, []int{1}, -1},
		"behind one that cannot have it": {time.Millisecond, []int{1, 2}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				keep := acquire(t, c, "k", rowlock.Slots(2)) // slot 0
				l := acquire(t, c, "k", rowlock.Slots(2))
				if keep.Slot() != 0 || l.Slot() != 1 {
					t.Fatalf("slots %d and %d", keep.Slot(), l.Slot())
				}
				ctx, cancel := context.WithCancel(context.Background())
				got := make([]*rowlock.Lease, len(tc.waits))
				var wg sync.WaitGroup
				for i, n := range tc.waits {
					wg.Go(func() { got[i], _ = c.Acquire(ctx, "k", rowlock.Slots(n)) })
					synctest.Wait()
				}
				time.Sleep(tc.hold)
				release(t, l)
				synctest.Wait()
				time.Sleep(time.Second)
				cancel()
				wg.Wait()
				synctest.Wait() // it has left the line
				for i, next := range got {
					passed := next != nil && holdOf(next).ID == holdOf(l).ID
					if passed != (i == tc.passes) {
						t.Errorf("the slot passed to caller %d: %v", i, passed)
					}
					if next == nil {
						continue
					}
					if next.Slot() != 1 || next.Token() <= l.Token() {
						t.Errorf("P20: slot %d with token %d after slot %d with token %d", next.Slot(), next.Token(), l.Slot(), l.Token())
					}
					release(t, next)
				}
				if err := keep.Err(); err != nil {
					t.Errorf("P18: the other slot: %v", err)
				}
				release(t, keep)
				free(t, f, "k")
			})
		})
	}
}

// TestSlotsAtOnce: callers that wait get slots one after the other without a pause, and a
// released one at once.
func TestSlotsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		began := f.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				l := acquire(t, c, "k", rowlock.Slots(5))
				time.Sleep(time.Second)
				release(t, l)
			})
		}
		wg.Wait()
		// Whoever was refused by a hold that is just being given back tries once more within milliseconds.
		if took := f.Now() - began; took < 4*time.Second || took > 4*time.Second+20*time.Millisecond {
			t.Errorf("20 holds of a second in 5 slots took %v", took)
		}
		free(t, f, "k")
	})
}

// TestSlotAgain: a client asks for the slot first that it had last.
func TestSlotAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a, b := newClient(t, f.Store), newClient(t, f)
		zero := acquire(t, a, "k", rowlock.Slots(9))
		one := acquire(t, b, "k", rowlock.Slots(9))
		release(t, zero)
		for range 3 {
			release(t, one)
			time.Sleep(time.Minute)
			l, err := b.TryAcquire(context.Background(), "k", rowlock.Slots(9))
			if err != nil || l.Slot() != one.Slot() {
				t.Fatalf("%v, slot %d again, want %d", err, l.Slot(), one.Slot())
			}
			one = l
		}
		reqs := f.seen("acquire")
		if first, last := reqs[0].reqs[0], reqs[len(reqs)-1].reqs[0]; first.Slot != -1 || last.Slot != one.Slot() || last.Slots != 9 {
			t.Errorf("asked for %+v, then %+v", first, last)
		}
		release(t, one)
	})
}

// TestSlotsInOneCall: slots of one key share the calls of renewals and releases.
func TestSlotsInOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		var leases []*rowlock.Lease
		for range 10 {
			leases = append(leases, acquire(t, c, "k", rowlock.Slots(10)))
		}
		leases = append(leases, acquire(t, c, "k", rowlock.Shared()))
		time.Sleep(25 * time.Second)
		renewals := f.seen("renew")
		if len(renewals) != 2 || len(renewals[0].hold) != 11 {
			t.Errorf("%d calls to renew 11 holds twice, the first of %d", len(renewals), len(renewals[0].hold))
		}
		f.set(on("release", verdict{slow: 10 * time.Millisecond}))
		var wg sync.WaitGroup
		for _, l := range leases {
			wg.Go(func() { release(t, l) })
		}
		wg.Wait()
		if n := len(f.seen("release")); n > 4 {
			t.Errorf("%d calls to release 11 holds at once", n)
		}
		free(t, f, "k")
	})
}

// TestAsyncReleaseOfModes: an attempt waits for the release of its own client that would refuse
// it.
func TestAsyncReleaseOfModes(t *testing.T) {
	modes := [][]rowlock.Option{nil, {rowlock.Shared()}, {rowlock.Slots(1)}}
	for i, first := range modes {
		for j, second := range modes {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				f.set(on("release", verdict{delay: 100 * time.Millisecond}))
				c := newClient(t, f, rowlock.Options{ReleaseAsync: true})
				l := acquire(t, c, "k", first...)
				release(t, l)
				next, err := c.TryAcquire(context.Background(), "k", second...)
				if err != nil {
					t.Fatalf("mode %d after an asynchronous release of mode %d: %v", j, i, err)
				}
				release(t, next)
			})
		}
	}
}

// TestGates: what a writer that waits in a phase sends, and what it leaves.
func TestGates(t *testing.T) {
	gated := func(t *testing.T, f *faultStore) bool {
		t.Helper()
		infos, err := f.Store.Inspect(context.Background(), []string{"k"})
		if err != nil {
			t.Fatal(err)
		}
		return infos[0].Gated
	}
	for name, tc := range map[string]func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease){
		"it stands for as long as the writer waits": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			got := make(chan *rowlock.Lease)
			go func() { defer close(got); got <- acquire(t, c, "k") }()
			synctest.Wait()
			for range 100 {
				if !gated(t, f) {
					t.Fatal("P19: no gate while a writer waits")
				}
				time.Sleep(100 * time.Millisecond)
			}
			reqs := f.seen("acquire")
			if n := len(reqs); n < 8 || n > 15 {
				t.Errorf("%d attempts in 10 s", n)
			}
			for i, q := range reqs[1:] {
				if q.reqs[0].Gate != reqs[i].ids[0] || q.reqs[0].GateTime != driver.GateTime || !q.reqs[0].Wants {
					t.Errorf("attempt %d: %+v, want one that takes over the gate of %v", i+1, q.reqs[0], reqs[i].ids[0])
				}
			}
			release(t, reader)
			release(t, <-got)
			if n := len(f.seen("release")); n != 1 {
				t.Errorf("%d releases by the writer's client", n)
			}
		},
		"it is cleared when the writer gives up": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
			defer cancel()
			_, err := c.Acquire(ctx, "k")
			var held *rowlock.HeldError
			if !errors.As(err, &held) || !held.Shared {
				t.Errorf("the writer's error: %v", err)
			}
			synctest.Wait()
			if gated(t, f) || c.Stats().Unresolved != 0 {
				t.Error("P19: the gate stands though nobody waits")
			}
		},
		"it stands while another caller waits": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			ctx, cancel := context.WithCancel(context.Background())
			go c.Acquire(ctx, "k")
			long, end := context.WithCancel(context.Background())
			go c.Acquire(long, "k")
			synctest.Wait()
			cancel()
			synctest.Wait()
			if !gated(t, f) {
				t.Error("P19: no gate while a writer waits")
			}
			end()
			synctest.Wait()
			if gated(t, f) {
				t.Error("P19: the gate stands though nobody waits")
			}
		},
		"it is cleared when its attempt is answered after the writer left": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			f.set(on("acquire", verdict{slow: time.Second}))
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			c.Acquire(ctx, "k")
			if !gated(t, f) {
				t.Error("the attempt left no gate")
			}
			time.Sleep(901 * time.Millisecond)
			synctest.Wait()
			if gated(t, f) {
				t.Error("P19: the gate stands though nobody waits")
			}
		},
		"it is cleared by the undo of an attempt whose answer was lost": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			f.set(func(c call) verdict {
				if c.op == "acquire" {
					return verdict{err: errors.New("lost"), apply: true}
				}
				return verdict{}
			})
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Millisecond)
			defer cancel()
			c.Acquire(ctx, "k")
			synctest.Wait()
			if gated(t, f) {
				t.Error("P19: the gate stands though nobody waits")
			}
		},
		"it is cleared by Close": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			for range 3 {
				go c.Acquire(context.Background(), "k")
			}
			synctest.Wait()
			if !gated(t, f) {
				t.Error("no gate")
			}
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if gated(t, f) {
				t.Error("P19: the gate stands after Close")
			}
		},
		"it is cleared by Close, with an attempt on its way": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			f.set(on("acquire", verdict{slow: time.Second}))
			go c.Acquire(context.Background(), "k")
			time.Sleep(100 * time.Millisecond)
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if gated(t, f) {
				t.Error("P19: the gate stands after Close")
			}
		},
		"it is longer where attempts take long": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			f.set(on("acquire", verdict{delay: 3 * time.Second}))
			ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
			defer cancel()
			go c.Acquire(ctx, "k")
			time.Sleep(30 * time.Second)
			if !slices.ContainsFunc(f.seen("acquire"), func(c call) bool { return c.reqs[0].GateTime > 6*time.Second }) {
				t.Error("no gate that outlasts the time between two attempts")
			}
			for range 80 {
				if !gated(t, f) {
					t.Fatal("P19: no gate while a writer waits")
				}
				time.Sleep(100 * time.Millisecond)
			}
			<-ctx.Done()
		},
		"a writer that does not wait leaves none": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			_, err := c.TryAcquire(context.Background(), "k")
			var held *rowlock.HeldError
			if !errors.As(err, &held) || !held.Shared || gated(t, f) {
				t.Errorf("%v, gated %v", err, gated(t, f))
			}
		},
		"readers come again after it": func(t *testing.T, f *faultStore, c *rowlock.Client, reader *rowlock.Lease) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			go c.Acquire(ctx, "k")
			synctest.Wait()
			began := f.Now()
			other := newClient(t, &faultStore{Store: f.Store, limits: f.limits})
			l := acquire(t, other, "k", rowlock.Shared())
			// To the next probe, and once the time for which a key is left to a hint that has stood for
			// long: that the caller behind it has gone is not known.
			if took := f.Now() - began; took < 5*time.Second || took > 5*time.Second+200*time.Millisecond {
				t.Errorf("P19: a reader waited %v for a writer that waited 5 s", took)
			}
			release(t, l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := withQueue()
				readers := newClient(t, &faultStore{Store: f.Store, limits: f.limits}, rowlock.Options{})
				reader := acquire(t, readers, "k", rowlock.Shared())
				tc(t, f, newClient(t, f), reader)
				release(t, reader)
			})
		})
	}
}
