package mysqllock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/unit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// LockTx locks keys for as long as the caller's transaction lives: it waits until
// no other transaction has any of them, and commit, rollback or the end of the
// connection frees them all. There is no lease, no TTL and no token, so nothing can
// be lost before the commit; a client whose host falls silent keeps the keys until
// the server ends its session (wait_timeout, 8 hours by default). These keys have
// nothing to do with those of Acquire.
//
// A key is 1 to 255 bytes, compared byte for byte; one may be named twice, none at
// all is no error. Whoever needs several names them in one call: they are locked in
// one order, whatever order they are given in, so such calls never deadlock with
// each other. A call for more keys later in the transaction can.
//
// Call it before the transaction reads: under REPEATABLE READ a plain SELECT shows
// the rows as they were at the first one, which must therefore come after the lock.
// The transaction must be on the Store's server; its default database may be
// another. It is used by one goroutine at a time. LockTx needs one of the Store's
// own connections for a moment too. It changes no setting.
//
// In an XA transaction the keys are locked until XA PREPARE, and after it until XA COMMIT
// as docs/transactions.md says: not over a crash, and on MySQL only where the branch has
// written something on this server.
//
// Errors:
//
//   - rowlock.ErrInvalid: a key that cannot be used, or tx is no open transaction.
//   - rowlock.ErrSchema: the table is missing; run Migrate.
//   - rowlock.ErrConflict: the server ended the statement because of another
//     transaction: a deadlock (1213), a wait longer than the session's
//     innodb_lock_wait_timeout (1205), a row newer than the transaction's snapshot
//     (1020, MariaDB with innodb_snapshot_isolation). The server's error is in the
//     chain, for errors.As. Roll back and begin again; after 1213 and 1020 the server has
//     undone all of it already, and what is sent on it now takes effect by itself.
//     Or the Store, on a pool of yours that is used up, found no connection for a
//     second: see New.
//   - rowlock.ErrHeld together with the context's error: ctx ended. The transaction
//     is as it was, but may have some of the keys until it ends.
//
// A wait is ended by KILL QUERY from a connection of the Store, so that the
// transaction and its connection live on. Where that is not possible (the
// transaction's user is not the Store's, or a proxy leads elsewhere) LockTx asks
// again every 5 to 40 ms until ctx ends, instead of waiting in the server's queue,
// and may be passed by others. Only where the server is silent for two seconds more
// is the connection closed, and the transaction undone with it.
//
// What is said here rests on one writable server: on Galera and on group
// replication with several writers, a lock of one node does not show on another. After a
// failover of Galera LockTx waits until the node that is the writer now has applied what was committed
// on the one before (wsrep_sync_wait, on a connection of the Store). A transaction that goes on on
// the one before is not waited for: cut its connections when you switch.
func (s *Store) LockTx(ctx context.Context, tx Tx, keys ...string) error {
	return s.lockTx(ctx, ctx, tx, keys, func(l *txLock, ctx context.Context, keys []string) ([]string, error) {
		return l.wait(ctx, ctx, keys)
	})
}

// LockTxNoWait is LockTx that does not wait: a key that another transaction has is
// an error that matches rowlock.ErrHeld, a *rowlock.HeldError that names the first
// such key. The transaction goes on; it may have others of the keys until it ends.
// (On a MariaDB with innodb_rollback_on_timeout the server undoes the transaction;
// the error then matches rowlock.ErrConflict too.) What LockTx waits for besides, a server that
// is behind or answers late, is waited for all the same, until ctx ends.
func (s *Store) LockTxNoWait(ctx context.Context, tx Tx, keys ...string) error {
	return s.lockTx(ctx, ctx, tx, keys, (*txLock).noWait)
}

// LockTxWait is LockTx that waits for at most d, which is at least 1 ms: then the error
// matches rowlock.ErrHeld. The transaction goes on; it may have some of the keys
// until it ends. A key that is free it gets however short d is: what the Store does before on a
// connection of its own may take two seconds longer.
func (s *Store) LockTxWait(ctx context.Context, tx Tx, d time.Duration, keys ...string) error {
	if d <= 0 {
		return fmt.Errorf("mysql: lock keys in a transaction: %w: wait of %v: use more than 0, or LockTxNoWait", driver.ErrInvalid, d)
	}
	if err := unit.Check("wait of", d, unit.Least); err != nil {
		return fmt.Errorf("mysql: lock keys in a transaction: %w: %w", driver.ErrInvalid, err)
	}
	limit, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	before, cut := context.WithTimeout(ctx, d+2*conn.KillWait)
	defer cut()
	return s.lockTx(ctx, before, tx, keys, func(l *txLock, ctx context.Context, keys []string) ([]string, error) {
		return l.wait(ctx, limit, keys)
	})
}

// txLockBatch is how many keys one statement locks at most. The time that a server
// needs for a UNION grows faster than its length.
const txLockBatch = 100

// txLock is one call of LockTx.
type txLock struct {
	s     *Store
	tx    Tx
	home  home
	table string // rowlock_tx, as the transaction's session names it
}

// lockTx locks the keys in the order of their bytes; lock sends the statement for
// some of them and returns those that the transaction has. What comes before on the Store's
// connections ends with before, which is ctx or ends earlier.
func (s *Store) lockTx(ctx, before context.Context, tx Tx, keys []string, lock func(*txLock, context.Context, []string) ([]string, error)) error {
	const what = "lock keys in a transaction"
	for _, k := range keys {
		if len(k) < 1 || len(k) > driver.MaxKey {
			return fmt.Errorf("mysql: %s: %w: key %.60q has %d bytes: use 1 to %d", what, driver.ErrInvalid, k, len(k), driver.MaxKey)
		}
	}
	if err := inTransaction(ctx, tx); err != nil {
		return fmt.Errorf("mysql: %s: %w", what, err)
	}
	if err := s.ready(before); err != nil {
		return poolConflict(waitOver(ctx, before, err))
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	l := &txLock{s: s, tx: tx}
	for batch := range slices.Chunk(keys, txLockBatch) {
		if err := l.batch(ctx, before, batch, lock); err != nil {
			return fmt.Errorf("mysql: %s: %w", what, poolConflict(err))
		}
	}
	return nil
}

// batch makes the rows and locks them. Rows are never removed; where some are gone
// all the same, somebody removed them by hand between the two steps.
func (l *txLock) batch(ctx, before context.Context, keys []string, lock func(*txLock, context.Context, []string) ([]string, error)) error {
	for range 3 {
		if err := l.makeRows(before, keys); err != nil {
			return waitOver(ctx, before, err)
		}
		if l.table == "" {
			in, err := inDatabase(ctx, l.tx, l.home.database)
			if err != nil {
				return err
			}
			l.table = in + l.s.names.tx
		}
		if locked, err := lock(l, ctx, keys); err != nil || len(locked) == len(keys) {
			return err
		}
	}
	return fmt.Errorf("%w: the transaction does not see the rows of table %s that were made for it: is it on another server?", driver.ErrInvalid, l.table)
}

// noWait fails at the first key that is not free. Where there are several, it goes
// through them once more to name that one. (SKIP LOCKED would tell it at once, but
// under REPEATABLE READ it locks the gap behind a row that it skips, in which others
// want to make rows.)
func (l *txLock) noWait(ctx context.Context, keys []string) ([]string, error) {
	locked, err := l.rows(ctx, l.statement(keys, " NOWAIT"))
	if n := conn.Number(err); n != conn.ErNoWait && n != conn.ErLockWait { // MySQL, MariaDB
		return locked, lockError(err)
	}
	if l.home.undoes {
		return nil, fmt.Errorf("%w: the server has undone the whole transaction, as innodb_rollback_on_timeout says: %w: %w", rowlock.ErrHeld, driver.ErrConflict, err)
	}
	if len(keys) == 1 {
		return nil, &rowlock.HeldError{Key: keys[0]}
	}
	for i := range keys {
		if n, err := l.noWait(ctx, keys[i:i+1]); err != nil || len(n) == 0 {
			return nil, err
		}
	}
	return keys, nil // it has become free
}

// statement locks the rows of the keys in their order, and nothing beside them.
//
// One SELECT a key: a primary key that equals a constant is looked up, whatever the
// optimizer thinks of the table, and a lookup that finds its row locks no gap. With
// name IN (...) MySQL scans the index where the keys are many of its rows (100 of
// 100 in 9.7), and MariaDB without ORDER BY where they are two of two: a scan locks
// every row and gap, so that no other transaction could have another key.
func (l *txLock) statement(keys []string, how string) string {
	t := conn.NewText(200 * len(keys))
	for i, k := range keys {
		if i > 0 {
			t.Add(" UNION ALL ")
		}
		t.Add("(SELECT name FROM ", l.table, " FORCE INDEX (PRIMARY) WHERE name=").Key(k)
		if len(keys) == 1 { // see callersession.go
			t.Add(" AND NOT EXISTS(SELECT 1 FROM ", l.table, " WHERE FALSE)")
		}
		t.Add(" FOR UPDATE", how, ")")
	}
	return t.Add(" LIMIT 18446744073709551615").String() // or sql_select_limit would count them
}

// rows sends a statement in the caller's transaction.
func (l *txLock) rows(ctx context.Context, text string) (names []string, err error) {
	l.s.db.Statements.Add(1)
	return conn.Collect(ctx, l.tx, text, conn.ScanKey)
}

// lockError is txError, in more words for what undid more than the statement.
func lockError(err error) error {
	switch conn.Number(err) {
	case conn.ErDeadlock, conn.ErSnapshot:
		return fmt.Errorf("the server has undone the whole transaction: roll back and begin again: %w", txError(err))
	}
	return sessionError(txError(err))
}
