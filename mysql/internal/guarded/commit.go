package guarded

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

const (
	// CommitGrace is how long the answer to a commit is waited for when ctx or the
	// lease has ended meanwhile, and then for a question about it.
	CommitGrace = 2 * time.Second

	// rollbackWait bounds a ROLLBACK; after it the connection is closed.
	rollbackWait = time.Second
)

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
	case conn.Number(err) == callertx.ErNoSavepoint, errors.Is(err, sql.ErrTxDone):
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
	ctx, cancel := linger(t.work, CommitGrace, t.c.Silence)
	defer cancel()
	err = t.finish(ctx, conn.Commit, t.tx.Commit)
	if n := conn.Number(err); err == nil || conn.RefusedNow[n] && n != conn.ErKilled || errors.Is(err, sqldriver.ErrBadConn) {
		return err
	}
	t.c.Broken = true
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
		t.g.db.EndSession(t.c) // the server may still run a statement, and keep the guard
	}
	if t.tx != nil {
		_ = t.tx.Rollback() // for database/sql, where finish was a statement; on a broken connection it sends nothing
	}
	t.free()
	if t.stale {
		t.g.db.Moved()
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
