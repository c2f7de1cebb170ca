package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// transaction is a guarded one on a connection of the Store. Its isolation level is
// READ COMMITTED, where a guard that fails locks nothing, so the plain read before
// it is needed only where the level is another: see isolation.go.
//
// The server can end a transaction before its end: a deadlock undoes all of it, the
// guard too, and what is sent after the error is no part of it. fn may ignore that
// error. So autocommit is off, which puts what follows into a transaction that we
// can still roll back, and a savepoint reports whether the one that was guarded is
// still open.
type transaction struct {
	s      *Store
	c      *conn.Conn
	tx     *sql.Tx
	leases storekit.Leases
	holds  storekit.Holds
	work   context.Context // the caller's, and ends with each of the leases
	free   context.CancelFunc
	open   bool // end has something to do
	stale  bool // the server is not the primary any more, or may not be
	left   bool // another function has left something on the connection
}

const (
	// commitGrace is how long the answer to a commit is waited for when ctx or the
	// lease has ended meanwhile, and then for a question about it.
	commitGrace = 2 * time.Second

	// rollbackWait bounds a ROLLBACK; after it the connection is closed.
	rollbackWait = time.Second
)

// begin begins a guarded transaction, and marks the run in it if one is named. The
// caller calls end.
func (s *Store) begin(ctx context.Context, leases storekit.Leases, run string) (*transaction, error) {
	within, free := upTo(ctx, leases)
	defer free()
	hs, err := s.guarding(within, leases)
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
		t := &transaction{s: s, leases: leases, holds: hs}
		t.work, t.free = upTo(ctx, leases)
		if t.c, err = s.transactions.GetFor(t.work, silence); err != nil {
			t.free()
			return nil, wrapped(orEnded(leases, err))
		}
		t.open = true
		if err = t.c.Answers(t.work); err == nil && t.c.Repeatable {
			var st holdState
			if st, err = s.readHolds(t.work, hs, ""); err == nil {
				err = st.lost
			}
		}
		if err == nil {
			err = t.start()
		}
		if err == nil && run != "" {
			err = t.judge(s.mark(t.work, t.tx, "", row.Now, hs.First, run))
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
			err = orEnded(leases, s.whyNot(within, hs))
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
	if err := noXA(t.work, t.tx); err != nil {
		return t.judge(err)
	}
	ask := ""
	if t.c.Used {
		ask = t.c.StillText(t.tables()...)
	}
	locked, said, err := t.s.lockAndAsk(t.work, t.tx, "", t.holds, ask)
	n := conn.Number(err)
	if t.left = conn.OfSession(err) || t.c.Used && (conn.SchemaErrors[n] || n == conn.ErNoDatabase || err == nil && !t.c.Still(said)); t.left {
		return cmp.Or(err, errNotLocked)
	}
	switch {
	case err != nil:
		return t.judge(err)
	case !locked:
		t.stale = t.c.Left()
		return errNotLocked
	}
	err = t.exec(t.work, "SAVEPOINT rowlock_guarded")
	if conn.Number(err) == erNotPrepared {
		err = fmt.Errorf("%w: the driver of the pool prepares every statement, because its connections have no ExecContext, and MySQL prepares no SAVEPOINT: use mysqllock.Open, or a driver that passes ExecerContext on: %w", driver.ErrNotSupported, err)
	}
	return err
}

// tables are those that the transaction's own statements read.
func (t *transaction) tables() []string {
	list := []string{t.s.names.run}
	for _, l := range t.s.strategy.Layout() {
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

// finish commits or rolls back. The methods of sql.Tx have no context, so a silent
// server would keep them for ever: the network connection is closed when ctx ends. Where
// that is not known the same is sent as a statement, one trip more.
func (t *transaction) finish(ctx context.Context, text string, method func() error) error {
	if !t.c.KnowsNet() {
		return t.exec(ctx, text)
	}
	stop := context.AfterFunc(ctx, t.c.Cut)
	err := t.send(method)
	if !stop() {
		t.c.Broken = true
	}
	return err
}

func (t *transaction) send(statement func() error) error {
	t.s.db.Statements.Add(1)
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
	return txError(err)
}

// ended says that a lease or ctx is over.
func (t *transaction) ended() error {
	ended := t.work.Err() // before the lease, whose end is the end of both
	if err := t.leases.Err(); err != nil {
		return err
	}
	return ended
}

// undecided is the error of a commit that took effect or did not.
type undecided struct{ error }

func (u undecided) Unwrap() error { return u.error }

// commit commits, unless the lease or ctx has ended, or the transaction has ended
// before. Any error but an undecided one says that nothing took effect.
func (t *transaction) commit() error {
	if err := t.ended(); err != nil {
		return err
	}
	err := t.exec(t.work, "RELEASE SAVEPOINT rowlock_guarded")
	switch {
	case conn.Number(err) == erNoSavepoint, errors.Is(err, sql.ErrTxDone):
		return undecided{errEndedEarly}
	case err != nil && t.ended() != nil:
		return t.ended()
	case errors.Is(err, sqldriver.ErrBadConn):
		return fmt.Errorf("the connection is lost, or a *sql.Rows was left open: %w", err)
	case err != nil:
		return err
	}
	if !t.c.Valid() { // or a commit that is not even sent looks like one that is not answered
		t.c.Broken = true
		return cmp.Or(t.ended(), error(sqldriver.ErrBadConn))
	}
	ctx, cancel := linger(t.work, commitGrace, t.c.Silence)
	defer cancel()
	err = t.finish(ctx, conn.Commit, t.tx.Commit)
	if n := conn.Number(err); err == nil || conn.RefusedNow[n] && n != conn.ErKilled || errors.Is(err, sqldriver.ErrBadConn) {
		return err
	}
	return undecided{err}
}

var errEndedEarly = errors.New("the transaction ended inside the function: by Commit or Rollback, by a statement that commits by itself (DDL), or by a deadlock whose error was ignored; what was sent after that is rolled back")

// end rolls back whatever is still open and gives the connection back. It may be
// called again.
func (t *transaction) end() {
	if !t.open {
		return
	}
	t.open = false
	if !t.c.Broken && t.tx != nil {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWait)
		_ = t.finish(ctx, conn.Rollback, t.tx.Rollback) // after a commit it changes nothing
		cancel()
	}
	if t.c.Broken {
		t.s.db.EndSession(t.c) // the server may still run a statement, and keep the guard
	}
	if t.tx != nil {
		_ = t.tx.Rollback() // for database/sql, where finish was a statement; on a broken connection it sends nothing
	}
	t.free()
	if t.stale {
		t.s.db.Moved()
	}
	t.c.Broken = t.c.Broken || t.stale || t.left
	t.c.Put()
}

// linger is a context that ends some time after ctx, and at last after most.
func linger(ctx context.Context, after, most time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(after, cancel)
		context.AfterFunc(out, func() { late.Stop() })
	})
	return out, func() { stop(); cancel() }
}
