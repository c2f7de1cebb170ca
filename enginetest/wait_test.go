package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// TestWaitersAreServedInOrder: the callers of one client are a FIFO, and however
// many they are one attempt or probe is under way.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		first := acquire(t, c, "k")
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				l := acquire(t, c, "k")
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
				l.Release(context.Background())
			})
			synctest.Wait()
		}
		if s := c.Stats(); s.Waiting != 50 {
			t.Errorf("stats %+v", s)
		}
		before := len(f.seen("acquire")) + len(f.seen("inspect"))
		first.Release(context.Background())
		wg.Wait()
		if n := len(f.seen("acquire")) + len(f.seen("inspect")) - before; n > 60 {
			t.Errorf("%d attempts and probes for 50 local waiters", n)
		}
		for i, n := range order {
			if i != n {
				t.Fatalf("order %v", order)
			}
		}
	})
}

// TestWaitErrors: what a wait that ended says.
func TestWaitErrors(t *testing.T) {
	ctx := context.Background()
	refused := errors.New("connection refused")
	mine := errors.New("my own cause")
	for name, tc := range map[string]struct {
		fault func(call) verdict
		end   func(context.Context) (context.Context, context.CancelFunc)
		want  []error
		not   error
	}{
		"held": {
			end: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			want: []error{context.DeadlineExceeded, rowlock.ErrHeld},
		},
		"held, cause": {
			end: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, time.Second, mine)
			},
			want: []error{context.DeadlineExceeded, rowlock.ErrHeld, mine},
		},
		"cancelled before": {
			end: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			},
			want: []error{context.Canceled}, not: rowlock.ErrHeld,
		},
		"server gone": {
			fault: on("acquire", verdict{err: refused}),
			end: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			want: []error{context.DeadlineExceeded, refused}, not: rowlock.ErrHeld,
		},
		"lasting": {
			fault: on("acquire", verdict{err: &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("no table: %w", rowlock.ErrSchema)}}),
			end:   context.WithCancel,
			want:  []error{rowlock.ErrSchema},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				l := acquire(t, newClient(t, f.Store, rowlock.Options{Owner: "somebody"}), "k")
				f.set(tc.fault)
				ctx, cancel := tc.end(ctx)
				defer cancel()
				_, err := c.Acquire(ctx, "k")
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("%v does not match %v", err, want)
					}
				}
				if tc.not != nil && errors.Is(err, tc.not) {
					t.Errorf("%v matches %v", err, tc.not)
				}
				if !strings.Contains(err.Error(), `"k"`) {
					t.Errorf("%v does not name the key", err)
				}
				if l.Err() != nil {
					t.Error(l.Err())
				}
			})
		})
	}
}

// TestPassingFailuresAreRetried: a waiting caller outlives an outage.
func TestPassingFailuresAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("acquire", verdict{err: &driver.Error{NotApplied: true, Err: errors.New("too many connections")}}))
		time.AfterFunc(time.Minute, func() { f.set(nil) })
		start := time.Now()
		acquire(t, c, "k")
		if d := time.Since(start); d < time.Minute || d > 62*time.Second {
			t.Errorf("granted after %v", d)
		}
		if n := len(f.seen("acquire")); n > 100 {
			t.Errorf("%d attempts in a minute of outage", n)
		}
	})
}

// TestAProbeIsCheap: a waiter of a key that another client holds for long probes
// sparsely, and gets it soon after the release.
func TestAProbeIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{})
		l := acquire(t, other, "k")
		var released time.Time
		time.AfterFunc(time.Minute, func() {
			released = time.Now()
			l.Release(context.Background())
		})
		acquire(t, c, "k")
		if d := time.Since(released); d > 130*time.Millisecond {
			t.Errorf("got the key %v after its release", d)
		}
		if n := len(f.seen("acquire")) + len(f.seen("inspect")); n > 60*20 {
			t.Errorf("%d statements in a minute", n)
		}
	})
}

// TestAWaiterThatLeavesTroublesNobody: the head of the queue gives up, the next
// one gets the key.
func TestAWaiterThatLeavesTroublesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{})
		l := acquire(t, other, "k")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		go c.Acquire(ctx, "k")
		synctest.Wait()
		time.AfterFunc(10*time.Second, func() { l.Release(context.Background()) })
		start := time.Now()
		acquire(t, c, "k")
		if d := time.Since(start); d > 11*time.Second {
			t.Errorf("granted after %v", d)
		}
	})
}

func TestSelfDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f)
		l := acquire(t, c, "k")
		type k struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(l.Context(context.Background()), k{}, 1), time.Minute)
		defer cancel()
		if _, err := c.Acquire(ctx, "k"); !errors.Is(err, rowlock.ErrSelfDeadlock) {
			t.Errorf("Acquire = %v", err)
		}
		if _, err := c.TryAcquire(ctx, "k"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire = %v", err)
		}
		acquire2, err := c.Acquire(ctx, "another")
		if err != nil {
			t.Fatal(err)
		}
		acquire2.Release(ctx)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := other.Acquire(short, "k"); errors.Is(err, rowlock.ErrSelfDeadlock) {
			t.Error("another client's lease was taken for its own")
		}
		l.Release(context.Background())
		if _, err := c.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire with the context of a released lease = %v", err)
		}
		next, err := c.Acquire(context.WithoutCancel(ctx), "k")
		if err != nil {
			t.Fatalf("Acquire of a key that nobody holds, with what is left of an ended lease's context: %v", err)
		}
		next.Release(ctx)
	})
}

// TestHeldByAnotherCallerOfTheClient: a wait that ends behind a holder in the same
// program says so, as one behind another program does.
func TestHeldByAnotherCallerOfTheClient(t *testing.T) {
	for name, wait := range map[string]func(context.Context, *rowlock.Client) error{
		"Acquire": func(ctx context.Context, c *rowlock.Client) error { _, err := c.Acquire(ctx, "k"); return err },
		"Do": func(ctx context.Context, c *rowlock.Client) error {
			return rowlock.Do(ctx, c, "k", func(context.Context, *rowlock.Lease) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f, rowlock.Options{Owner: "pod-7:12"})
				a, _ := two(t, c, 0, nil, nil) // b has it by handoff
				if a.Err() == nil {
					t.Fatal("not handed off")
				}
				for _, d := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
					ctx, cancel := context.WithTimeout(context.Background(), d)
					err := wait(ctx, c)
					cancel()
					var held *rowlock.HeldError
					if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, rowlock.ErrHeld) || !errors.As(err, &held) {
						t.Fatalf("a wait of %v behind a holder of the same client: %v, want its context's error and ErrHeld", d, err)
					}
					if held.Key != "k" || held.Owner != "pod-7:12" || held.Left <= 0 || held.Left > 30*time.Second {
						t.Errorf("%+v", held)
					}
				}
			})
		})
	}
}

// slowProbes is a memory store whose probes of the key "k" take a while.
type slowProbes struct {
	*memory.Store
	took time.Duration
	n    atomic.Int64
}

func (s *slowProbes) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	if keys[0] == "k" {
		time.Sleep(s.took)
		s.n.Add(1)
	}
	return s.Store.Inspect(ctx, keys)
}

func (s *slowProbes) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	if entries[0].Key == "k" {
		time.Sleep(s.took)
		s.n.Add(1)
	}
	return s.Store.Look(ctx, entries)
}

// TestProbedAsTheLastCallerLeaves: the last caller gives up while a probe of its key is on its
// way. What is known of the key goes, and the answer moves no other key. It shows with -race
// only, where nothing but the client orders probe and end: no testing/synctest, no channel.
func TestProbedAsTheLastCallerLeaves(t *testing.T) {
	s := &slowProbes{Store: memory.New(), took: 60 * time.Millisecond}
	a, b := newClient(t, s), newClient(t, s)
	acquire(t, a, "k")
	acquire(t, a, "other")
	for s.n.Load() < 10 {
		ctx, cancel := context.WithTimeout(context.Background(), s.took/2)
		if _, err := b.Acquire(ctx, "k"); err == nil { // on a busy machine the attempt is not answered in time either
			t.Error("granted while another has it")
		}
		cancel()
		time.Sleep(s.took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := b.Acquire(ctx, "other"); !errors.Is(err, rowlock.ErrHeld) {
		t.Error(err)
	}
}

// TestLateReleaseOfAHoldThatIsOver: the release of a hold is not answered, and its TTL is over since. It is not in anybody's way: who has the
// key now is told as holding it, and AcquireAll goes on.
func TestLateReleaseOfAHoldThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f, rowlock.Options{ReleaseWait: time.Second, TTL: 10 * time.Second}), newClient(t, f.Store)
		var all []*rowlock.Lease
		for _, key := range []string{"theirs", "ours", "a", "b"} {
			all = append(all, acquire(t, c, key))
		}
		f.set(on("release", verdict{err: errDenied}))
		for _, l := range all {
			if err := l.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		g, err := c.AcquireAll(ctx, rowlock.Keys("a", "b"), rowlock.MaxHold(time.Minute))
		if err != nil {
			t.Errorf("AcquireAll of keys whose releases were refused: %v", err)
		} else if n := len(f.seen("acquire")); n > 30 {
			t.Errorf("AcquireAll took %d attempts", n)
		}
		time.Sleep(time.Second)
		acquire(t, other, "theirs")
		acquire(t, c, "ours")
		for _, key := range []string{"theirs", "ours"} {
			if _, err := c.TryAcquire(context.Background(), key); !errors.Is(err, rowlock.ErrHeld) {
				t.Errorf("TryAcquire of %q: %v", key, err)
			}
		}
		f.set(nil)
		if g != nil {
			_ = g.Release(context.Background())
		}
		time.Sleep(time.Minute) // what was refused is tried again
	})
}
