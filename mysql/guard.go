package mysqllock

import (
	"context"
	"database/sql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/guards"
)

// Tx is a transaction of the caller's: a *sql.Tx, what embeds one (*sqlx.Tx,
// bun.Tx), or another handle on one connection with an open transaction, such as a
// *sql.Conn after START TRANSACTION. With gorm it is tx.Statement.ConnPool.
//
// A pool (*sql.DB, *sqlx.DB) has these methods too, and is refused: each of its
// statements may go to another connection, so nothing would be guarded or locked.
// An XA transaction can be locked by LockTx, but not guarded: see Guard.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

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
	return s.guarded.Guard(ctx, tx, guards.LeasesOf(lease, more))
}
