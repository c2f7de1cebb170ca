package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/guarded"
)

// xaTx is a transaction of a program's own, with an XA branch below.
type xaTx struct {
	*sql.Conn
	xid string
}

func beginXA(t testing.TB, db *sql.DB) *xaTx {
	t.Helper()
	c, err := db.Conn(context.Background())
	must(t, err)
	x := &xaTx{c, fmt.Sprintf("'%x'", newID())}
	t.Cleanup(func() { _ = x.Rollback(); _ = c.Close() })
	must(t, x.send("XA START"))
	return x
}

func (x *xaTx) send(verb string) error {
	_, err := x.ExecContext(context.Background(), verb+" "+x.xid)
	return err
}

func (x *xaTx) prepare() error { return errors.Join(x.send("XA END"), x.send("XA PREPARE")) }
func (x *xaTx) Commit() error  { return errors.Join(x.prepare(), x.send("XA COMMIT")) }
func (x *xaTx) Rollback() error {
	_ = x.send("XA END")
	return x.send("XA ROLLBACK")
}

// xaDriver is a driver whose transactions are XA branches, as that of a transaction manager.
type xaDriver struct{ sqldriver.Connector }

func (d xaDriver) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &xaConn{c.(conn.DriverConn)}, nil
}

type xaConn struct{ conn.DriverConn }

func (c *xaConn) BeginTx(ctx context.Context, _ sqldriver.TxOptions) (sqldriver.Tx, error) {
	b := &xaBranch{c, fmt.Sprintf("'%x'", newID())}
	return b, b.send("XA START")
}

type xaBranch struct {
	c   *xaConn
	xid string
}

func (b *xaBranch) send(verb string) error {
	_, err := b.c.ExecContext(context.Background(), verb+" "+b.xid, nil)
	return err
}

func (b *xaBranch) Commit() error {
	return errors.Join(b.send("XA END"), b.send("XA PREPARE"), b.send("XA COMMIT"))
}
func (b *xaBranch) Rollback() error {
	return errors.Join(b.send("XA END"), b.send("XA ROLLBACK"))
}

// wrapped is a pool of the lab's database whose driver is wrapped.
func (l *lab) wrapped(wrap func(sqldriver.Connector) sqldriver.Connector) *sql.DB {
	l.t.Helper()
	connector, err := mysql.NewConnector(l.config.Clone())
	must(l.t, err)
	db := sql.OpenDB(wrap(connector))
	l.t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestP4_XA: no XA transaction is guarded, whatever hides it: at XA PREPARE servers give the guard back.
func TestP4_XA(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		pool := l.wrapped(func(c sqldriver.Connector) sqldriver.Connector { return xaDriver{c} })
		for name, begin := range map[string]func() (Tx, func() error){
			"*sql.Conn": func() (Tx, func() error) {
				x := beginXA(t, l.db)
				return x.Conn, x.Rollback
			},
			"*sql.Conn after XA END": func() (Tx, func() error) {
				x := beginXA(t, l.db)
				must(t, x.send("XA END"))
				return x.Conn, x.Rollback
			},
			"a type with Commit": func() (Tx, func() error) {
				x := beginXA(t, l.db)
				return x, x.Rollback
			},
			"a type with Commit after XA END": func() (Tx, func() error) {
				x := beginXA(t, l.db)
				must(t, x.send("XA END"))
				return x, x.Rollback
			},
			"*sql.Tx of a driver of XA": func() (Tx, func() error) {
				tx, err := pool.Begin()
				must(t, err)
				return tx, tx.Rollback
			},
			"*sqlx.Tx of a driver of XA": func() (Tx, func() error) {
				tx, err := sqlx.NewDb(pool, "mysql").Beginx()
				must(t, err)
				return tx, tx.Rollback
			},
		} {
			lease := a.lock(t, name)
			for verb, f := range map[string]func(Tx) error{
				"Guard":   func(tx Tx) error { return a.Guard(ctx, tx, lease) },
				"MarkRun": func(tx Tx) error { return a.MarkRun(ctx, tx, lease, "run") },
			} {
				tx, rollback := begin()
				if err := f(tx); !errors.Is(err, rowlock.ErrNotSupported) || !strings.Contains(err.Error(), "XA transaction") {
					t.Errorf("P4, %s in an XA transaction, %s: %v", verb, name, err)
				}
				_ = rollback()
			}
			must(t, lease.Release(ctx))
			must(t, b.lock(t, name).Release(ctx)) // nothing was guarded
		}
	})
}

// TestP4_XAOfThePool: InTx and Once too, where the Store's pool begins XA branches.
func TestP4_XAOfThePool(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		l.store()
		s, err := New(l.wrapped(func(c sqldriver.Connector) sqldriver.Connector { return xaDriver{c} }), l.options())
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		p := l.programOn(t, s, rowlock.Options{})
		lease := p.lock(t, "a")
		fn := func(context.Context, *sql.Tx) error {
			t.Error("P4: the function was called in an XA transaction")
			return nil
		}
		for name, err := range map[string]error{"InTx": p.InTx(ctx, lease, fn), "Once": p.Once(ctx, lease, "run", fn)} {
			if !errors.Is(err, rowlock.ErrNotSupported) || !strings.Contains(err.Error(), "XA transaction") {
				t.Errorf("P4: %s: %v", name, err)
			}
		}
	})
}

// askedTx counts what is sent.
type askedTx struct {
	*sql.Tx
	sent *[]string
}

func (a askedTx) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	*a.sent = append(*a.sent, text)
	return a.Tx.ExecContext(ctx, text, args...)
}

func (a askedTx) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	*a.sent = append(*a.sent, text)
	return a.Tx.QueryContext(ctx, text, args...)
}

// tracingDriver wraps the transactions of the driver, as libraries for tracing do.
type tracingDriver struct{ sqldriver.Connector }

func (d tracingDriver) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return tracingConn{c.(conn.DriverConn)}, nil
}

type tracingConn struct{ conn.DriverConn }

func (c tracingConn) BeginTx(ctx context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	tx, err := c.DriverConn.BeginTx(ctx, o)
	return tracingTx{tx, "span"}, err
}

type tracingTx struct {
	parent sqldriver.Tx
	span   string
}

func (t tracingTx) Commit() error   { return t.parent.Commit() }
func (t tracingTx) Rollback() error { return t.parent.Rollback() }

// TestP25_OrdinaryTransactionsAreNotAsked: a guard is one statement in an ordinary transaction.
func TestP25_OrdinaryTransactionsAreNotAsked(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		p := l.program(t, rowlock.Options{})
		traced := l.wrapped(func(c sqldriver.Connector) sqldriver.Connector { return tracingDriver{c} })
		for name, pool := range map[string]*sql.DB{"*sql.Tx": l.db, "*sql.Tx of a driver that wraps another": traced} {
			lease := p.lock(t, name)
			tx, err := pool.Begin()
			must(t, err)
			var sent []string
			must(t, p.Guard(ctx, askedTx{tx, &sent}, lease))
			if len(sent) != 1 {
				t.Errorf("P25, %s: a guard sends %q", name, sent)
			}
			must(t, tx.Rollback())
		}
	})
}

// TestP14_GuardWhileTheTransactionEnds: a transaction may end at any moment of a guard, by its own context. What the
// guard wants to know of it is read without a race: run with -race.
func TestP14_GuardWhileTheTransactionEnds(t *testing.T) {
	l := newLab(t, testserver.MySQL, VersionColumn)
	ctx := patient(t)
	p := l.program(t, rowlock.Options{})
	lease := p.lock(t, "a")
	// How long a guard takes here, so that the end comes at all of its moments.
	tx := l.beginAt(t, sql.LevelDefault)
	begun := time.Now()
	must(t, p.Guard(ctx, tx, lease))
	usual := time.Since(begun)
	must(t, tx.Rollback())
	ended := 0
	for range 300 {
		bound, cancel := context.WithCancel(ctx)
		tx, err := l.db.BeginTx(bound, nil)
		must(t, err)
		timer := time.AfterFunc(rand.N(2*usual), cancel)
		if p.Guard(ctx, tx, lease) != nil {
			ended++
		}
		timer.Stop()
		cancel()
		_ = tx.Rollback()
	}
	if ended == 0 {
		t.Errorf("P14: no transaction ended in its guard, which takes %v", usual)
	}
}

// plainDriver is a driver that is wrapped so that all that its connections can do is to prepare and to begin.
type plainDriver struct{ sqldriver.Connector }

func (d plainDriver) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := d.Connector.Connect(ctx)
	return struct{ sqldriver.Conn }{c}, err
}

// nestedTx is a transaction in another, or in itself.
type nestedTx struct {
	*nestedTx
	Tx
	local *sql.Tx // not the one that its statements go to
}

func (nestedTx) Commit() error   { return nil }
func (nestedTx) Rollback() error { return nil }

// TestOrdinary: which handles need no question.
func TestOrdinary(t *testing.T) {
	l := newLab(t, testserver.MySQL, VersionColumn)
	tx := l.beginAt(t, sql.LevelDefault)
	x, err := sqlx.NewDb(l.db, "mysql").Beginx()
	must(t, err)
	defer x.Rollback()
	itself := &nestedTx{Tx: tx}
	itself.nestedTx = itself
	var sent []string
	for _, c := range []struct {
		name string
		tx   Tx
		want bool
	}{
		{"*sql.Tx", tx, true},
		{"*sqlx.Tx", x, true},
		{"a type that embeds *sql.Tx", askedTx{tx, &sent}, true},
		{"a type that has a *sql.Tx beside", &nestedTx{local: tx}, false},
		{"a type that embeds itself", itself, false},
		{"a type that hides what it is", bareTx{tx}, false},
	} {
		if got := guarded.Ordinary(c.tx); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestDriverThatPreparesAll: MySQL prepares no SAVEPOINT, so InTx and Once refuse such a driver, with the reason, before they
// call the function; Guard and MarkRun work.
func TestDriverThatPreparesAll(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		l.store()
		pool := l.wrapped(func(c sqldriver.Connector) sqldriver.Connector { return plainDriver{c} })
		s, err := New(pool, l.options())
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		p := l.programOn(t, s, rowlock.Options{})
		lease := p.lock(t, "a")
		called := 0
		fn := func(context.Context, *sql.Tx) error { called++; return nil }
		for name, err := range map[string]error{"InTx": p.InTx(ctx, lease, fn), "Once": p.Once(ctx, lease, "run", fn)} {
			if l.kind == testserver.MariaDB {
				must(t, err)
			} else if !errors.Is(err, rowlock.ErrNotSupported) || !strings.Contains(err.Error(), "ExecerContext") || called > 0 {
				t.Errorf("%s, called %d times: %v", name, called, err)
			}
		}
		tx, err := pool.Begin()
		must(t, err)
		defer tx.Rollback()
		must(t, p.MarkRun(ctx, tx, lease, "another run"))
	})
}

// TestLockTxInXA: the keys are locked until the branch ends, also after XA PREPARE, if the branch has written something.
// What holds of a branch that has written nothing differs: see docs/transactions.md.
func TestLockTxInXA(t *testing.T) {
	onServers(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		s := l.store()
		exec(t, l.db, "CREATE TABLE notes (n INT PRIMARY KEY) ENGINE=InnoDB")
		for _, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
			c, err := l.db.Conn(ctx)
			must(t, err)
			x := &xaTx{c, fmt.Sprintf("'%x'", newID())}
			t.Cleanup(func() { _ = x.Rollback(); _ = c.Close() })
			_, err = c.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
			must(t, err)
			must(t, x.send("XA START"))
			job := "job at " + level
			must(t, s.LockTx(ctx, c, job))
			_, err = c.ExecContext(ctx, "REPLACE INTO notes VALUES (1)")
			must(t, err)
			taken := func(what string) {
				t.Helper()
				if err := s.LockTxNoWait(ctx, l.beginAt(t, sql.LevelDefault), job); !errors.Is(err, rowlock.ErrHeld) {
					t.Errorf("%s, %s: %v", level, what, err)
				}
			}
			taken("before XA PREPARE")
			must(t, x.prepare())
			taken("after XA PREPARE")
			must(t, x.send("XA COMMIT"))
			must(t, s.LockTxWait(ctx, l.beginAt(t, sql.LevelDefault), testserver.Patience(t), job))
			must(t, c.Close())
			exec(t, l.db, "DELETE FROM notes")
		}
	}, VersionColumn)
}

// TestPreparedBranchInTheWay: of a branch that is prepared there is no session to end, so nobody is told to KILL 0.
func TestPreparedBranchInTheWay(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		client{t: t, Store: s}.granted("a", time.Minute)
		exec(t, l.db, "CREATE TABLE notes (n INT PRIMARY KEY) ENGINE=InnoDB")
		x := beginXA(t, l.db)
		for _, text := range []string{"INSERT INTO notes VALUES (1)", "SELECT name FROM " + l.table() + " FORCE INDEX (PRIMARY) WHERE name='a' FOR UPDATE"} {
			_, err := x.ExecContext(t.Context(), text)
			must(t, err)
		}
		must(t, x.prepare())
		_ = x.Raw(func(any) error { return sqldriver.ErrBadConn }) // its session ends; the branch stays
		ended, err := l.db.Conn(t.Context())
		must(t, err)
		x.Conn = ended
		_, err = s.ForceRelease(patient(t), "a")
		if err == nil || !strings.Contains(err.Error(), "XA RECOVER") || !strings.Contains(err.Error(), "XA ROLLBACK") {
			t.Errorf("ForceRelease behind a prepared branch: %v", err)
		}
		var found []doctor.Finding
		eventually(t, "the branch is found", func() bool { // the server renews what it says of transactions now and then
			found = nil
			for _, f := range examine(t, s, doctor.Options{OldTransaction: time.Second}).Of("RL150") {
				if strings.Contains(f.Value, "XA") {
					found = append(found, f)
				}
			}
			return len(found) > 0
		})
		for _, f := range found {
			if f.Command != "XA RECOVER" || !strings.Contains(f.Advice, "XA ROLLBACK") || strings.Contains(f.Advice, "{") {
				t.Errorf("of a prepared branch: %+v", f)
			}
		}
	})
}
