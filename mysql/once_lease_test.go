package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// marking reports whether a statement that marks a run waits on the server.
func (l *lab) marking(t testing.TB) bool {
	t.Helper()
	var n int
	must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB=DATABASE() AND INFO LIKE 'INSERT INTO%rowlock\\_run%'").Scan(&n))
	return n > 0
}

// TestP13_TwoOfOneLease: two goroutines try one run with one lease. The commit of
// the first is lost and rolled back, while the second does the run: the first must not take
// the second's mark for its own.
func TestP13_TwoOfOneLease(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		s, proxy := l.cutStore(t, true)
		a := l.programOn(t, s, rowlock.Options{})
		ctx := patient(t)
		lease := a.lock(t, "a")
		second, done := make(chan error, 1), make(chan struct{})
		asks := func() { // when the second has the mark, if it does not wait for the first
			select {
			case <-done:
			case <-time.After(time.Second):
			}
		}
		proxy.asks.Store(&asks)
		proxy.onCommit(cut{stay: true})
		first := a.Once(ctx, lease, "1", func(ctx context.Context, tx *sql.Tx) error {
			go func() {
				second <- a.Once(context.WithoutCancel(ctx), lease, "1", func(ctx context.Context, tx *sql.Tx) error { return note(ctx, tx, "second") })
				close(done)
			}()
			for end := time.Now().Add(time.Second); !l.marking(t) && time.Now().Before(end); { // a chance to stand behind the mark
				conn.Pause(ctx, 10*time.Millisecond)
			}
			return note(ctx, tx, "first")
		})
		err := <-second
		if !errors.Is(first, rowlock.ErrConflict) && !errors.Is(first, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: the first, which was rolled back: %v; the second: %v", first, err)
		}
		if err != nil {
			t.Errorf("P13: the second: %v", err)
		}
		if n, m := l.noted(t, "first"), l.noted(t, "second"); n != 0 || m != 1 {
			t.Errorf("P13: %d effects of the first, %d of the second", n, m)
		}
		if err := a.Once(ctx, lease, "1", nothing); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: once more: %v", err)
		}
	})
}

func nothing(context.Context, *sql.Tx) error { return nil }

// TestP13_AnothersMark: a commit is lost and rolled back, and another holder marks
// the run before anybody asks what became of it.
func TestP13_AnothersMark(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		s, proxy := l.cutStore(t, true)
		a := l.programOn(t, s, rowlock.Options{})
		lease := a.lock(t, "a")
		marked, done := make(chan error, 1), make(chan struct{})
		asks := func() { <-done }
		proxy.asks.Store(&asks)
		proxy.onCommit(cut{stay: true})
		err := a.Once(patient(t), lease, "1", func(ctx context.Context, tx *sql.Tx) error {
			go func() { // waits until this transaction has ended
				_, err := l.db.Exec(fmt.Sprintf("INSERT INTO rowlock_run (name,run,token,at) VALUES (x'%x',x'%x',%d,UTC_TIMESTAMP(6))", "a", "1", lease.Token()+1024))
				marked <- err
				close(done)
			}()
			eventually(t, "the other one stands behind the mark", func() bool { return l.marking(t) })
			return note(ctx, tx, "first")
		})
		must(t, <-marked)
		if !errors.Is(err, rowlock.ErrAlreadyRan) || !strings.Contains(err.Error(), "another holder") {
			t.Errorf("P13: the mark is another's: %v", err)
		}
		if n := l.noted(t, "first"); n != 0 {
			t.Errorf("P13: %d effects", n)
		}
	})
}
