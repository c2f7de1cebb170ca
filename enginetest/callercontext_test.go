package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

type callersKey struct{}

var errCaller = errors.New("the caller has gone")

// ownContext fails the test if a value or the end of a caller's context reaches the store.
func ownContext(t *testing.T, c call) {
	if c.ctx.Value(callersKey{}) != nil {
		t.Errorf("P12: a value of the caller's context reached the store in %s", c.op)
	}
	if _, ok := c.ctx.Deadline(); !ok {
		t.Errorf("P12: %s has no deadline", c.op)
	}
	context.AfterFunc(c.ctx, func() {
		if errors.Is(context.Cause(c.ctx), errCaller) {
			t.Errorf("P12: the end of the caller's context reached the store in %s", c.op)
		}
	})
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
		"List": {call: "list", do: func(ctx context.Context, c *rowlock.Client, _ *rowlock.Lease) error {
			_, err := c.List(ctx, "", "", 10)
			return err
		}},
		"ForceRelease": {call: "force", do: func(ctx context.Context, c *rowlock.Client, _ *rowlock.Lease) error {
			_, err := c.ForceRelease(ctx, "k")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				f.set(func(call call) verdict { ownContext(t, call); return verdict{} })
				c, err := rowlock.New(f, rowlock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				l := acquire(t, c, "k", rowlock.NoRenew())
				var executed atomic.Bool
				f.set(func(call call) verdict {
					ownContext(t, call)
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
