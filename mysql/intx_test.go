package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/guarded"
)

// notes is a table for what a transaction does.
func (l *lab) notes(t testing.TB) {
	t.Helper()
	exec(t, l.db, "CREATE TABLE notes (id BIGINT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(100), token BIGINT) ENGINE=InnoDB")
}

func note(ctx context.Context, tx *sql.Tx, text string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO notes (text) VALUES ('"+text+"')")
	return err
}

func (l *lab) noted(t testing.TB, text string) (n int) {
	t.Helper()
	must(t, l.db.QueryRow("SELECT COUNT(*) FROM notes WHERE text='"+text+"'").Scan(&n))
	return n
}

// TestP4_InTx commits what fn wrote if it returned nil and the lease stood, and
// nothing otherwise.
func TestP4_InTx(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		ctx, cancel := context.WithCancel(patient(t))
		a := l.program(t, rowlock.Options{})
		mine := errors.New("mine")
		for _, c := range []struct {
			name string
			fn   func(ctx context.Context, tx *sql.Tx, lease *rowlock.Lease) error
			want error
			n    int
		}{
			{"nil", func(context.Context, *sql.Tx, *rowlock.Lease) error { return nil }, nil, 1},
			{"an error", func(context.Context, *sql.Tx, *rowlock.Lease) error { return mine }, mine, 0},
			{"released meanwhile", func(ctx context.Context, _ *sql.Tx, lease *rowlock.Lease) error { return lease.Release(ctx) }, rowlock.ErrReleased, 0},
			{"committed by fn", func(_ context.Context, tx *sql.Tx, _ *rowlock.Lease) error { return tx.Commit() }, rowlock.ErrUnknownOutcome, 1},
			{"rolled back by fn", func(_ context.Context, tx *sql.Tx, _ *rowlock.Lease) error { return tx.Rollback() }, rowlock.ErrUnknownOutcome, 0},
			{"rolled back by its text", func(ctx context.Context, tx *sql.Tx, _ *rowlock.Lease) error {
				_, err := tx.ExecContext(ctx, "ROLLBACK")
				return errors.Join(err, note(ctx, tx, "after it"))
			}, rowlock.ErrUnknownOutcome, 0},
			{"its context ends", func(context.Context, *sql.Tx, *rowlock.Lease) error { cancel(); return nil }, context.Canceled, 0},
		} {
			lease := a.lock(t, c.name)
			err := a.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
				must(t, note(ctx, tx, c.name))
				return c.fn(ctx, tx, lease)
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			if n := l.noted(t, c.name); n != c.n {
				t.Errorf("%s: committed %d times, want %d", c.name, n, c.n)
			}
		}
		if l.noted(t, "after it") != 0 {
			locktest.Breach(t, "P4", "what fn wrote after the end of the guarded transaction was committed")
		}
	})
}

// TestP4_InTxIgnoredDeadlock: the server undid the transaction with its guard, fn
// went on and returned nil. Nothing of that is committed.
func TestP4_InTxIgnoredDeadlock(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		exec(t, l.db, "INSERT INTO notes (id,text) VALUES (101,'x'),(102,'y')")
		other := l.beginAt(t, sql.LevelDefault)
		_, err := other.Exec("INSERT INTO notes (text) SELECT text FROM notes WHERE id<50") // it has more to undo, so it survives
		must(t, err)
		for i := range 20 {
			_, err = other.Exec(fmt.Sprintf("INSERT INTO notes (id,text) VALUES (%d,'weight')", 1000+i))
			must(t, err)
		}
		_, err = other.Exec("UPDATE notes SET text='1' WHERE id=101")
		must(t, err)
		var deadlock error
		run := func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE notes SET text='2' WHERE id=102")
			must(t, err)
			done := make(chan error)
			go func() { _, err := other.Exec("UPDATE notes SET text='1' WHERE id=102"); done <- err }()
			_, deadlock = tx.ExecContext(ctx, "UPDATE notes SET text='2' WHERE id=101")
			must(t, <-done)
			return note(ctx, tx, "unguarded")
		}
		err = a.InTx(ctx, a.lock(t, "a"), run)
		if conn.Number(deadlock) != conn.ErDeadlock {
			t.Fatalf("no deadlock: %v", deadlock)
		}
		if !errors.Is(err, rowlock.ErrUnknownOutcome) || l.noted(t, "unguarded") != 0 {
			t.Errorf("P4: %v, and %d writes without a guard", err, l.noted(t, "unguarded"))
		}
		if err := a.InTx(ctx, a.lock(t, "b"), func(context.Context, *sql.Tx) error { return deadlock }); !errors.Is(err, rowlock.ErrConflict) || conn.Number(err) != conn.ErDeadlock {
			t.Errorf("P8: the caller's deadlock: %v", err)
		}
	})
}

// TestP4_InTxPanic: fn does not return, the transaction is rolled back.
func TestP4_InTxPanic(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		for name, end := range map[string]func(){"panic": func() { panic("mine") }, "Goexit": runtime.Goexit} {
			lease := a.lock(t, name)
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_ = a.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
					must(t, note(ctx, tx, name))
					end()
					return nil
				})
			}()
			<-done
			if l.noted(t, name) != 0 {
				t.Errorf("%s: committed", name)
			}
			must(t, lease.Release(ctx))
			must(t, a.lock(t, name).Release(ctx)) // not pinned
		}
	})
}

// TestP4_InTxLosesItsLease: a lease that ends while fn runs ends its context, and
// the transaction is rolled back.
func TestP4_InTxLosesItsLease(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		ctx := patient(t)
		a := l.program(t, rowlock.Options{TTL: l.shortest()})
		for name, answer := range map[string]func(context.Context) error{
			"fn sees it":         func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			"fn does not see it": func(ctx context.Context) error { <-ctx.Done(); return nil },
		} {
			lease := a.lock(t, name, rowlock.NoRenew())
			err := a.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
				must(t, note(ctx, tx, name))
				return answer(ctx)
			})
			if reasonOf(err) != rowlock.ReasonExpired || l.noted(t, name) != 0 {
				t.Errorf("P4, %s: %v, committed %d times", name, err, l.noted(t, name))
			}
		}
	})
}

// TestP11_InTxConnections: one for each that runs, settings as documented, and what
// the pool of the caller had it has again.
func TestP11_InTxConnections(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		l.store()
		s, user := l.storeOfUser(t)
		a := l.programOn(t, s, rowlock.Options{TTL: 90 * time.Second})
		short, long := a.lock(t, "a", rowlock.TTL(10*time.Second)), a.lock(t, "b")
		for _, c := range []struct {
			lease *rowlock.Lease
			wait  int
		}{{short, 60}, {long, 90}, {short, 60}} {
			must(t, a.InTx(ctx, c.lease, func(ctx context.Context, tx *sql.Tx) error {
				var wait, lock int
				must(t, tx.QueryRowContext(ctx, "SELECT @@SESSION.wait_timeout, @@SESSION.innodb_lock_wait_timeout").Scan(&wait, &lock))
				if wait != c.wait || lock == 1 {
					t.Errorf("wait_timeout %d, want %d; innodb_lock_wait_timeout %d", wait, c.wait, lock)
				}
				return nil
			}))
		}
		before := len(sessionsOf(t, l, user))
		const n = 20
		inside, leave, done := make(chan int), make(chan struct{}), make(chan error)
		for range n {
			go func() {
				done <- a.InTx(ctx, short, func(context.Context, *sql.Tx) error { inside <- 1; <-leave; return nil })
			}()
		}
		for range n {
			<-inside
		}
		if got := len(sessionsOf(t, l, user)); got > before+n {
			t.Errorf("P11: %d connections with %d transactions, %d before", got, n, before)
		}
		close(leave)
		for range n {
			must(t, <-done)
		}
		eventually(t, "the connections are closed but for a few", func() bool { return len(sessionsOf(t, l, user)) <= before+guarded.MostIdle })

		pool := l.open(l.config)
		pool.SetMaxOpenConns(minConnections + spareConnections)
		pool.SetMaxIdleConns(20)
		if l.strategy == SelectForUpdate {
			pool.SetMaxOpenConns(0)
		}
		mine, err := New(pool, Options{Strategy: l.strategy, Connections: minConnections})
		must(t, err)
		b := l.programOn(t, mine, rowlock.Options{})
		lease := b.lock(t, "c")
		var ids []int
		for range 3 {
			must(t, b.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
				var id int
				must(t, tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
				ids = append(ids, id)
				return nil
			}))
			c, err := pool.Conn(ctx)
			must(t, err)
			var id, wait int
			var auto bool
			must(t, c.QueryRowContext(ctx, "SELECT CONNECTION_ID(), @@SESSION.wait_timeout, @@SESSION.autocommit").Scan(&id, &wait, &auto))
			if wait == 60 || !auto || id == ids[len(ids)-1] {
				t.Errorf("P14: a connection came back to the caller's pool with the settings of a transaction")
			}
			must(t, c.Close())
		}
		must(t, lease.Release(ctx))
		must(t, b.Close(ctx))
		must(t, mine.Close())
		eventually(t, "a closed Store has given back all", func() bool { return pool.Stats().InUse == 0 })
	})
}

// TestInTxDeadConnection: connections that rested were ended meanwhile.
func TestInTxDeadConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		lease := a.lock(t, "a")
		for range 5 {
			var id int
			must(t, a.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id)
			}))
			exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", id))
		}
	})
}
