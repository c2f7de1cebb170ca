package mysqllock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
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
// times, and for several leases, is allowed. Those of a rowlock.Group, or any others, can be
// given together as more: all are guarded by one statement, or none is. It works at every
// isolation level.
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
// server; the lease is nil or another Store's. rowlock.ErrNotSupported: tx is an XA
// transaction, whose guard would end at XA PREPARE, before its effects are committed; of
// a tx that go-sql-driver has not begun the server is asked for it, which costs a
// statement more. rowlock.ErrConflict: the server
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
func (s *Store) Guard(ctx context.Context, tx Tx, lease *rowlock.Lease, more ...*rowlock.Lease) error {
	leases := storekit.LeasesOf(lease, more)
	ctx, free := upTo(ctx, leases)
	defer free()
	_, err := s.guard(ctx, tx, leases, "")
	return err
}

// upTo is ctx, and ends with each of the leases too. In a pool that is used up the
// transactions that wait for a connection have those that they wait for, so none
// may wait without an end of its own.
func upTo(ctx context.Context, leases storekit.Leases) (context.Context, context.CancelFunc) {
	within, free := context.WithCancel(ctx) // a lease that lives on forgets it
	return leases.Context(within), free
}

// guard is Guard, which also asks whether a run has its mark. Its caller gives it a
// context that ends with the leases: see upTo.
func (s *Store) guard(ctx context.Context, tx Tx, leases storekit.Leases, run string) (holdState, error) {
	hs, err := s.guarding(ctx, leases)
	if err != nil {
		return holdState{}, err
	}
	what := guardOf(hs)
	if err := guardable(ctx, tx); err != nil {
		return holdState{}, named(what, orEnded(leases, err))
	}
	// The plain read comes first, because a locking read that finds nothing can lock
	// the right end of the index, and with it every acquire of a new key.
	st, err := s.readHolds(ctx, hs, run)
	if err == nil && !st.marked {
		err = cmp.Or(st.lost, leases.Err())
	}
	if err != nil || st.marked {
		return st, named(what, orEnded(leases, poolConflict(err)))
	}
	var locked bool
	if st.in, err = inDatabase(ctx, tx, st.database); err == nil {
		locked, err = s.lock(ctx, tx, st.in, hs)
	}
	switch n := conn.Number(err); {
	case conn.SchemaErrors[n], n == conn.ErNoDatabase, n == conn.ErTableDenied: // the plain read found the table
		err = fmt.Errorf("%w: the transaction does not reach the lock tables; it must be on the Store's server, and its user may read them: %w", driver.ErrInvalid, err)
	case n == erXAState:
		err = fmt.Errorf("%w: %w", errXA, err)
	case err == nil && !locked:
		err = s.whyNot(ctx, hs)
	}
	if err == nil {
		err = leases.Err() // one may have ended meanwhile
	}
	return st, named(what, orEnded(leases, poolConflict(err)))
}

// guardOf names a guard in an error.
func guardOf(hs storekit.Holds) string {
	if more := len(hs.All) - 1; more > 0 {
		return fmt.Sprintf("guard %q and %d more", hs.First.Key, more)
	}
	return fmt.Sprintf("guard %q", hs.First.Key)
}

// named puts the operation before an error; nil stays nil.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// orEnded prefers what a lease says of its end to what its row looks like then, and
// to what came of a statement or a wait that its end cut off.
func orEnded(leases storekit.Leases, err error) error {
	for _, said := range []error{driver.ErrInvalid, driver.ErrNotSupported, driver.ErrSchema, driver.ErrAlreadyRan} {
		if errors.Is(err, said) {
			return err
		}
	}
	if err == nil {
		return nil
	}
	return cmp.Or(leases.Err(), err)
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
func wrap(what, key string, err error) error { return named(fmt.Sprintf("%s %q", what, key), err) }

// guarding checks what a guard is given, before anything is sent.
func (s *Store) guarding(ctx context.Context, leases storekit.Leases) (storekit.Holds, error) {
	if err := leases.Check(); err != nil {
		return storekit.Holds{}, err
	}
	if most := s.strategy.Limits().Batch; len(leases) > most {
		return storekit.Holds{}, fmt.Errorf("guard: %w: %d leases: at most %d are guarded together", driver.ErrInvalid, len(leases), most)
	}
	if err := s.ready(ctx); err != nil {
		return storekit.Holds{}, orEnded(leases, poolConflict(err))
	}
	return leases.Begin(s)
}

// lock is the guard: it locks the entries of the holds in the guard indexes, until the
// transaction ends. in is what stands before the names of tables in its session. false: one of the
// entries is not there any more.
func (s *Store) lock(ctx context.Context, tx Tx, in string, hs storekit.Holds) (locked bool, err error) {
	locked, _, err = s.lockAndAsk(ctx, tx, in, hs, "")
	return locked, err
}

// lockAndAsk is lock, which also asks for the value of an expression; empty: for none.
func (s *Store) lockAndAsk(ctx context.Context, tx Tx, in string, hs storekit.Holds, ask string) (locked bool, said string, err error) {
	var reads []conn.Statement
	for _, h := range hs.All {
		l, _ := s.strategy.Guards(h)
		reads = append(reads, l.GuardReads(h, len(hs.All) == 1, func(table string) string { return in + table })...)
	}
	want := len(reads)
	if ask != "" {
		reads = append(reads, func(t *conn.Text) { t.Add("SELECT ", ask) })
	}
	s.db.Statements.Add(1)
	rows, err := tx.QueryContext(ctx, allOf(reads))
	if err != nil {
		return false, "", sessionError(txError(err))
	}
	defer rows.Close()
	found := 0
	for rows.Next() {
		if found++; ask != "" { // it is the last
			if err := rows.Scan(&said); err != nil {
				return false, "", err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return false, "", txError(err)
	}
	if ask != "" {
		found--
	}
	return found == want, said, txError(rows.Close())
}

// allOf is one statement for several reads. Each names one entry of a unique index; a
// condition with OR or IN would be a range, and lock gaps.
func allOf(reads []conn.Statement) string {
	if len(reads) == 1 {
		return reads[0].Literal()
	}
	t := conn.NewText(300 * len(reads))
	for i, read := range reads {
		if i > 0 {
			t.Add(" UNION ALL ")
		}
		t.Add("(").Part(read).Add(")")
	}
	return t.Add(" LIMIT ").Int(int64(len(reads))).String() // or sql_select_limit would count them
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
