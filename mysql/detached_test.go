package mysqllock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestCallersContext: the context of a caller reaches no shared connection: what is in
// it does not reach the driver, and its end, in the middle of a statement, does not
// close the connection for others.
func TestCallersContext(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		rec := &recorder{}
		s := l.recorded(rec)
		p := l.programOn(t, s, rowlock.Options{})
		lease := p.lock(t, "a")
		tx, other := l.begin(), l.begin()
		defer tx.Rollback()
		defer other.Rollback()
		for what, call := range map[string]func(context.Context) error{
			"Check":        s.Check,
			"Migrate":      s.Migrate,
			"List":         func(ctx context.Context) error { _, err := s.List(ctx, "", "", 10); return err },
			"ForceRelease": func(ctx context.Context) error { _, err := s.ForceRelease(ctx, "nobody's"); return err },
			"Reap":         func(ctx context.Context) error { _, err := s.Reap(ctx, time.Hour); return err },
			"ReapRuns":     func(ctx context.Context) error { _, err := s.ReapRuns(ctx, time.Hour); return err },
			"Guard":        func(ctx context.Context) error { return s.Guard(ctx, tx, lease) },
			"LockTx":       func(ctx context.Context) error { return s.LockTxNoWait(ctx, other, "a") },
		} {
			type secret struct{}
			ctx, cancel := context.WithCancel(context.WithValue(within(t, time.Minute), secret{}, "the caller's"))
			var once sync.Once
			rec.watch(func(sent context.Context) {
				if sent.Value(secret{}) != nil {
					t.Errorf("%s: the values of the caller's context reach the driver", what)
				}
				once.Do(cancel)
			})
			err := call(ctx)
			s.db.AwaitBackground()
			if closed := rec.watch(nil); closed > 0 {
				t.Errorf("%s: the end of the caller's context closed %d connections", what, closed)
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v: does not match the context's error", what, err)
			}
			cancel()
			must(t, s.Check(within(t, time.Minute)))
		}
	})
}
