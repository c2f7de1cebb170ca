package mysqllock

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/dsn"
	"github.com/rowlock/rowlock/internal/misuse"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestMisuse: mistakes that a server or a pool answers say, through the Client, what to do, and nothing twice.
func TestMisuse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		client := func(s *Store) *rowlock.Client {
			c, err := rowlock.New(s, rowlock.Options{ReapInterval: -1, Owner: "web-1:4711"})
			must(t, err)
			t.Cleanup(func() { _ = c.Close(within(t, 5*time.Second)) })
			return c
		}
		acquire := func(s *Store, d time.Duration) error {
			soon, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			_, err := client(s).Acquire(soon, "k")
			return err
		}
		address := func(change func(*mysql.Config)) *Store {
			config := l.config.Clone()
			change(config)
			return openWith(t, config.FormatDSN(), l.options())
		}
		open := func(text string) error {
			s, err := Open(text, l.options())
			if err == nil {
				_ = s.Close()
			}
			return err
		}

		forgotten := acquire(l.bare(), testserver.Patience(t))
		s := l.store()
		pool := l.open(l.config)
		pool.SetMaxOpenConns(1)
		_, tooSmall := New(pool, l.options())

		late := l.open(l.config)
		onLate, err := New(late, l.options())
		must(t, err)
		t.Cleanup(func() { _ = onLate.Close() })
		late.SetMaxOpenConns(1)
		taken, err := late.Conn(ctx)
		must(t, err)
		usedUp := acquire(onLate, 500*time.Millisecond)
		must(t, taken.Close())

		c := client(s)
		lease, err := c.Acquire(ctx, "mine")
		must(t, err)
		soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, again := c.Acquire(soon, "mine")
		inTx := s.InTx(ctx, lease, func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
		other, err := New(l.open(l.config), l.options())
		must(t, err)
		t.Cleanup(func() { _ = other.Close() })
		foreign := other.InTx(ctx, lease, func(context.Context, *sql.Tx) error { return nil })
		must(t, s.Once(ctx, lease, "monday", func(context.Context, *sql.Tx) error { return nil }))
		twice := s.Once(ctx, lease, "monday", func(context.Context, *sql.Tx) error { return nil })
		closed := l.bare()
		must(t, closed.Close())

		misuse.Judge(t,
			misuse.Answer("forgot Migrate", forgotten, rowlock.ErrSchema, l.table(), "run Migrate"),
			misuse.Answer("no DSN", open(""), rowlock.ErrInvalid, "the DSN is empty", dsn.Form),
			misuse.Answer("a DSN of another kind", open("postgres://u:secret@h/d"), rowlock.ErrInvalid, dsn.Form),
			misuse.Answer("a URL with / and @ in its password", open("mysql://u:p@ss/word1@h/d"), rowlock.ErrInvalid, "write @ as %40, / as %2F"),
			misuse.Answer("a URL with ? in its password", open("mysql://u:p?ss@h/d"), rowlock.ErrInvalid, "? as %3F"),
			misuse.Answer("a DSN without tcp", open("u:secret@h:3306/d"), rowlock.ErrInvalid, dsn.Form),
			misuse.Answer("a wrong password", acquire(address(func(c *mysql.Config) { c.Passwd = "wrong" }), 10*time.Second), nil, "refused the user or password: correct the DSN"),
			misuse.Answer("no such database", acquire(address(func(c *mysql.Config) { c.DBName = "nothing_of_that_name" }), 10*time.Second), nil, "does not exist: correct the DSN or create it"),
			misuse.Answer("no database", acquire(address(func(c *mysql.Config) { c.DBName = "" }), 10*time.Second), nil, "the DSN names no database"),
			misuse.Answer("a closed port", acquire(address(func(c *mysql.Config) { c.Addr = "127.0.0.1:1" }), time.Second), context.DeadlineExceeded, "dial tcp 127.0.0.1:1", "refused"),
			misuse.Answer("no pool", second(New(nil, Options{})), rowlock.ErrInvalid, "the *sql.DB is nil"),
			misuse.Answer("a small pool", tooSmall, rowlock.ErrInvalid, "SetMaxOpenConns("),
			misuse.Answer("a pool that is used up", usedUp, context.DeadlineExceeded, "no connection of the pool was free"),
			misuse.Answer("a key that this program holds", again, rowlock.ErrHeld, `"mine" is held by web-1:4711`),
			misuse.Answer("a commit of one's own", inTx, nil, "the transaction ended inside the function"),
			misuse.Answer("a lease of another store", foreign, rowlock.ErrInvalid, "another Store"),
			misuse.Answer("a run that was there before", twice, rowlock.ErrAlreadyRan, `"monday"`),
			misuse.Answer("a guard on a pool", s.Guard(ctx, l.db, lease), rowlock.ErrInvalid, "is a pool, no transaction: begin one and pass that"),
			misuse.Answer("a closed store", acquire(closed, time.Second), rowlock.ErrClosed, "the store was closed"),
			misuse.Answer("reaping what is young", second(s.Reap(ctx, time.Second)), driver.ErrInvalid, "1s", "use at least"),
		)
	})
}

func second(_ any, err error) error { return err }
