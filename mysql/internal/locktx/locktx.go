// Package locktx locks keys in a transaction of the caller's, until the transaction ends: it is what LockTx
// of mysqllock does. There is no lease, so it has nothing of guards. Only mysqllock imports it.
package locktx

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/unit"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Locker locks keys in the transactions of those who use one Store. It is safe for concurrent use.
type Locker struct {
	db    *conn.DB
	table string                      // rowlock_tx, as the Store names it
	ready func(context.Context) error // the check of the Store's first use
	known atomic.Pointer[home]        // nil: not read yet
}

// New is for the rows of a table; ready is called before each lock.
func New(d *conn.DB, table string, ready func(context.Context) error) *Locker {
	return &Locker{db: d, table: table, ready: ready}
}

// Lock is LockTx.
func (l *Locker) Lock(ctx context.Context, tx callertx.Tx, keys []string) error {
	return l.lock(ctx, ctx, tx, keys, func(l *txLock, ctx context.Context, keys []string) ([]string, error) {
		return l.wait(ctx, ctx, keys)
	})
}

// NoWait is LockTxNoWait.
func (l *Locker) NoWait(ctx context.Context, tx callertx.Tx, keys []string) error {
	return l.lock(ctx, ctx, tx, keys, (*txLock).noWait)
}

// Wait is LockTxWait.
func (l *Locker) Wait(ctx context.Context, tx callertx.Tx, d time.Duration, keys []string) error {
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
	return l.lock(ctx, before, tx, keys, func(l *txLock, ctx context.Context, keys []string) ([]string, error) {
		return l.wait(ctx, limit, keys)
	})
}

// Batch is how many keys one statement locks at most. The time that a server
// needs for a UNION grows faster than its length.
const Batch = 100

// txLock is one call of LockTx.
type txLock struct {
	*Locker
	tx    callertx.Tx
	home  home
	there string // the table, as the transaction's session names it
}

// lock locks the keys in the order of their bytes; lock sends the statement for
// some of them and returns those that the transaction has. What comes before on the Store's
// connections ends with before, which is ctx or ends earlier.
func (l *Locker) lock(ctx, before context.Context, tx callertx.Tx, keys []string, lock func(*txLock, context.Context, []string) ([]string, error)) error {
	const what = "lock keys in a transaction"
	for _, k := range keys {
		if len(k) < 1 || len(k) > driver.MaxKey {
			return fmt.Errorf("mysql: %s: %w: key %.60q has %d bytes: use 1 to %d", what, driver.ErrInvalid, k, len(k), driver.MaxKey)
		}
	}
	if err := callertx.Check(ctx, tx); err != nil {
		return fmt.Errorf("mysql: %s: %w", what, err)
	}
	if err := l.ready(before); err != nil {
		return callertx.PoolConflict(waitOver(ctx, before, err))
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	t := &txLock{Locker: l, tx: tx}
	for batch := range slices.Chunk(keys, Batch) {
		if err := t.batch(ctx, before, batch, lock); err != nil {
			return fmt.Errorf("mysql: %s: %w", what, callertx.PoolConflict(err))
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
		if l.there == "" {
			in, err := callertx.TablePrefix(ctx, l.tx, l.home.database)
			if err != nil {
				return err
			}
			l.there = in + l.table
		}
		if locked, err := lock(l, ctx, keys); err != nil || len(locked) == len(keys) {
			return err
		}
	}
	return fmt.Errorf("%w: the transaction does not see the rows of table %s that were made for it: is it on another server?", driver.ErrInvalid, l.there)
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
		t.Add("(SELECT name FROM ", l.there, " FORCE INDEX (PRIMARY) WHERE name=").Key(k)
		if len(keys) == 1 { // see session.go of callertx
			t.Add(" AND NOT EXISTS(SELECT 1 FROM ", l.there, " WHERE FALSE)")
		}
		t.Add(" FOR UPDATE", how, ")")
	}
	return t.Add(" LIMIT 18446744073709551615").String() // or sql_select_limit would count them
}

// rows sends a statement in the caller's transaction.
func (l *txLock) rows(ctx context.Context, text string) (names []string, err error) {
	l.db.Statements.Add(1)
	return conn.Collect(ctx, l.tx, text, conn.ScanKey)
}

// lockError is callertx.Error, in more words for what undid more than the statement.
func lockError(err error) error {
	switch conn.Number(err) {
	case conn.ErDeadlock, conn.ErSnapshot:
		return fmt.Errorf("the server has undone the whole transaction: roll back and begin again: %w", callertx.Error(err))
	}
	return callertx.SessionError(callertx.Error(err))
}
