package guarded

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// transaction is a guarded one on a connection of the Store. Its isolation level (package conn, sessionvariables.go) is
// READ COMMITTED, where a guard that fails locks nothing, so the plain read before
// it is needed only where the level is another: see sessionvariables.go of conn.
//
// The server can end a transaction before its end: a deadlock undoes all of it, the
// guard too, and what is sent after the error is no part of it. fn may ignore that
// error. So autocommit is off, which puts what follows into a transaction that we
// can still roll back, and a savepoint reports whether the one that was guarded is
// still open.
type transaction struct {
	g      *Transactions
	c      *conn.Conn
	tx     *sql.Tx
	leases guards.Leases
	holds  guards.Holds
	work   context.Context // the caller's, and ends with each of the leases
	free   context.CancelFunc
	open   bool // end has something to do
	stale  bool // the server is not the primary any more, or may not be
	left   bool // another function has left something on the connection
}

// begin begins a guarded transaction, and marks the run in it if one is named. The
// caller calls end.
func (g *Transactions) begin(ctx context.Context, leases guards.Leases, run string) (*transaction, error) {
	within, free := upTo(ctx, leases)
	defer free()
	hs, err := g.guarding(within, leases)
	if err != nil {
		return nil, err
	}
	wrapped := func(err error) error {
		if run != "" {
			return wrapRun(run, hs.First.Key, err)
		}
		return named(guardOf(hs), err)
	}
	silence := leastSilence
	for _, h := range hs.All {
		silence = max(silence, h.TTL)
	}
	for try := 1; ; try++ {
		t := &transaction{g: g, leases: leases, holds: hs}
		t.work, t.free = upTo(ctx, leases)
		if t.c, err = g.Connections.GetFor(t.work, silence); err != nil {
			t.free()
			return nil, wrapped(orEnded(leases, err))
		}
		t.open = true
		if err = t.c.Answers(t.work); err == nil && t.c.Repeatable {
			var st State
			if st, err = g.ReadHolds(t.work, hs, ""); err == nil {
				err = st.Lost
			}
		}
		if err == nil {
			err = t.start()
		}
		if err == nil && run != "" {
			err = t.judge(g.mark(t.work, t.tx, "", row.Now, hs.First, run))
		}
		if err == nil {
			return t, nil
		}
		if ended := t.ended(); ended != nil {
			err = ended
		}
		// A connection that rested may have died, or its server is not the primary any
		// more, and nothing has happened yet.
		again := (t.c.Broken || t.stale || t.left) && try < 3 && t.work.Err() == nil
		if t.left {
			try-- // each is closed
		}
		t.end()
		if again {
			continue
		}
		if errors.Is(err, errNotLocked) {
			err = orEnded(leases, g.whyNot(within, hs))
		}
		return nil, wrapped(err)
	}
}

var errNotLocked = errors.New("the guard found nothing")

// start is one try of begin.
func (t *transaction) start() (err error) {
	// A sql.Tx is rolled back when its context ends, also in the middle of a commit,
	// which would then not say so. So it gets one that ends with ours only until it
	// has begun.
	begun, free := context.WithCancel(context.WithoutCancel(t.work))
	forget := t.free
	t.free = func() { forget(); free() }
	stop := context.AfterFunc(t.work, free)
	sent := time.Now()
	t.tx, err = t.c.Begin(begun)
	if !stop() && err == nil {
		err = t.work.Err()
	}
	if err != nil {
		t.c.Broken = true
		return t.judge(err)
	}
	t.c.Heard = sent
	ask := ""
	if t.c.Used {
		ask = t.c.StillText(t.tables()...)
	}
	got, err := t.g.Lock(t.work, t.tx, "", t.holds, ask)
	n := conn.Number(err)
	if t.left = conn.OfSession(err) || t.c.Used && (conn.SchemaErrors[n] || n == conn.ErNoDatabase || err == nil && !t.c.Still(got.Said)); t.left {
		return cmp.Or(err, errNotLocked)
	}
	switch {
	case err != nil:
		return t.judge(err)
	case !got.All:
		t.stale = t.c.Left()
		return errNotLocked
	}
	if !got.Ordinary {
		if err := noXA(t.work, t.tx); err != nil {
			return t.judge(err)
		}
	}
	err = t.exec(t.work, "SAVEPOINT rowlock_guarded")
	if conn.Number(err) == callertx.ErNotPrepared {
		err = fmt.Errorf("%w: the driver of the pool prepares every statement, because its connections have no ExecContext, and MySQL prepares no SAVEPOINT: use mysqllock.Open, or a driver that passes ExecerContext on: %w", driver.ErrNotSupported, err)
	}
	return err
}

// tables are those that the transaction's own statements read.
func (t *transaction) tables() []string {
	list := []string{t.g.runs}
	for _, l := range t.g.strategy.Layout() {
		if l.Guard != nil {
			list = append(list, l.Table)
		}
	}
	return list
}

// exec sends a statement of ours beside those of fn. (Not by the sql.Conn, which
// answers a broken connection by waiting for the end of the sql.Tx.)
func (t *transaction) exec(ctx context.Context, text string) error {
	return t.send(func() error {
		_, err := t.tx.ExecContext(ctx, text)
		return err
	})
}

func (t *transaction) send(statement func() error) error {
	t.g.db.Statements.Add(1)
	sent := time.Now()
	err := statement()
	if err == nil {
		t.c.Heard = sent
	}
	return t.judge(err)
}

// judge notes what an error of one of our statements says of the connection, and
// marks it where the transaction can be run again from its beginning.
func (t *transaction) judge(err error) error {
	switch n := conn.Number(err); {
	case conn.CannotServe[n]:
		t.stale = true
		if n != conn.ErGroupRollback {
			return fmt.Errorf("%w: the server cannot write now, nothing took effect: %w", driver.ErrConflict, err)
		}
	case err != nil && (n == conn.ErIdle || n == 0 && !errors.Is(err, sql.ErrTxDone)):
		t.c.Broken = true
	}
	return callertx.Error(err)
}

// ended says that a lease or ctx is over.
func (t *transaction) ended() error {
	ended := t.work.Err() // before the lease, whose end is the end of both
	if err := t.leases.Err(); err != nil {
		return err
	}
	return ended
}
