package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// TestP13_LostCommitAndTheNextHolder: a commit is lost and undone, and before Once asks
// for the mark the next holder has made the run. Its effects are there, but they are not
// those of the first caller, who is told so. (The table is locked in between, so that
// the question comes last.)
func TestP13_LostCommitAndTheNextHolder(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		s, proxy := l.cutStore(t, true)
		a := l.programOn(t, s, rowlock.Options{})
		lease := a.lock(t, "k")
		ctx := patient(t)
		next, err := l.db.Conn(ctx)
		must(t, err)
		defer next.Close()
		var session int64
		must(t, next.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&session))
		done := make(chan error, 1)
		takeOver := func() error { // waits for the end of the first transaction
			if _, err := next.ExecContext(ctx, "LOCK TABLES rowlock_run WRITE"); err != nil {
				return err
			}
			_, err := next.ExecContext(ctx, "INSERT INTO rowlock_run (name, run, token, at) VALUES ('k', '1', ?, UTC_TIMESTAMP(6))", lease.Token()+1<<20)
			_, unlocked := next.ExecContext(ctx, "UNLOCK TABLES")
			return errors.Join(err, unlocked)
		}
		proxy.onCommit(cut{})
		err = a.Once(ctx, lease, "1", func(ctx context.Context, tx *sql.Tx) error {
			go func() { done <- takeOver() }()
			for {
				var waits bool
				err := l.db.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE id = ? AND state LIKE '%metadata lock%'", session).Scan(&waits)
				if err != nil || waits {
					return errors.Join(err, note(ctx, tx, "first"))
				}
				conn.Pause(ctx, 5*time.Millisecond)
			}
		})
		must(t, <-done)
		if !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: a commit that was undone, and the run is marked by another: %v, want ErrAlreadyRan", err)
		}
		if n := l.noted(t, "first"); n != 0 {
			t.Errorf("P13: %d effects of the commit that was undone", n)
		}
	})
}
