package fault

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

// locked reports whether somebody has locked rows of the hot table.
func (l *lab) locked(ctx context.Context, where string) bool {
	tx, err := l.DB.BeginTx(ctx, nil)
	if err != nil {
		return false
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "SELECT n FROM hot WHERE "+where+" FOR UPDATE NOWAIT")
	e := new(mysql.MySQLError)
	return errors.As(err, &e) && (e.Number == 3572 || e.Number == 1205)
}

func TestRowsLocked(t *testing.T) {
	each(t, "rows-locked", func(t *testing.T, l *lab, f Fault) {
		l.saw(t, f, func(ctx context.Context) bool { return l.locked(ctx, "name='b'") })
	})
}

// TestGapsLocked: a row that is not there yet cannot be inserted.
func TestGapsLocked(t *testing.T) {
	each(t, "gaps-locked", func(t *testing.T, l *lab, f Fault) {
		l.saw(t, f, func(ctx context.Context) bool {
			ctx = context.WithoutCancel(ctx) // it is let go when the fault ends
			tx, err := l.DB.BeginTx(ctx, nil)
			if err != nil {
				return false
			}
			defer func() { _ = tx.Rollback() }()
			begin := time.Now()
			_, err = tx.ExecContext(ctx, "INSERT INTO hot (name) VALUES ('bb')")
			return err == nil && time.Since(begin) > 15*time.Millisecond
		})
	})
}

func TestDeadlocks(t *testing.T) {
	each(t, "deadlocks", func(t *testing.T, l *lab, f Fault) {
		count := func(ctx context.Context) (n int, err error) {
			err = l.DB.QueryRowContext(ctx, "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME='lock_deadlocks'").Scan(&n)
			return n, err
		}
		before, err := count(t.Context())
		must(t, err)
		l.saw(t, f, func(ctx context.Context) bool {
			n, err := count(ctx)
			return err == nil && n > before
		})
	})
}

func TestLongTransaction(t *testing.T) {
	each(t, "long-transaction", func(t *testing.T, l *lab, f Fault) {
		l.saw(t, f, func(ctx context.Context) bool {
			timed.Rest(ctx, 150*time.Millisecond) // what it shows is as old as the last look, if that was within 100 ms
			var n int
			err := l.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified>0").Scan(&n)
			return err == nil && n > 0
		})
	})
}

func TestTableLocked(t *testing.T) {
	each(t, "table-locked", func(t *testing.T, l *lab, f Fault) {
		l.saw(t, f, func(ctx context.Context) bool {
			ctx = context.WithoutCancel(ctx)
			begin := time.Now()
			var n int
			err := l.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM hot").Scan(&n)
			return err == nil && time.Since(begin) > 15*time.Millisecond
		})
	})
}

func TestWritesStopped(t *testing.T) {
	each(t, "writes-stopped", func(t *testing.T, l *lab, f Fault) { l.until(t, f, l.hung(t)) })
}
