package mysqllock

import (
	"context"
	"database/sql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/guards"
)

// Once is InTx for work that must take effect exactly once: in the same transaction
// it marks the run (see MarkRun). If the run has its mark already fn is not called,
// and the error matches rowlock.ErrAlreadyRan: the effects are there. So any
// number of programs may try a run, again and again, until one of these two is the answer.
//
// What InTx says of fn, its context, the connection and errors holds here too.
// A commit whose answer was lost is settled by asking for the mark, in a way that
// waits until the server has decided: if it is there Once returns nil, otherwise
// the error matches rowlock.ErrConflict, and nothing took effect. While ctx and the
// lease last the question is repeated, at most for the lease's TTL or a minute, and
// for two seconds after their end; only then the error matches
// rowlock.ErrUnknownOutcome. Calling Once again answers it.
// rowlock.ErrInvalid names a bad run ID too, rowlock.ErrSchema a missing table.
//
// Two calls for one run with one lease, from two goroutines, run one after the other.
//
// With more leases all are guarded; the run is one of the first lease's key.
//
// Only what fn writes by tx happens exactly once. Statements that commit by
// themselves (DDL) do not belong in fn.
func (s *Store) Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(ctx context.Context, tx *sql.Tx) error, more ...*rowlock.Lease) error {
	return s.guarded.Once(ctx, guards.LeasesOf(lease, more), run, fn)
}
