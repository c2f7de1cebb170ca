package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestGuardRefusesWhatCannotWork before it can mislead.
func TestGuardRefusesWhatCannotWork(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		lease := a.lock(t, "a")
		tx := l.beginAt(t, sql.LevelDefault)
		conn, err := l.db.Conn(ctx)
		must(t, err)
		defer conn.Close()
		for name, err := range map[string]error{
			"no lease":                       a.Guard(ctx, tx, nil),
			"no transaction":                 a.Guard(ctx, nil, lease),
			"a pool":                         a.Guard(ctx, l.db, lease),
			"an sqlx pool":                   a.Guard(ctx, sqlx.NewDb(l.db, "mysql"), lease),
			"a connection in no transaction": a.Guard(ctx, conn, lease),
			"another Store's lease":          b.Guard(ctx, tx, lease),
			"InTx without a lease":           a.InTx(ctx, nil, func(context.Context, *sql.Tx) error { return nil }),
			"InTx without a function":        a.InTx(ctx, lease, nil),
			"Once without a function":        a.Once(ctx, lease, "r", nil),
			"MarkRun without an ID":          a.MarkRun(ctx, tx, lease, ""),
			"Once with a long ID":            a.Once(ctx, lease, string(make([]byte, 256)), func(context.Context, *sql.Tx) error { return nil }),
		} {
			if !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, tx.Rollback())
		if err := a.Guard(ctx, tx, lease); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("a transaction that is over: %v", err)
		}
		must(t, a.Store.Close())
		if err := a.Guard(ctx, l.beginAt(t, sql.LevelDefault), lease); !errors.Is(err, rowlock.ErrClosed) {
			t.Errorf("a closed Store: %v", err)
		}
	})
}

// TestGuardInAnotherDatabase of the same server works; on another server it is
// refused, whether or not that has the tables.
func TestGuardInAnotherDatabase(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		lease := a.lock(t, "a")
		data := newLab(t, l.kind, l.strategy)
		data.store()
		tx := data.beginAt(t, sql.LevelRepeatableRead)
		must(t, a.MarkRun(ctx, tx, lease, "run"))
		must(t, tx.Commit())

		kind := testserver.MySQL
		if l.kind == kind {
			kind = testserver.MariaDB
		}
		other := newLab(t, kind, l.strategy)
		if err := a.Guard(ctx, other.beginAt(t, sql.LevelRepeatableRead), lease); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("another server: %v", err)
		}
		exec(t, other.db, "CREATE DATABASE "+l.config.DBName)
		t.Cleanup(func() { _, _ = other.db.Exec("DROP DATABASE " + l.config.DBName) }) // after the transactions
		other.config.DBName = l.config.DBName
		other.store()
		if err := a.Guard(ctx, other.beginAt(t, sql.LevelRepeatableRead), lease); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("another server with tables: %v", err)
		}
	})
}

// silentTx is a handle without Commit whose server never answers.
type silentTx struct {
	Tx
	asked chan struct{}
}

func (s silentTx) ExecContext(ctx context.Context, _ string, _ ...any) (sql.Result, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestP4_LeaseEndsBeforeTheGuard: a lease that ends while the server is asked whether the handle is a transaction says so, as
// at any other moment.
func TestP4_LeaseEndsBeforeTheGuard(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		p := l.program(t, rowlock.Options{})
		lease := p.lock(t, "a")
		tx := silentTx{asked: make(chan struct{})}
		answer := make(chan error)
		go func() { answer <- p.Guard(patient(t), tx, lease) }()
		<-tx.asked
		must(t, lease.Release(patient(t)))
		if err := <-answer; !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("a guard under a lease that was released: %v", err)
		}
	})
}
