package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestP7_LostReplyToAcquire: the attempt was executed, its reply lost. The hold is
// taken back at once, and the caller, which waits, gets the key by another attempt.
func TestP7_LostReplyToAcquire(t *testing.T) {
	for name, v := range map[string]verdict{
		"error":       {err: errors.New("broken pipe"), apply: true},
		"no reply":    {hang: true, apply: true},
		"unknown row": {answer: []driver.Result{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				f.set(func(c call) verdict {
					if c.op == "acquire" && c.n == 0 {
						return v
					}
					return verdict{}
				})
				start := time.Now()
				l := acquire(t, c, "k")
				if d := time.Since(start); d > 28*time.Second {
					t.Errorf("got the key after %v: the unknown attempt was not undone", d)
				}
				calls := f.seen("acquire")
				if calls[0].ids[0] == calls[len(calls)-1].ids[0] {
					t.Error("a hold ID was sent in two attempts")
				}
				time.Sleep(5 * time.Minute)
				if l.Err() != nil {
					t.Error(l.Err())
				}
				if n := c.Stats().Unresolved; n != 0 {
					t.Errorf("%d undos never ended", n)
				}
			})
		})
	}
}

// TestP6_LateAttempt: the attempt reaches the server after undos that found
// nothing. It is undone again, for as long as it could still arrive.
func TestP6_LateAttempt(t *testing.T) {
	for _, late := range []time.Duration{28 * time.Second, 40 * time.Second, 56 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				f.set(on("acquire", verdict{hang: true, apply: true, late: late}))
				if _, err := c.TryAcquire(context.Background(), "k", rowlock.MinHold(time.Hour)); err == nil || !strings.Contains(err.Error(), "no answer within the TTL") {
					t.Fatalf("TryAcquire = %v", err)
				}
				time.Sleep(late - 27*time.Second + 6*time.Second) // it arrives; the next undo finds it
				free(t, f, "k")
				time.Sleep(2 * time.Minute)
				if n := c.Stats().Unresolved; n != 0 {
					t.Errorf("%d undos never ended", n)
				}
				last := f.seen("release")
				if at := last[len(last)-1].at; late > 50*time.Second && at < late {
					t.Errorf("the last undo went out after %v, before the attempt arrived", at)
				}
			})
		})
	}
}

// TestP6_UndoGoesOnUntilTheBound: an undo that finds nothing is repeated until one
// that was sent a TTL after the last send was answered, and no longer.
func TestP6_UndoGoesOnUntilTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("acquire", verdict{err: errors.New("reset by peer")})) // never executed, but who knows
		if _, err := c.TryAcquire(context.Background(), "k"); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(10 * time.Minute)
		undos := f.seen("release")
		if last := undos[len(undos)-1].at; last < 30*time.Second || last > 32*time.Second {
			t.Errorf("the last of %d undos went out after %v, want just after the TTL", len(undos), last)
		}
		if len(undos) > 20 {
			t.Errorf("%d undos", len(undos))
		}
	})
}

// TestP6_ProvenNotApplied: no undo where the server says that nothing was done.
func TestP6_ProvenNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("acquire", verdict{err: &driver.Error{NotApplied: true, Err: errors.New("too many connections")}}))
		if _, err := c.TryAcquire(context.Background(), "k"); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(time.Minute)
		if n := len(f.seen("release")); n != 0 {
			t.Errorf("%d undos", n)
		}
	})
}

// TestP6_GivenUp: a caller that gives up while its statement runs leaves nothing:
// the grant that comes is taken back without its MinHold.
func TestP6_GivenUp(t *testing.T) {
	for name, try := range map[string]func(*rowlock.Client, context.Context) error{
		"Acquire": func(c *rowlock.Client, ctx context.Context) error {
			_, err := c.Acquire(ctx, "k", rowlock.MinHold(time.Hour))
			return err
		},
		"TryAcquire": func(c *rowlock.Client, ctx context.Context) error {
			_, err := c.TryAcquire(ctx, "k", rowlock.MinHold(time.Hour))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				f.set(on("acquire", verdict{slow: 5 * time.Second}))
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				start := time.Now()
				if err := try(c, ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v", err)
				}
				if d := time.Since(start); d != time.Second {
					t.Errorf("gave up after %v", d)
				}
				time.Sleep(5 * time.Second)
				free(t, f, "k")
				if s := c.Stats(); s.Held != 0 || s.Waiting != 0 || s.Unresolved != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// TestP6_GivenUpBeforeItLeft: an attempt that still waits for its turn when its caller
// gives up is never sent.
func TestP6_GivenUpBeforeItLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("acquire", verdict{slow: 5 * time.Second}))
		var others sync.WaitGroup
		for i := range 40 { // more than leave at once
			others.Go(func() { acquire(t, c, fmt.Sprint("other", i)) })
			time.Sleep(100 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		for _, get := range []func(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error){c.TryAcquire, c.Acquire, c.Acquire} {
			others.Go(func() {
				if _, err := get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v", err)
				}
			})
		}
		others.Wait()
		for _, call := range f.seen("acquire") {
			if slices.Contains(call.keys, "k") {
				t.Error("the attempt was sent though nobody wanted it any more")
			}
		}
		if n := len(f.seen("release")); n != 0 {
			t.Errorf("%d undos", n)
		}
		if s := c.Stats(); s.Held != 40 || s.Waiting != 0 {
			t.Errorf("stats %+v", s)
		}
		l, err := c.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		l.Release(context.Background())
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestP6_GrantedTooLate: a grant whose reply came after the trust deadline is no
// lease.
func TestP6_GrantedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(c call) verdict {
			if c.op == "acquire" {
				f.freeze(29 * time.Second) // the process stands still before it reads the reply
			}
			return verdict{}
		})
		if l, err := c.TryAcquire(context.Background(), "k"); err == nil {
			t.Fatalf("a lease with %v left", time.Until(l.Until()))
		}
		time.Sleep(time.Second)
		free(t, f, "k")
	})
}

// TestP26_TheFirstRenewalHasTime: a grant that comes with less trust left than its first
// renewal may take, by a server and a process that keep a live holder's lease, is no lease
// yet: its caller gets one that lives.
func TestP26_TheFirstRenewalHasTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		slow := true
		f.set(func(c call) verdict {
			switch {
			case c.op == "acquire" && slow:
				slow = false
				return verdict{delay: 26 * time.Second, apply: true} // of 30: one second of trust is left
			case c.op == "renew":
				return verdict{delay: 5 * time.Second, apply: true} // a sixth of the TTL
			}
			return verdict{}
		})
		l, err := c.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil {
			t.Errorf("P26: the lease that Acquire gave is lost: %v", err)
		}
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
		// One that nobody renews is as good as its trust.
		slow = true
		l, err = c.TryAcquire(context.Background(), "other", rowlock.NoRenew())
		if err != nil || l.Err() != nil {
			t.Errorf("NoRenew: %v, %v", err, l.Err())
		}
	})
}

// TestUndoOfALostLeaseWaitsForTheMargin: the holder may need a moment to stop, so
// the key stays taken until the margin has passed, and its MinHold is kept.
func TestUndoOfALostLeaseWaitsForTheMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k", rowlock.MinHold(time.Minute))
		f.set(func(c call) verdict {
			if c.op == "renew" {
				return verdict{hang: true, apply: true} // renewed, but nobody knows
			}
			return verdict{}
		})
		<-l.Done()
		lost := f.Now()
		time.Sleep(30 * time.Second)
		undos := f.seen("release")
		if len(undos) == 0 || undos[0].at-lost < 3*time.Second {
			t.Fatalf("undos %v after the loss at %v", undos, lost)
		}
		i, _ := c.Inspect(context.Background(), "k")
		if !i.Held || !i.Kept {
			t.Errorf("the MinHold of a lost lease was not kept: %+v", i)
		}
	})
}
