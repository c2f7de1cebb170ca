package rowlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// ownContext is a store that fails the test for each value or cancellation of a
// caller's context that reaches it.
type ownContext struct {
	*faultStore
	t *testing.T
}

type callersKey struct{}

func (s ownContext) look(ctx context.Context, op string) {
	if ctx.Value(callersKey{}) != nil {
		s.t.Errorf("P12: a value of the caller's context reached the store in %s", op)
	}
	if _, ok := ctx.Deadline(); !ok {
		s.t.Errorf("P12: %s has no deadline", op)
	}
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errCaller) {
			s.t.Errorf("P12: the end of the caller's context reached the store in %s", op)
		}
	})
}

var errCaller = errors.New("the caller has gone")

func (s ownContext) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	s.look(ctx, "Acquire")
	return s.faultStore.Acquire(ctx, reqs)
}

func (s ownContext) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	s.look(ctx, "Renew")
	return s.faultStore.Renew(ctx, holds)
}

func (s ownContext) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	s.look(ctx, "Release")
	return s.faultStore.Release(ctx, holds)
}

func (s ownContext) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	s.look(ctx, "Inspect")
	return s.faultStore.Inspect(ctx, keys)
}

// TestP12_NoCallersContextReachesTheStore: a caller's context bounds its wait. What it
// carries and its end stay above the store, and Close waits for what it left behind.
func TestP12_NoCallersContextReachesTheStore(t *testing.T) {
	ctx := context.WithValue(context.Background(), callersKey{}, 1)
	for name, op := range map[string]struct {
		call  string
		do    func(context.Context, *rowlock.Client, *rowlock.Lease) error
		after func(t *testing.T, l *rowlock.Lease)
	}{
		"Acquire": {call: "acquire", do: func(ctx context.Context, c *rowlock.Client, _ *rowlock.Lease) error {
			_, err := c.Acquire(ctx, "another")
			return err
		}},
		"TryAcquire": {call: "acquire", do: func(ctx context.Context, c *rowlock.Client, _ *rowlock.Lease) error {
			_, err := c.TryAcquire(ctx, "another")
			return err
		}},
		"Renew": {call: "renew", do: func(ctx context.Context, _ *rowlock.Client, l *rowlock.Lease) error { return l.Renew(ctx) }},
		"Inspect": {call: "inspect", do: func(ctx context.Context, c *rowlock.Client, _ *rowlock.Lease) error {
			_, err := c.Inspect(ctx, "k")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c, err := rowlock.New(ownContext{f, t}, rowlock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				l := acquire(t, c, "k", rowlock.NoRenew())
				var executed atomic.Bool
				f.set(func(call call) verdict {
					if call.op != op.call {
						return verdict{}
					}
					time.AfterFunc(5*time.Second-time.Millisecond, func() { executed.Store(true) })
					return verdict{slow: 5 * time.Second}
				})
				gone, leave := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { leave(errCaller) })
				start := time.Now()
				err = op.do(gone, c, l)
				if d := time.Since(start); d != time.Second || !errors.Is(err, context.Canceled) || !errors.Is(err, errCaller) {
					t.Errorf("the caller that left got %v after %v", err, d)
				}
				if err := c.Close(context.Background()); err != nil {
					t.Errorf("Close = %v", err)
				}
				if !executed.Load() {
					t.Errorf("P12: Close returned after %v, while the statement of %s was on its way", time.Since(start), name)
				}
			})
		})
	}
}

// TestRenewOfACallerThatLeft: its answer counts all the same.
func TestRenewOfACallerThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k", rowlock.NoRenew())
		f.set(on("renew", verdict{slow: 5 * time.Second}))
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := l.Renew(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Renew = %v", err)
		}
		time.Sleep(25 * time.Second) // 36 s after the grant
		if err := l.Err(); err != nil {
			t.Errorf("the lease was renewed: %v", err)
		}
		time.Sleep(2 * time.Second)
		if reason(l.Err()) != rowlock.ReasonExpired {
			t.Errorf("37 s after the grant and 27 s after the start of the renewal: %v", l.Err())
		}
	})
}
