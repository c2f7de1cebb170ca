package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// A guarded transaction has a shared lock on one entry of the index named guard:
// the one with the lease's token. The next grant of the key must raise the token,
// so it changes that entry and waits for the transaction; everybody else who writes
// the row (renewals, refused acquires, releases) does not touch the index.
//
// The lock is on the entry only if the index has everything that the statement
// reads, and if the statement names every column of the unique index:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-locks-set.html

// Guard makes the transaction one that cannot be committed after a newer hold of
// the key was granted: as long as it is open, everybody who wants the key waits for its
// end, however late that is, and whatever becomes of the lease. The lease's own
// renewals and other keys do not wait. Call it first in the transaction; several
// times, and for several leases, is allowed. It works at every isolation level.
//
// tx is your transaction on the Store's server, with any pool and any database
// there: see Tx. The lease is one that a Client of this Store granted. From the
// call on it is never handed off inside the process, and its release leaves the key
// to the next only when the transaction has ended too.
//
// After any error nothing is guarded: roll back at once (in a transaction at
// REPEATABLE READ a guard that failed may keep new keys from being locked). Errors
// that match rowlock.ErrLost or rowlock.ErrReleased: the lease is over.
// rowlock.ErrInvalid: tx is a pool, or has no open transaction, or reaches another
// server; the lease is nil or another Store's. rowlock.ErrConflict: the server
// chose the transaction as the victim of a deadlock, a lock was waited for too long,
// or the Store, on a pool of yours that is used up, found no connection for a second:
// transactions that guard have them all; run it again from its beginning. Others come
// from the connection. ctx and the end of the lease bound both statements, one on a
// connection of the Store and one on yours; what that does to your connection is up
// to database/sql and the driver.
//
// A host that falls silent inside a guarded transaction keeps the key from
// everybody until the server ends the session, by default after a wait_timeout of
// eight hours. Set a smaller one, or use InTx. Guard may be called concurrently.
func (s *Store) Guard(ctx context.Context, tx Tx, lease *rowlock.Lease) error {
	ctx, free := upTo(ctx, lease)
	defer free()
	_, err := s.guard(ctx, tx, lease, "")
	return err
}

// upTo is ctx, and ends with the lease too. In a pool that is used up the
// transactions that wait for a connection have those that they wait for, so none
// may wait without an end of its own.
func upTo(ctx context.Context, lease *rowlock.Lease) (context.Context, context.CancelFunc) {
	within, free := context.WithCancel(ctx) // a lease that lives on forgets it
	if lease == nil {
		return within, free
	}
	return lease.Context(within), free
}

// guard is Guard, which also asks whether a run has its mark. Its caller gives it a
// context that ends with the lease: see upTo.
func (s *Store) guard(ctx context.Context, tx Tx, lease *rowlock.Lease, run string) (holdState, error) {
	h, err := s.guarding(ctx, lease)
	if err != nil {
		return holdState{}, err
	}
	if err := inTransaction(ctx, tx); err != nil {
		return holdState{}, fmt.Errorf("guard %q: %w", h.Key, err)
	}
	// The plain read comes first, because a locking read that finds nothing can lock
	// the right end of the index, and with it every acquire of a new key.
	st, err := s.readHold(ctx, h, run)
	st.hold = h
	if err == nil && !st.marked {
		err = cmp.Or(st.lost(h), lease.Err())
	}
	if err != nil || st.marked {
		return st, wrap("guard", h.Key, orEnded(lease, poolConflict(err)))
	}
	locked, err := s.lock(ctx, tx, st.database, h)
	switch n := conn.Number(err); {
	case conn.SchemaErrors[n], n == conn.ErNoDatabase, n == conn.ErTableDenied: // the plain read found the table
		err = fmt.Errorf("%w: the transaction does not reach the lock tables; it must be on the Store's server, and its user may read them: %w", driver.ErrInvalid, err)
	case err == nil && !locked:
		err = s.whyNot(ctx, h)
	}
	if err == nil {
		err = lease.Err() // it may have ended meanwhile
	}
	return st, wrap("guard", h.Key, orEnded(lease, poolConflict(err)))
}

// orEnded prefers what the lease says of its end to what its row looks like then, and
// to what came of a statement or a wait that its end cut off.
func orEnded(lease *rowlock.Lease, err error) error {
	for _, said := range []error{driver.ErrInvalid, driver.ErrSchema, driver.ErrAlreadyRan} {
		if errors.Is(err, said) {
			return err
		}
	}
	if err == nil {
		return nil
	}
	return cmp.Or(lease.Err(), err)
}

// poolConflict marks the error of a wait for the pool: transactions that use it up
// stand in each other's way.
func poolConflict(err error) error {
	if errors.Is(err, conn.ErrPoolBusy) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: roll back, so that its connection is free: %w", driver.ErrConflict, err)
	}
	return err
}

// wrap names the operation and the key; nil stays nil.
func wrap(what, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", what, key, err)
}

// guarding checks what a guard is given, before anything is sent.
func (s *Store) guarding(ctx context.Context, lease *rowlock.Lease) (driver.Hold, error) {
	if lease == nil {
		return driver.Hold{}, fmt.Errorf("guard: %w: the lease is nil", driver.ErrInvalid)
	}
	if err := s.ready(ctx); err != nil {
		return driver.Hold{}, orEnded(lease, poolConflict(err))
	}
	return rowlock.BeginGuard(lease, s)
}

// lock is the guard: it locks the entry of the hold in the guard index, until the
// transaction ends. false: there is no such entry any more.
func (s *Store) lock(ctx context.Context, tx Tx, database string, h driver.Hold) (locked bool, err error) {
	l, _ := s.strategy.Guards(h)
	t := conn.NewText(300).Add("SELECT token FROM ", inDatabase(database, l.Name), " FORCE INDEX (guard) WHERE token=").Int(h.Stored).Add(" AND name=").Key(h.Key)
	if len(l.GuardColumns) == 3 { // two holds can have the same token there
		t.Add(" AND hold=").Bytes(h.ID[:])
	}
	s.db.Statements.Add(1)
	rows, err := tx.QueryContext(ctx, t.Add(" LOCK IN SHARE MODE").String())
	if err != nil {
		return false, txError(err)
	}
	defer rows.Close()
	locked = rows.Next()
	if err := rows.Err(); err != nil {
		return false, txError(err)
	}
	return locked, txError(rows.Close())
}

// inDatabase gives a table of the Store its database, so that the caller's
// transaction may be in another one of the same server. A name that is not plain
// ASCII the caller's session might spell otherwise.
func inDatabase(database, table string) string {
	for _, b := range []byte(database) {
		if b >= 0x80 {
			return table
		}
	}
	if database == "" {
		return table
	}
	return quoted(database) + "." + table
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// holdState is what a plain read tells before a guard.
type holdState struct {
	hold     driver.Hold   // as the guard was given it
	status   driver.Status // Alive: the row has the hold
	database string        // in which the tables are
	marked   bool          // the run has its mark
}

// readHold reads the row of a hold, and the mark of a run if one is named, on a
// connection of the Store: no statement is sent in the caller's transaction for a
// lease that was lost.
func (s *Store) readHold(ctx context.Context, h driver.Hold, run string) (st holdState, err error) {
	l, live := s.strategy.Guards(h)
	t := conn.NewText(600).Add("SELECT hold,token,released_at IS NULL,IFNULL(DATABASE(),'')")
	if run != "" {
		t.Add(",EXISTS(SELECT 1 FROM ", s.names.run, " AS r WHERE r.name=").Key(h.Key).Add(" AND r.run=").Key(run).Add(")")
	} else {
		t.Add(",0")
	}
	text := t.Add(" FROM ", l.Name, " FORCE INDEX (PRIMARY) WHERE name=").Key(h.Key).String()
	found, err := conn.Detached(ctx, s.db, l.What("guard"), func(ctx context.Context) (found []holdState, err error) {
		err = s.db.StepAgain(ctx, s.db.Acquires, func(c *conn.Conn) (err error) {
			found, err = conn.Query(ctx, c, 0, text, func(rows *sql.Rows) (st holdState, err error) {
				var r row.Row
				var id sql.RawBytes
				var token conn.Int
				if err = rows.Scan(&id, &token, &r.Live, &st.database, &st.marked); err != nil {
					return st, err
				}
				copy(r.ID[:], id)
				switch {
				case !r.Mine(h.ID):
					st.status = r.Gone(h.ID)
				case token.Off, token.N != h.Stored:
					st.status = driver.Taken
				case !live: // its session has ended
					st.status = driver.Removed
				default:
					st.status = driver.Alive
				}
				return st, nil
			})
			return err
		})
		return found, err
	})
	switch {
	case err != nil:
		return st, conn.Classify(l.What("guard"), err)
	case len(found) == 0:
		return holdState{status: driver.Removed}, nil
	}
	return found[0], nil
}

// lost is nil while the row has the hold.
func (st holdState) lost(h driver.Hold) error { return storekit.Lost(h, st.status) }

// whyNot says why the transaction did not find the hold's entry.
func (s *Store) whyNot(ctx context.Context, h driver.Hold) error {
	st, err := s.readHold(ctx, h, "")
	if err == nil {
		err = st.lost(h)
	}
	if err == nil {
		err = fmt.Errorf("%w: the transaction does not see the lease, which is there: it is on another server than the Store, or on a replica", driver.ErrInvalid)
	}
	return err
}
