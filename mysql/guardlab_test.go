package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// everywhere runs f for each strategy on both servers.
func everywhere(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Helper()
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				t.Parallel()
				f(t, newLab(t, kind, strategy))
			})
		}
	}
}

// program is one program that uses the lab's database.
type program struct {
	*Store
	*rowlock.Client
}

func (l *lab) program(t testing.TB, o rowlock.Options) program {
	t.Helper()
	return l.programOn(t, l.store(), o)
}

func (l *lab) programOn(t testing.TB, s *Store, o rowlock.Options) program {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = time.Minute
	}
	o.ReapInterval = -1
	c, err := rowlock.New(s, o)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return program{s, c}
}

// Close is the client's; the lab closes the store.
func (p program) Close(ctx context.Context) error { return p.Client.Close(ctx) }

// Inspect is the client's.
func (p program) Inspect(ctx context.Context, key string) (rowlock.Info, error) {
	return p.Client.Inspect(ctx, key)
}

func (p program) lock(t testing.TB, key string, o ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	lease, err := p.Client.Acquire(within(t, 2*patience), key, o...) // a server ends a silent session after a minute
	must(t, err)
	return lease
}

// shortest is the smallest TTL that a test of the strategy should use.
func (l *lab) shortest() time.Duration {
	if l.strategy == SelectForUpdate {
		return session.MinTTL
	}
	return 200 * time.Millisecond
}

// beginAt begins a transaction; the end of the test rolls it back.
func (l *lab) beginAt(t testing.TB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := l.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// handles are the kinds of transaction that Guard takes, each with its end.
func (l *lab) handles(t testing.TB) map[string]func() (tx Tx, commit func() error) {
	of := func(level sql.IsolationLevel) func() (Tx, func() error) {
		return func() (Tx, func() error) {
			tx := l.beginAt(t, level)
			return tx, tx.Commit
		}
	}
	return map[string]func() (Tx, func() error){
		"REPEATABLE READ":  of(sql.LevelRepeatableRead),
		"READ UNCOMMITTED": of(sql.LevelReadUncommitted),
		"READ COMMITTED":   of(sql.LevelReadCommitted),
		"SERIALIZABLE":     of(sql.LevelSerializable),
		"sqlx": func() (Tx, func() error) {
			tx, err := sqlx.NewDb(l.db, "mysql").Beginx()
			must(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			return tx, tx.Commit
		},
		"*sql.Conn": func() (Tx, func() error) {
			c, err := l.db.Conn(context.Background())
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			end := func(text string) error { _, err := c.ExecContext(context.Background(), text); return err }
			must(t, end("START TRANSACTION"))
			return c, func() error { return end("COMMIT") }
		},
	}
}

// between is a transaction in which something happens right before the guard's
// locking read.
type between struct {
	*sql.Tx
	happens func()
}

func (b between) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	b.happens()
	return b.Tx.QueryContext(ctx, query, args...)
}

// free asks until the key of a lease that is over can be had but for its guard.
func (l *lab) free(t testing.TB, p program, key string) rowlock.Info {
	t.Helper()
	var info rowlock.Info
	eventually(t, fmt.Sprintf("%q is free but for its guard", key), func() bool {
		var err error
		info, err = p.Inspect(within(t, patience), key)
		must(t, err)
		return info.Pinned || !info.Held
	})
	return info
}
