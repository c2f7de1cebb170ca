package guarded

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A mark is a row (key, run) that is written in the transaction of the run's
// effects, so it is there exactly when they are.

// MarkRun is that of mysqllock.
func (g *Transactions) MarkRun(ctx context.Context, tx callertx.Tx, leases guards.Leases, run string) error {
	if err := guards.CheckRun(run); err != nil {
		return err
	}
	ctx, free := upTo(ctx, leases)
	defer free()
	st, err := g.guard(ctx, tx, leases, run)
	if err != nil {
		return err
	}
	err = driver.ErrAlreadyRan
	if !st.marked {
		err = g.mark(ctx, tx, st.in, st.at, st.hold, run)
	}
	if err == nil {
		err = leases.Err() // it may have waited
	}
	return wrapRun(run, leases[0].Key(), orEnded(leases, err))
}

// mark writes the mark in a guarded transaction; in is what stands before the table's name in its
// session, and at the time. An INSERT looks at what is committed whatever snapshot the transaction
// has, waits for one who is marking the run now, and says without doubt which of them was first: with
// IGNORE also where the DSN has clientFoundRows, and where MariaDB would undo all rows that a session
// without unique_checks has put into an empty table. A read of a mark that is not there yet would lock
// the gap, and two who do that and insert deadlock.
func (g *Transactions) mark(ctx context.Context, tx callertx.Tx, in, at string, h driver.Hold, run string) error {
	g.db.Statements.Add(1)
	table := in + g.runs
	res, err := tx.ExecContext(ctx, conn.NewText(400).Add("INSERT IGNORE INTO ", table, " (name,run,token,at) SELECT ").
		Key(h.Key).Add(",").Key(run).Add(",").Int(h.Token).Add(",", at, " FROM DUAL WHERE NOT EXISTS(SELECT 1 FROM ", table, " WHERE FALSE)").String())
	var n int64
	if err == nil {
		n, err = res.RowsAffected()
	}
	switch {
	case err == nil && n == 0:
		return g.notMarked(ctx, tx, table, h.Key, run)
	case conn.DoesNotFit(err):
		return conn.Classify("mark in table "+g.runs, err)
	}
	return callertx.SessionError(callertx.Error(err))
}

// notMarked says why a mark was not written: because it is there, or because something on the table that is
// not rowlock's, such as a CHECK constraint, refuses it, about which IGNORE is silent.
func (g *Transactions) notMarked(ctx context.Context, tx callertx.Tx, table, key, run string) error {
	found, err := conn.Collect(ctx, tx, conn.NewText(300).Add("SELECT name FROM ", table, " FORCE INDEX (PRIMARY) WHERE name=").Key(key).
		Add(" AND run=").Key(run).Add(" LIMIT 1 LOCK IN SHARE MODE").String(), conn.ScanKey)
	switch {
	case err != nil:
		return callertx.SessionError(callertx.Error(err))
	case len(found) == 0:
		return fmt.Errorf("%w: table %s refuses the mark, and does not say why: a CHECK constraint, a foreign key, a unique index or a trigger is not rowlock's: drop it", driver.ErrSchema, table)
	}
	return driver.ErrAlreadyRan
}

// Marked asks for the mark of a run in a way that waits for whoever is writing it:
// the answer is final. token is that of its lease, 0 where there is no mark.
func (g *Transactions) Marked(ctx context.Context, c *conn.Conn, key, run string) (token int64, err error) {
	found, err := conn.Query(ctx, c, g.db.Bound(0), conn.NewText(300).Add("SELECT token FROM ", g.runs, " FORCE INDEX (PRIMARY) WHERE name=").Key(key).
		Add(" AND run=").Key(run).Add(" LOCK IN SHARE MODE").String(), conn.ScanOne[conn.Int])
	if len(found) > 0 {
		token = max(found[0].N, 1) // whatever was done to it by hand, it is a mark
	}
	return token, err
}
