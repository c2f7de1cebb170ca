package enginetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestBadModes: what cannot be asked for is an error that names it, and nothing is sent.
func TestBadModes(t *testing.T) {
	f := newFaultStore()
	c := newClient(t, f)
	lacks := newFaultStore()
	lacks.limits = func(l *driver.Limits) { l.Modes = driver.ModesOf(driver.Slot) }
	d := newClient(t, lacks)
	for name, tc := range map[string]struct {
		c    *rowlock.Client
		opts []rowlock.Option
		want error
		says string
	}{
		"no slots":            {c, []rowlock.Option{rowlock.Slots(0)}, rowlock.ErrInvalid, "Slots(0)"},
		"negative slots":      {c, []rowlock.Option{rowlock.Slots(-1)}, rowlock.ErrInvalid, "Slots(-1)"},
		"too many slots":      {c, []rowlock.Option{rowlock.Slots(driver.MaxSlots + 1)}, rowlock.ErrInvalid, "1 to 1000"},
		"a reader in a slot":  {c, []rowlock.Option{rowlock.Slots(2), rowlock.Shared()}, rowlock.ErrInvalid, "Slots(2)"},
		"MinHold of a reader": {c, []rowlock.Option{rowlock.Shared(), rowlock.MinHold(time.Second)}, rowlock.ErrInvalid, "MinHold 1s"},
		"no such mode":        {d, []rowlock.Option{rowlock.Shared()}, rowlock.ErrNotSupported, "mode shared: the store (*enginetest.faultStore)"},
	} {
		_, err1 := tc.c.Acquire(context.Background(), "k", tc.opts...)
		_, err2 := tc.c.TryAcquire(context.Background(), "k", tc.opts...)
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, want %v that says %q", name, err, tc.want, tc.says)
			}
		}
	}
	if n := f.Statements() + lacks.Statements(); n != 0 {
		t.Errorf("%d statements were sent", n)
	}
	release(t, acquire(t, d, "k", rowlock.Slots(driver.MaxSlots)))
}

func release(t *testing.T, l *rowlock.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestSelfDeadlockOfModes: any mode inside a live lease of the same key.
func TestSelfDeadlockOfModes(t *testing.T) {
	c := newClient(t, newFaultStore())
	modes := [][]rowlock.Option{nil, {rowlock.Shared()}, {rowlock.Slots(3)}}
	for i, first := range modes {
		l := acquire(t, c, "k", first...)
		for j, second := range modes {
			if _, err := c.Acquire(l.Context(context.Background()), "k", second...); !errors.Is(err, rowlock.ErrSelfDeadlock) {
				t.Errorf("mode %d inside mode %d: %v, want ErrSelfDeadlock", j, i, err)
			}
		}
		release(t, l)
	}
}

// TestReadersShareAHold: readers of one client need one hold in the database, within Handoff,
// and each ends alone.
func TestReadersShareAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		var leases []*rowlock.Lease
		for range 5 {
			leases = append(leases, acquire(t, c, "k", rowlock.Shared()))
		}
		l, err := c.TryAcquire(context.Background(), "k", rowlock.Shared())
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
		if n := len(f.seen("acquire")); n != 1 {
			t.Errorf("%d acquires for %d readers", n, len(leases))
		}
		if n := c.Stats().Held; n != len(leases) {
			t.Errorf("Stats.Held is %d, with %d leases", n, len(leases))
		}
		for i, l := range leases {
			if l.Token() != leases[0].Token() || l.Err() != nil || l.Slot() != -1 {
				t.Errorf("reader %d: token %d, %v", i, l.Token(), l.Err())
			}
		}
		// The first leaves, the one in the middle, and the others.
		for i, at := range []int{0, 3, 1, 5, 2} {
			done := leases[at].Done()
			release(t, leases[at])
			<-done
			if err := leases[at].Err(); !errors.Is(err, rowlock.ErrReleased) {
				t.Errorf("P18: a reader after its release: %v", err)
			}
			if leases[at].Renew(context.Background()) == nil {
				t.Error("P5: a reader that was released renews")
			}
			if leases[4].Err() != nil || len(f.seen("release")) != 0 {
				t.Errorf("P18: after %d of %d releases: %v, %d statements", i+1, len(leases), leases[4].Err(), len(f.seen("release")))
			}
			release(t, leases[at])
		}
		time.Sleep(time.Minute) // renewed
		if err := leases[4].Err(); err != nil {
			t.Errorf("the last reader: %v", err)
		}
		release(t, leases[4])
		if n := len(f.seen("release")); n != 1 {
			t.Errorf("%d releases", n)
		}
		free(t, f, "k")
	})
}

// TestReadersThatWaitGetLeasesTogether: the answer to one attempt serves all callers that asked
// for the same.
func TestReadersThatWaitGetLeasesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store)
		w := acquire(t, other, "k")
		var wg sync.WaitGroup
		var mu sync.Mutex
		holds := make(map[driver.HoldID]int)
		for i := range 12 {
			wg.Go(func() {
				opts := []rowlock.Option{rowlock.Shared()}
				if i%4 == 3 {
					opts = append(opts, rowlock.TTL(time.Minute))
				}
				l := acquire(t, c, "k", opts...)
				mu.Lock()
				holds[holdOf(l).ID]++
				mu.Unlock()
				time.Sleep(time.Second)
				release(t, l)
			})
		}
		synctest.Wait()
		release(t, w)
		wg.Wait()
		var sizes []int
		for _, n := range holds {
			sizes = append(sizes, n)
		}
		if len(sizes) != 2 || sizes[0]+sizes[1] != 12 || sizes[0] != 3 && sizes[1] != 3 {
			t.Errorf("readers by hold: %v, want 9 and 3", sizes)
		}
		free(t, f, "k")
	})
}

// TestWhoMayJoin: a reader uses a hold of its client only if it gets what it asked for.
func TestWhoMayJoin(t *testing.T) {
	shared := rowlock.Shared()
	for name, tc := range map[string]struct {
		o             rowlock.Options
		after         time.Duration
		first, second []rowlock.Option
		fault         func(call) verdict
		guard         bool
		joins         bool
	}{
		"plain":                  {joins: true},
		"within Handoff":         {after: 49 * time.Millisecond, joins: true},
		"after Handoff":          {after: 50 * time.Millisecond},
		"Handoff off":            {o: rowlock.Options{Handoff: -1}},
		"another TTL":            {second: []rowlock.Option{rowlock.TTL(time.Minute)}},
		"NoRenew":                {second: []rowlock.Option{rowlock.NoRenew()}},
		"NoRenew before":         {first: []rowlock.Option{rowlock.NoRenew()}},
		"both NoRenew":           {first: []rowlock.Option{rowlock.NoRenew()}, second: []rowlock.Option{rowlock.NoRenew()}},
		"Guarded":                {second: []rowlock.Option{rowlock.Guarded()}},
		"both Guarded":           {first: []rowlock.Option{rowlock.Guarded()}, second: []rowlock.Option{rowlock.Guarded()}},
		"a guard is open":        {guard: true},
		"MaxHold":                {first: []rowlock.Option{rowlock.MaxHold(time.Minute)}, second: []rowlock.Option{rowlock.MaxHold(time.Minute)}},
		"a MaxHold for all":      {o: rowlock.Options{MaxHold: time.Minute}},
		"trust is half over":     {o: rowlock.Options{Handoff: time.Hour}, after: 14 * time.Second, fault: on("renew", verdict{err: errors.New("no")})},
		"trust is not half over": {o: rowlock.Options{Handoff: time.Hour}, after: 13 * time.Second, joins: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				f.set(tc.fault)
				c := newClient(t, f, tc.o)
				a := acquire(t, c, "k", append(tc.first, shared)...)
				if tc.guard {
					if _, err := rowlock.BeginGuard(a, f); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(tc.after)
				b := acquire(t, c, "k", append(tc.second, shared)...)
				if joins := holdOf(a).ID == holdOf(b).ID; joins != tc.joins {
					t.Errorf("joins: %v", joins)
				}
				if a.Token() != b.Token() {
					t.Errorf("P20: tokens %d and %d in one phase", a.Token(), b.Token())
				}
				f.set(nil)
				release(t, a)
				if err := b.Renew(context.Background()); err != nil {
					t.Errorf("P18: the other reader: %v", err)
				}
				release(t, b)
				free(t, f, "k")
			})
		})
	}
}

// TestLossOfASharedHold: every reader on it hears of it, and it is one loss each.
func TestLossOfASharedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		a, b, gone := acquire(t, c, "k", rowlock.Shared()), acquire(t, c, "k", rowlock.Shared()), acquire(t, c, "k", rowlock.Shared())
		ctx := b.Context(context.Background())
		release(t, gone)
		if !f.Expire("k") {
			t.Fatal("no hold to end")
		}
		time.Sleep(15 * time.Second) // the next renewal
		for i, done := range []<-chan struct{}{a.Done(), b.Done(), ctx.Done()} {
			select {
			case <-done:
			default:
				t.Errorf("P2: signal %d did not come", i)
			}
		}
		for _, l := range []*rowlock.Lease{a, b} {
			if reason(l.Err()) != rowlock.ReasonTaken || reason(l.Release(context.Background())) != rowlock.ReasonTaken {
				t.Errorf("P2: a reader whose hold was ended: %v", l.Err())
			}
		}
		if s := c.Stats(); s.Losses != 2 || s.Held != 0 {
			t.Errorf("%+v, want two losses", s)
		}
		if err := gone.Err(); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("the one that was released before: %v", err)
		}
	})
}

// TestCloseUnderOneOfSeveralReaders: the lease under a function of Do is held until that has
// returned; the others on its hold end.
func TestCloseUnderOneOfSeveralReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		plain := acquire(t, c, "k", rowlock.Shared())
		done := make(chan error, 1)
		go func() {
			done <- rowlock.Do(context.Background(), c, "k", func(ctx context.Context, l *rowlock.Lease) error {
				<-ctx.Done()
				time.Sleep(9 * time.Second) // Close releases what it can before its time is over
				return l.Renew(context.Background())
			}, rowlock.Shared())
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		go func() {
			time.Sleep(8 * time.Second)
			if reason(plain.Err()) != rowlock.ReasonClosed {
				t.Errorf("P12: the other reader while the function still runs: %v", plain.Err())
			}
		}()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("P12: the function: %v", err)
		}
		if reason(plain.Err()) != rowlock.ReasonClosed {
			t.Errorf("P12: the other reader after Close: %v", plain.Err())
		}
		free(t, f, "k")
	})
}

// TestLocalWakeUps: the end of a hold of one mode wakes the callers here that wait in another.
func TestLocalWakeUps(t *testing.T) {
	modes := [][]rowlock.Option{nil, {rowlock.Shared()}, {rowlock.Slots(3)}}
	for i, first := range modes {
		for j, second := range modes {
			if i > 0 && j > 0 || i == j {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				l := acquire(t, c, "k", first...)
				got := make(chan time.Duration, 1)
				go func() {
					next := acquire(t, c, "k", second...)
					got <- f.Now()
					release(t, next)
				}()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				at := f.Now()
				release(t, l)
				if took := <-got - at; took > 0 {
					t.Errorf("mode %d waited %v after the release of mode %d of its client", j, took, i)
				}
				synctest.Wait()
				free(t, f, "k")
			})
		}
	}
}

// TestP19_LocalReadersAndWriters: callers of one client that come again and again leave the key
// to those that want it in another mode.
func TestP19_LocalReadersAndWriters(t *testing.T) {
	shared, slots := []rowlock.Option{rowlock.Shared()}, []rowlock.Option{rowlock.Slots(2)}
	for name, tc := range map[string]struct{ stream, alone []rowlock.Option }{
		"reader among writers": {nil, shared},
		"slot among writers":   {nil, slots},
		"writer among readers": {shared, nil},
		"writer among slots":   {slots, nil},
	} {
		for kind, store := range map[string]func() *faultStore{"lines": newFaultStore, "a queue": withQueue} {
			t.Run(name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := store()
					c := newClient(t, f)
					stop, grants := loops(t, c, 3, 5*time.Millisecond, tc.stream)
					time.Sleep(time.Second)
					for range 5 {
						began := f.Now()
						l := acquire(t, c, "k", tc.alone...)
						if took := f.Now() - began; took > time.Second {
							t.Errorf("P19: waited %v for callers of its client", took)
						}
						time.Sleep(5 * time.Millisecond)
						release(t, l)
					}
					stop()
					if n := grants(); n < 100 {
						t.Errorf("P19: the others got the key %d times", n)
					}
				})
			})
		}
	}
}

// loops has n callers take "k" again and again.
func loops(t *testing.T, c *rowlock.Client, n int, hold time.Duration, opts []rowlock.Option) (stop func(), grants func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var wg sync.WaitGroup
	count := 0
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Acquire(ctx, "k", opts...)
				if err != nil {
					return
				}
				mu.Lock()
				count++
				mu.Unlock()
				time.Sleep(hold)
				_ = l.Release(context.Background())
			}
		})
	}
	return func() { cancel(); wg.Wait() }, func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// TestP19_Starvation: neither a stream of readers nor one of writers, of several clients each,
// keeps the other out, whether the store wakes those who wait by turns or not. Time is fake, so bounds are exact.
func TestP19_Starvation(t *testing.T) {
	for name, tc := range map[string]struct {
		stream, alone []rowlock.Option
		most          time.Duration
	}{
		"writer among readers": {stream: []rowlock.Option{rowlock.Shared()}, most: time.Second},
		"writer among slots":   {stream: []rowlock.Option{rowlock.Slots(4)}, most: time.Second},
		"reader among writers": {alone: []rowlock.Option{rowlock.Shared()}, most: 5 * time.Second},
		"slot among writers":   {alone: []rowlock.Option{rowlock.Slots(2)}, most: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { starvation(t, newFaultStore(), tc.stream, tc.alone, tc.most, false) })
		})
		t.Run(name+", a queue", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { starvation(t, withQueue(), tc.stream, tc.alone, tc.most, false) })
		})
		t.Run(name+", by turns", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { starvation(t, newFaultStore(), tc.stream, tc.alone, 1500*time.Millisecond, true) })
		})
	}
}

// starvation has three programs come without end, and one beside them whose waits it measures.
func starvation(t *testing.T, f *faultStore, stream, alone []rowlock.Option, most time.Duration, turns bool) {
	f.set(on("acquire", verdict{delay: time.Millisecond}))
	var store driver.Store = f
	queue := &turnStore{Store: f.Store, far: 100 * time.Microsecond}
	if turns {
		store = turnsOf{f, queue}
	}
	var stops []func()
	var counts []func() int
	for range 3 {
		stop, count := loops(t, newClient(t, store), 4, 17*time.Millisecond, stream)
		stops, counts = append(stops, stop), append(counts, count)
	}
	c := newClient(t, store)
	time.Sleep(time.Second)
	var longest time.Duration
	n := 0
	for f.Now() < 20*time.Second {
		began := f.Now()
		l := acquire(t, c, "k", alone...)
		n++
		longest = max(longest, f.Now()-began)
		time.Sleep(10 * time.Millisecond)
		release(t, l)
		time.Sleep(30 * time.Millisecond)
	}
	if longest > most {
		t.Errorf("P19: waited up to %v", longest)
	}
	t.Logf("%d grants, waited at most %v, beside %d, %d and %d grants", n, longest, counts[0](), counts[1](), counts[2]())
	for i, stop := range stops {
		if counts[i]() < 50 {
			t.Errorf("P19: a client of the stream got the key %d times", counts[i]())
		}
		stop()
	}
	time.Sleep(time.Minute)
	if n := queue.waiting(); n > 0 {
		t.Errorf("nobody waits, and %d have a turn or wait for one", n)
	}
}

// turnsOf is a faultStore that gives turns.
type turnsOf struct {
	*faultStore
	turns *turnStore
}

func (s turnsOf) Limits() driver.Limits {
	l := s.faultStore.Limits()
	l.Turns = true
	return l
}

func (s turnsOf) WaitTurn(ctx context.Context, key string) (func(), error) {
	return s.turns.WaitTurn(ctx, key)
}

// TestP16_RunningOutOfHolds: local callers of all modes, and nothing is left of them.
func TestP16_NothingLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		f.set(on("acquire", verdict{delay: time.Millisecond}))
		c := newClient(t, f)
		var wg sync.WaitGroup
		for i := range 30 {
			opts := [][]rowlock.Option{nil, {rowlock.Shared()}, {rowlock.Slots(3)}}[i%3]
			wg.Go(func() {
				for n := range 10 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*n+1)*time.Millisecond)
					if l, err := c.Acquire(ctx, "k", opts...); err == nil {
						time.Sleep(time.Duration(n) * time.Millisecond)
						release(t, l)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		entries, idle, waiting, together := keysOf(c)
		if waiting != 0 || together != 0 || entries != idle || entries > 3 {
			t.Errorf("%d entries, %d of them idle, %d callers wait, %d of them not exclusively", entries, idle, waiting, together)
		}
		if s := c.Stats(); s.Held != 0 || s.Unresolved != 0 {
			t.Errorf("%+v", s)
		}
		if i, _ := c.Inspect(context.Background(), "k"); i.Held || i.Gated {
			t.Errorf("%+v", i)
		}
	})
}

// TestUndoOfModes: the undo of an attempt that was not answered names its mode.
func TestUndoOfModes(t *testing.T) {
	for _, opt := range []rowlock.Option{rowlock.Shared(), rowlock.Slots(3)} {
		synctest.Test(t, func(t *testing.T) {
			f := newFaultStore()
			other := newClient(t, f.Store)
			beside := acquire(t, other, "k", opt)
			f.set(func(c call) verdict {
				return verdict{err: errors.New("lost"), apply: c.op == "acquire" && c.n == 0}
			})
			c := newClient(t, f)
			if l, err := c.TryAcquire(context.Background(), "k", opt); err == nil {
				t.Fatal(l)
			}
			f.set(nil)
			time.Sleep(time.Minute)
			undone := f.seen("release")
			if len(undone) == 0 || undone[0].hold[0].Mode == driver.Exclusive || !undone[0].hold[0].Undo {
				t.Fatalf("%+v", undone)
			}
			if h := undone[0].hold[0]; h.Mode == driver.Slot && h.Slot != -1 {
				t.Errorf("an undo of an attempt whose slot is not known names slot %d", h.Slot)
			}
			if i, _ := c.Inspect(context.Background(), "k"); i.Readers+i.Slots != 1 {
				t.Errorf("P18: %+v, want the other's hold only", i)
			}
			if err := beside.Renew(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBadGrantsOfModes: a store that grants what was not asked for is not believed.
func TestBadGrantsOfModes(t *testing.T) {
	for name, change := range map[string]func(*driver.Result){
		"no phase":       func(r *driver.Result) { r.Phase = 0 },
		"slot too large": func(r *driver.Result) { r.Slot = 3 },
		"negative slot":  func(r *driver.Result) { r.Slot = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				f.set(on("acquire", verdict{change: func(r []driver.Result) { change(&r[0]) }}))
				c := newClient(t, f)
				if l, err := c.Acquire(context.Background(), "k", rowlock.Slots(3)); err == nil || !driver.IsLasting(err) {
					t.Errorf("%v, %v, want an error that lasts", l, err)
				}
				time.Sleep(time.Minute)
				free(t, f, "k")
			})
		})
	}
}
