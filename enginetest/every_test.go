package enginetest

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// runLog notes when functions of Every began.
type runLog struct {
	mu sync.Mutex
	at []time.Time
	by []int
}

func (r *runLog) note(who int) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.by = append(r.at, time.Now()), append(r.by, who)
	return len(r.at)
}

func (r *runLog) all() ([]time.Time, []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at), slices.Clone(r.by)
}

// TestP24_Every: five programs, ten periods: ten runs, though the program that runs is closed, or
// stands still, in the middle of each third.
func TestP24_Every(t *testing.T) {
	for name, period := range map[string]time.Duration{"shorter than the TTL": 20 * time.Second, "an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				space := memory.New()
				var runs runLog
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				clients := make([]*rowlock.Client, 5)
				start := time.Now()
				for i := range clients {
					f := &faultStore{Store: space}
					clients[i] = newClient(t, f)
					wg.Go(func() {
						err := rowlock.Every(ctx, clients[i], "job", period, func(ctx context.Context, lease *rowlock.Lease) error {
							n := runs.note(i)
							switch {
							case n == 3: // the program ends
								go clients[i].Close(context.Background())
								<-ctx.Done()
								return ctx.Err()
							case n == 6: // it is cut off from the database, and loses its lease
								f.set(func(call) verdict { return verdict{hang: true} })
								<-ctx.Done()
								f.set(nil)
								return ctx.Err()
							}
							time.Sleep(time.Second)
							return nil
						})
						if !errors.Is(err, context.Canceled) && !errors.Is(err, rowlock.ErrClosed) {
							t.Error(err)
						}
					})
				}
				time.Sleep(10*period - period/4)
				synctest.Wait()
				at, by := runs.all()
				cancel()
				wg.Wait()
				if len(at) != 10 || at[0].Sub(start) > time.Second {
					t.Errorf("%d runs in ten periods", len(at))
				}
				for i := 1; i < len(at); i++ {
					most := period
					if i == 6 { // a lost lease keeps the key for its TTL
						most = max(period, 30*time.Second)
					}
					if d := at[i].Sub(at[i-1]); d < period || d > most+100*time.Millisecond {
						t.Errorf("run %d began %v after the one before", i, d)
					}
				}
				t.Logf("runs by %v", by)
			})
		})
	}
}

// TestP24_EveryWhateverIsLate: requests and answers of all kinds come late, by times that differ, and
// programs die under their runs: a run begins at least a period after the one before it began.
func TestP24_EveryWhateverIsLate(t *testing.T) {
	for name, tc := range map[string]struct{ period, most time.Duration }{
		"as long as a period":   {4 * time.Second, 3 * time.Second},
		"some of a period":      {20 * time.Second, time.Second},
		"longer than a period":  {time.Second, 3 * time.Second},
		"little, a long period": {time.Hour, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const programs, runs = 4, 60
				space := memory.New()
				var log runLog
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var wg sync.WaitGroup
				for i := range programs {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					var mu sync.Mutex
					late := func() time.Duration {
						mu.Lock()
						defer mu.Unlock()
						if random.IntN(3) > 0 {
							return time.Duration(random.Int64N(int64(5 * time.Millisecond)))
						}
						return time.Duration(random.Int64N(int64(tc.most)))
					}
					wg.Go(func() {
						for ctx.Err() == nil { // a new program each time
							f := &faultStore{Store: space}
							f.set(func(call) verdict { return verdict{delay: late(), slow: late()} })
							c := newClient(t, f)
							end, kill := context.WithCancel(ctx)
							_ = rowlock.Every(end, c, "job", tc.period, func(ctx context.Context, lease *rowlock.Lease) error {
								if log.note(i) >= runs {
									cancel()
								}
								if late() < 4*time.Millisecond {
									return nil
								}
								f.set(func(call) verdict { return verdict{hang: true} }) // it dies
								kill()
								return nil
							})
							kill()
							f.set(nil)
						}
					})
				}
				wg.Wait()
				at, by := log.all()
				for i := 1; i < len(at); i++ {
					if d := at[i].Sub(at[i-1]); d < tc.period {
						t.Errorf("P24: run %d, of program %d, began %v after the one of program %d, in a period of %v", i, by[i], d, by[i-1], tc.period)
					}
				}
				t.Logf("%d runs in %.1f periods", len(at), float64(at[len(at)-1].Sub(at[0]))/float64(tc.period))
			})
		})
	}
}

// TestEveryPutsOff: a grant whose answer is late is given back at once, so that nothing of the period is lost: the
// run is that of the next grant, whose answer may be as late.
func TestEveryPutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space, h := memory.New(), &logged{least: slog.LevelInfo}
		slow := &faultStore{Store: space}
		slow.set(func(c call) verdict {
			if c.op == "acquire" {
				return verdict{slow: 5 * time.Second}
			}
			return verdict{}
		})
		a, b := newClient(t, slow, logTo(h)), newClient(t, space)
		var runs runLog
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var wg sync.WaitGroup
		for i, c := range []*rowlock.Client{a, b} {
			wg.Go(func() {
				_ = rowlock.Every(ctx, c, "job", time.Hour, func(context.Context, *rowlock.Lease) error {
					runs.note(i)
					return nil
				})
			})
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		at, by := runs.all()
		if len(at) != 1 || by[0] != 1 || at[0].Sub(start) > 5100*time.Millisecond { // it is passed to the other, which stands
			t.Errorf("runs of %v at %v from %v on, want one of program 1 after 5 s", by, at, start)
		}
		time.Sleep(2 * time.Minute)
		if at, by = runs.all(); len(at) != 2 || at[1].Sub(at[0]) < time.Hour {
			t.Errorf("runs of %v at %v, want another an hour after the first", by, at)
		}
		if lines := h.lines("a run is put off: its lease was granted too long ago"); len(lines) != 1 || !strings.Contains(lines[0], "ago=5s") {
			t.Errorf("logged: %q", lines)
		}
		cancel()
		wg.Wait()
	})
}

// TestEveryOfALongRun: runs do not overlap, and the next follows at once.
func TestEveryOfALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := memory.New()
		const period, takes = time.Minute, 150 * time.Second
		var runs runLog
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		var running sync.Mutex
		for i := range 3 {
			c := newClient(t, space)
			wg.Go(func() {
				err := rowlock.Every(ctx, c, "job", period, func(context.Context, *rowlock.Lease) error {
					if !running.TryLock() {
						t.Error("two runs at a time")
					}
					defer running.Unlock()
					runs.note(i)
					time.Sleep(takes)
					return nil
				})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		at, _ := runs.all()
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < takes || d > takes+200*time.Millisecond {
				t.Errorf("run %d began %v after the one before", i, d)
			}
		}
		if len(at) != 4 {
			t.Errorf("%d runs", len(at))
		}
	})
}

// TestEveryEndsWithAnError: fn's ends it, unless the lease was lost.
func TestEveryEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		n := 0
		err := rowlock.Every(t.Context(), newClient(t, f), "job", time.Hour, func(ctx context.Context, lease *rowlock.Lease) error {
			n++
			switch n {
			case 1:
				return nil
			case 2:
				f.Expire("job")
				acquire(t, newClient(t, f.Store), "job", rowlock.MaxHold(time.Minute))
				_ = lease.Renew(ctx)
			}
			return errMine
		})
		if !errors.Is(err, errMine) || n != 3 {
			t.Errorf("after %d runs: %v", n, err)
		}
		start := time.Now()
		l := acquire(t, newClient(t, f.Store), "job")
		if d := time.Since(start); d < time.Hour-time.Second || d > time.Hour+time.Millisecond {
			t.Errorf("the key of a run that failed is free after %v, want the period", d)
		}
		l.Release(t.Context())
	})
}

// TestEveryIsCheap: while MinHold keeps the key, who waits for it asks about once a minute, and
// writes nothing; and an operator's ForceRelease is seen.
func TestEveryIsCheap(t *testing.T) {
	for name, period := range map[string]time.Duration{"ten seconds": 10 * time.Second, "an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				space := memory.New()
				var runs runLog
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				stores := make([]*faultStore, 5)
				for i := range stores {
					stores[i] = &faultStore{Store: space}
					c := newClient(t, stores[i])
					wg.Go(func() {
						_ = rowlock.Every(ctx, c, "job", period, func(context.Context, *rowlock.Lease) error {
							runs.note(i)
							return nil
						})
					})
				}
				const periods = 20
				time.Sleep(periods*period - period/2)
				at, _ := runs.all()
				n := len(at)
				if n != periods {
					t.Errorf("%d runs", n)
				}
				writes, reads := 0, 0
				for _, f := range stores {
					writes += len(f.seen("acquire"))
					reads += len(f.seen("inspect"))
				}
				perProgram := float64(writes) / periods / float64(len(stores))
				minutes := period.Minutes()
				readsPer := float64(reads) / periods / float64(len(stores))
				t.Logf("for each period and program %.1f attempts and %.1f probes", perProgram, readsPer)
				if perProgram > 2.5 || readsPer > 4+1.5*minutes {
					t.Errorf("for each period and program %.1f attempts and %.1f probes", perProgram, readsPer)
				}
				if _, err := space.ForceRelease(ctx, "job"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(90 * time.Second)
				synctest.Wait()
				if at, _ = runs.all(); len(at) <= n {
					t.Errorf("no run within 90 s of a forced release")
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

// TestEveryBadInput: the error names what is wrong, and nothing is sent.
func TestEveryBadInput(t *testing.T) {
	fn := func(context.Context, *rowlock.Lease) error { return nil }
	for name, tc := range map[string]struct {
		period time.Duration
		opts   []rowlock.Option
		names  string
	}{
		"period 0":        {0, nil, "period"},
		"negative period": {-time.Second, nil, "period"},
		"a long period":   {400 * 24 * time.Hour, nil, "period"},
		"NoWait":          {time.Hour, []rowlock.Option{rowlock.NoWait()}, "NoWait"},
		"MinHold":         {time.Hour, []rowlock.Option{rowlock.MinHold(time.Minute)}, "MinHold"},
		"MaxHold":         {time.Hour, []rowlock.Option{rowlock.MaxHold(time.Minute)}, "MaxHold 1m0s is under the period 1h0m0s"},
		"Reentrant":       {time.Hour, []rowlock.Option{rowlock.Reentrant()}, "Reentrant"},
		"nil option":      {time.Hour, []rowlock.Option{nil}, "option 1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaultStore()
			c := newClient(t, f)
			err := rowlock.Every(t.Context(), c, "job", tc.period, fn, tc.opts...)
			if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("%v, want ErrInvalid that names %q", err, tc.names)
			}
			if len(f.seen("acquire")) > 0 {
				t.Error("something was sent")
			}
		})
	}
	c := newClient(t, memory.New(), rowlock.Options{MaxHold: time.Minute})
	if err := rowlock.Every(t.Context(), c, "job", time.Hour, fn); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), "MaxHold 1m0s") {
		t.Errorf("with Options.MaxHold: %v", err)
	}
	if err := rowlock.Every(t.Context(), c, "job", time.Hour, nil); !errors.Is(err, rowlock.ErrInvalid) {
		t.Errorf("without a function: %v", err)
	}
}

// TestP19_KeptKeyThatIsFreed: a key that MinHold keeps for an hour may be free in a moment, when an attempt whose caller
// gave up is undone, or an operator forces it: who waits has it after a second, or some times as long as it was kept, a minute at most.
func TestP19_KeptKeyThatIsFreed(t *testing.T) {
	for _, kept := range []time.Duration{300 * time.Millisecond, 10 * time.Second, 20 * time.Minute} {
		t.Run(kept.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				a, b := newClient(t, s), newClient(t, s)
				acquire(t, a, "k", rowlock.MinHold(time.Hour)).Release(t.Context())
				got := make(chan *rowlock.Lease)
				go func() { got <- acquire(t, b, "k") }()
				time.Sleep(kept)
				if _, err := a.ForceRelease(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				forced := time.Now()
				(<-got).Release(t.Context())
				if d, most := time.Since(forced), min(max(4*kept, 3*time.Second/2), 90*time.Second); d > most {
					t.Errorf("P19: granted %v after the key was freed, which was kept for %v, want at most %v", d, kept, most)
				}
			})
		})
	}
}

// TestKeptKeyNeedsNoQueue: while MinHold keeps a key for long nobody waits for the server to wake it, which takes a connection.
func TestKeptKeyNeedsNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &turnStore{Store: memory.New()}
		clients := []*rowlock.Client{newClient(t, s), newClient(t, s), newClient(t, s), newClient(t, s)}
		start := time.Now()
		first := acquire(t, clients[0], "k", rowlock.MinHold(time.Hour))
		got := make(chan *rowlock.Lease)
		for _, c := range clients[1:] {
			go func() { got <- acquire(t, c, "k") }()
		}
		time.Sleep(5 * time.Second)
		if n := s.waiting(); n != 1 {
			t.Errorf("%d clients wait for the turn of a key that is held, want the first", n)
		}
		first.Release(t.Context())
		time.Sleep(3 * time.Minute)
		if n := s.waiting(); n != 0 {
			t.Errorf("%d clients wait for the turn of a key that is kept", n)
		}
		before := s.Statements()
		time.Sleep(56 * time.Minute)
		if n := s.Statements() - before; n > 3*70 {
			t.Errorf("3 clients sent %d statements in 56 minutes", n)
		}
		for range 3 {
			l := <-got
			if d := time.Since(start); d < time.Hour || d > time.Hour+5*time.Second {
				t.Errorf("granted %v after the grant with MinHold", d)
			}
			time.Sleep(time.Second)
			l.Release(t.Context())
		}
		synctest.Wait()
		if n := s.waiting(); n != 0 {
			t.Errorf("%d clients wait for a turn at the end", n)
		}
	})
}
