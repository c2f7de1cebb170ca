package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// TestOwnReleaseIsNotAHolder: the key that a caller waits for was released by the same
// client, and the release has not arrived. Whether somebody has it is not known.
func TestOwnReleaseIsNotAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		f.set(on("release", verdict{delay: 2 * time.Second}))
		go l.Release(context.Background())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Acquire(ctx, "k")
		if !errors.Is(err, context.DeadlineExceeded) || !isOwnRelease(err) {
			t.Errorf("%v, want the context's error and that the own release is not answered", err)
		}
	})
}

// isOwnRelease reports whether err says that a release of the same client is not answered, and not that somebody has the key.
func isOwnRelease(err error) bool {
	return errors.Is(err, rowlock.ErrReleasing) && !errors.Is(err, rowlock.ErrHeld)
}

// TestOwnLateReleaseIsNotAHolder: Release did not wait any longer for its answer, and its key is still taken. That is no other
// program's lease: a job that is run by Do with NoWait would be skipped in silence. Of a key that another caller of the client has, and
// in a mode that the hold does not exclude, nothing changes.
func TestOwnLateReleaseIsNotAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f, rowlock.Options{ReleaseWait: time.Second}), newClient(t, f.Store)
		l, read, beside, theirs := acquire(t, c, "k"), acquire(t, c, "read", rowlock.Shared()), acquire(t, c, "beside", rowlock.Shared()), acquire(t, other, "theirs")
		f.set(on("release", verdict{hang: true}))
		for _, l := range []*rowlock.Lease{l, read, beside} {
			if err := l.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.TryAcquire(context.Background(), "beside", rowlock.Shared()); err != nil {
			t.Errorf("TryAcquire of another reader: %v", err)
		}
		for _, key := range []string{"k", "read"} {
			if _, err := c.TryAcquire(context.Background(), key); !isOwnRelease(err) {
				t.Errorf("TryAcquire of %q: %v", key, err)
			}
			if err := rowlock.Do(context.Background(), c, key, func(context.Context, *rowlock.Lease) error { return nil }, rowlock.NoWait()); !isOwnRelease(err) {
				t.Errorf("Do of %q with NoWait: %v", key, err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			if _, err := c.Acquire(ctx, key); !errors.Is(err, context.DeadlineExceeded) || !isOwnRelease(err) {
				t.Errorf("Acquire of %q: %v", key, err)
			}
			cancel()
		}
		if _, err := c.TryAcquire(context.Background(), "theirs"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire of a key that another has: %v", err)
		}
		f.set(nil)
		time.Sleep(time.Minute)
		l = acquire(t, c, "k")
		f.set(on("release", verdict{delay: time.Second / 2}))
		go l.Release(context.Background())
		synctest.Wait()
		if _, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire while the caller of Release waits for the answer: %v", err)
		}
		time.Sleep(time.Second)
		release(t, acquire(t, c, "k"))
		release(t, theirs)
	})
}

// TestOwnHoldThatHasExpired: after a loss the own hold keeps nobody from its key for longer than a TTL from its last answer, unless a
// renewal of it is on its way, also where the loss was noticed later, or where neither its release nor its undo is answered: a refusal is another's hold then.
func TestOwnHoldThatHasExpired(t *testing.T) {
	const ttl = 30 * time.Second
	for _, c := range []struct {
		name  string
		opts  []rowlock.Option
		renew verdict
		leave func(*rowlock.Lease)
		until time.Duration // the own hold may be there
	}{
		{name: "not renewed", opts: []rowlock.Option{rowlock.NoRenew()}, until: ttl},
		// A renewal may arrive within a TTL after the last was given up, and prolong the hold then.
		{name: "its renewals are not answered", renew: verdict{hang: true}, until: 3*ttl - 3*time.Second},
		{name: "released", opts: []rowlock.Option{rowlock.NoRenew()}, leave: func(l *rowlock.Lease) { l.Release(context.Background()) }, until: ttl},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c1, other := newClient(t, f, rowlock.Options{TTL: ttl, ReleaseWait: time.Second}), newClient(t, f.Store)
				began := time.Now()
				l := acquire(t, c1, "k", c.opts...)
				f.set(func(q call) verdict {
					switch q.op {
					case "release":
						return verdict{hang: true}
					case "renew":
						return c.renew
					}
					return verdict{}
				})
				if c.leave != nil {
					time.Sleep(ttl - 4*time.Second)
					c.leave(l)
				}
				<-l.Done()
				theirs, err := other.Acquire(context.Background(), "k")
				if err != nil {
					t.Fatal(err)
				}
				for time.Since(began) < 4*ttl {
					_, err := c1.TryAcquire(context.Background(), "k")
					own := time.Since(began) <= c.until
					if isOwnRelease(err) != own || !own && !errors.Is(err, rowlock.ErrHeld) {
						t.Fatalf("after %v: %v, want the own hold told until %v", time.Since(began), err, c.until)
					}
					time.Sleep(time.Second)
				}
				release(t, theirs)
			})
		})
	}
}

// TestOwnAttemptIsNotAHolder: an attempt of a caller who has left got the key, or its transaction is still open, and its undo was not
// answered, or came before it. A refusal that names this client, or nobody, is by that, and is no other program's lease; one that names
// another is.
func TestOwnAttemptIsNotAHolder(t *testing.T) {
	for _, c := range []struct {
		name    string
		early   bool // the undo is answered, and found nothing
		acquire verdict
	}{
		{"not undone", false, verdict{}},
		{"its undo came too early", true, verdict{}},
		{"open", false, verdict{change: func(r []driver.Result) {
			if r[0].Owner != "other" {
				r[0] = driver.Result{Status: driver.Pinned}
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				this, other := newClient(t, f, rowlock.Options{Owner: "this"}), newClient(t, f.Store, rowlock.Options{Owner: "other"})
				theirs := acquire(t, other, "theirs")
				answers := func(acquire verdict) func(call) verdict {
					return func(q call) verdict {
						switch {
						case q.op == "acquire":
							return acquire
						case q.op == "release" && c.early:
							return verdict{answer: slices.Repeat([]driver.Result{{Status: driver.Removed}}, len(q.keys))}
						}
						return verdict{hang: q.op == "release"}
					}
				}
				f.set(answers(verdict{hang: true, apply: true}))
				for _, key := range []string{"k", "theirs"} {
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					if _, err := this.TryAcquire(ctx, key); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatal(err)
					}
					cancel()
				}
				time.Sleep(28 * time.Second) // the attempts are given up
				f.set(answers(c.acquire))
				for key, own := range map[string]bool{"k": true, "theirs": false} {
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					_, try := this.TryAcquire(context.Background(), key)
					_, wait := this.Acquire(ctx, key)
					cancel()
					if !errors.Is(try, rowlock.ErrHeld) != own || isOwnRelease(try) != own || isOwnRelease(wait) != own || !errors.Is(wait, context.DeadlineExceeded) {
						t.Errorf("%q, own %v: TryAcquire %v, Acquire %v", key, own, try, wait)
					}
				}
				f.set(nil)
				time.Sleep(2 * time.Minute)
				release(t, acquire(t, this, "k"))
				release(t, theirs)
			})
		})
	}
}

// TestOwnAttemptWasTheCause: what a wait that ends tells is what it met last, also where that is undone by then.
func TestOwnAttemptWasTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(q call) verdict {
			switch q.op {
			case "acquire":
				return verdict{hang: q.n != 1, apply: q.n == 0} // the second is refused by the first, the others get no answer
			case "release":
				return verdict{delay: time.Second}
			}
			return verdict{}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || !isOwnRelease(err) {
			t.Errorf("%v, want that the release is not answered", err)
		}
		if n := len(f.seen("acquire")); n < 3 || len(f.seen("release")) == 0 || c.Stats().Unresolved > 0 {
			t.Errorf("%d attempts, %d undos, %d left", n, len(f.seen("release")), c.Stats().Unresolved)
		}
	})
}

// TestOwnAttemptUndoneMeanwhile: a refusal that takes its time may be by a hold that is undone when it arrives.
func TestOwnAttemptUndoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(q call) verdict {
			switch {
			case q.op == "release":
				return verdict{delay: time.Second}
			case q.op == "acquire" && q.n == 0:
				return verdict{err: silent(false), delay: time.Second, apply: true}
			}
			return verdict{slow: 26500 * time.Millisecond}
		})
		if _, err := c.TryAcquire(context.Background(), "k"); !isOwnRelease(err) {
			t.Errorf("%v, want that the release is not answered", err)
		}
		if n := c.Stats().Unresolved; n > 0 || len(f.seen("release")) == 0 {
			t.Errorf("%d left after %d undos", n, len(f.seen("release")))
		}
	})
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
