package mysqllock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
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
			ctx, cancel := context.WithCancel(context.WithValue(patient(t), secret{}, "the caller's"))
			var once sync.Once
			rec.watch(func(sent context.Context) {
				if sent.Value(secret{}) != nil {
					t.Errorf("%s: the values of the caller's context reach the driver", what)
				}
				once.Do(cancel)
			})
			err := call(ctx)
			s.db.Background.Wait()
			if closed := rec.watch(nil); closed > 0 {
				t.Errorf("%s: the end of the caller's context closed %d connections", what, closed)
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v: does not match the context's error", what, err)
			}
			cancel()
			must(t, s.Check(patient(t)))
		}
	})
}

// TestP12_CloseBesideALockedTable: a question whose caller has no end waits for a lock on the table. Close ends it, and returns.
func TestP12_CloseBesideALockedTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		must(t, s.Check(patient(t)))
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		_, err = own.ExecContext(patient(t), "LOCK TABLES "+l.table()+" WRITE")
		must(t, err)
		unlock := func() { _, _ = own.ExecContext(context.Background(), "UNLOCK TABLES") }
		defer unlock()
		answered, closed := make(chan error, 1), make(chan error, 1)
		before := s.db.Blocked.Load()
		go func() {
			_, err := s.List(context.Background(), "", "", 10)
			answered <- err
		}()
		eventually(t, "the question was kept waiting for all of a statement's time", func() bool { return s.db.Blocked.Load() > before })
		start := time.Now()
		go func() { closed <- s.Close() }()
		select {
		case err = <-closed:
			must(t, err)
			t.Logf("Close took %v", time.Since(start))
		case <-time.After(testserver.Patience(t)):
			unlock()
			t.Fatalf("P12: Close waits for a lock on the table")
		}
		if err := <-answered; !errors.Is(err, rowlock.ErrClosed) || strings.Contains(err.Error(), "1205") {
			t.Errorf("P12: a question that Close ended: %v", err)
		}
	})
}
