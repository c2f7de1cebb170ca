package mysqllock

import (
	"context"
	"database/sql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/guards"
)

// InTx runs fn in a guarded transaction and commits it: it begins, guards, calls fn
// once, and commits if fn returned nil, the lease is still held and ctx has not
// ended; otherwise it rolls back, also when fn panics or ends its goroutine. It is
// never committed after a newer hold of the key was granted: see Guard.
//
// fn's context ends with ctx, with the lease and with InTx; use it for every
// statement. fn sends its statements by tx, closes every *sql.Rows, and does not
// commit or roll back. After an error that the server calls a deadlock nothing of
// the transaction is left, so fn returns it.
//
// The transaction runs at READ COMMITTED (at REPEATABLE READ where the server's
// binlog_format is STATEMENT), on a connection of its own out of the Store's pool,
// one for each InTx or Once that runs; up to 8 rest for the next, none in a pool
// that is bounded. If the host falls silent the server ends the transaction after
// the lease's TTL or a minute, whichever is longer; so fn must not pause for so
// long between two statements.
//
// fn's error is returned as it is, joined with the *rowlock.LostError if the lease
// was lost meanwhile. After any error but rowlock.ErrUnknownOutcome nothing took
// effect. The others, besides fn's: rowlock.ErrLost or rowlock.ErrReleased, the
// lease is over; ctx's error; rowlock.ErrInvalid, a nil lease or fn, or another
// Store's lease; rowlock.ErrNotSupported, the pool's driver begins XA transactions,
// or prepares every statement on MySQL; rowlock.ErrConflict, also where fn returned
// such an error of the server: another transaction was in the way (a deadlock, a
// lock wait), or the server is not the primary any more (read-only, a cluster's
// member that was shut out); call InTx again, it uses another connection. It does
// not do so by itself, because fn may do things that no database takes back.
// rowlock.ErrUnknownOutcome: the answer to the commit was lost, or fn ended the
// transaction and went on: it took effect, or not. Where that matters use Once,
// which finds out.
//
// With more leases, for example those of a rowlock.Group, it guards all of them by one
// statement, and what is said of the lease holds for each.
//
// InTx may be called concurrently, with one lease too.
func (s *Store) InTx(ctx context.Context, lease *rowlock.Lease, fn func(ctx context.Context, tx *sql.Tx) error, more ...*rowlock.Lease) error {
	return s.guarded.InTx(ctx, guards.LeasesOf(lease, more), fn)
}
