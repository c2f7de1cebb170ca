package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestExplained: a caller that gives up a wait without an answer gets what the Store explains
// as the cause; a caller that was refused before gets the refusal.
func TestExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the cable is cut")
		f := newFaultStore()
		f.why = why
		c := newClient(t, f)
		lease := acquire(t, c, "mine")
		other := newClient(t, f)
		acquire(t, other, "theirs")
		calls := map[string]func(context.Context) error{
			"Acquire":    func(ctx context.Context) error { _, err := c.Acquire(ctx, "a"); return err },
			"TryAcquire": func(ctx context.Context) error { _, err := c.TryAcquire(ctx, "b"); return err },
			"Inspect":    func(ctx context.Context) error { _, err := c.Inspect(ctx, "mine"); return err },
			"Renew":      lease.Renew,
		}
		short := func(call func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return call(ctx)
		}
		held := short(func(ctx context.Context) error { _, err := c.Acquire(ctx, "theirs"); return err })
		if !errors.Is(held, rowlock.ErrHeld) || errors.Is(held, why) {
			t.Errorf("a wait for a key that is held: %v", held)
		}
		for _, f.why = range []error{why, nil} {
			f.set(func(call) verdict { return verdict{hang: true} })
			for what, call := range calls {
				err := short(call)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, why) != (f.why != nil) {
					t.Errorf("%s: %v, want it explained by %v", what, err, f.why)
				}
				if f.why == nil && strings.Contains(err.Error(), "nil") {
					t.Errorf("%s: %v", what, err)
				}
			}
			f.set(nil)
		}
	})
}
