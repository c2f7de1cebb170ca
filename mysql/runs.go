package mysqllock

import (
	"context"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
)

// MarkRun guards the transaction and marks in it that the run has taken effect:
// the mark is there if and when you commit, together with what else you wrote. A
// run is a key and an ID, of 1 to 255 bytes that are compared byte for byte, for
// example a date. While the mark is kept (see ReapRuns) no other transaction can
// mark the run again, so its effects are committed at most once.
//
// Call it first in the transaction. What Guard says of tx, lease and errors holds
// here too; after any error roll back at once. An error that matches
// rowlock.ErrAlreadyRan: the run has its mark, its effects are there.
// rowlock.ErrInvalid names a bad run ID too, rowlock.ErrSchema a missing table. While another
// transaction of the same lease is marking the same run, MarkRun waits for its end,
// at most for your session's innodb_lock_wait_timeout.
//
// With more leases all are guarded, as Guard does; the run is one of the first lease's key.
//
// If the answer to your commit is lost, ask with MarkRun in a new transaction, or
// use Once, which does that by itself.
func (s *Store) MarkRun(ctx context.Context, tx Tx, lease *rowlock.Lease, run string, more ...*rowlock.Lease) error {
	return s.guarded.MarkRun(ctx, tx, guards.LeasesOf(lease, more), run)
}

// Marks are the marks of the runs of key, the newest first, at most limit (at least 1) of them:
// when each was made, by the server's clock. One whose transaction is still open is not there. It
// reads without locks.
func (s *Store) Marks(ctx context.Context, key string, limit int) ([]driver.Mark, error) {
	return s.guarded.Marks(ctx, key, limit)
}

// ReapRuns removes marks that are older than olderThan, at most 500 a call, and
// tells how many; as many as 500 means that there may be more. A run whose mark was
// removed can take effect again: keep marks for longer than anybody may try a run
// again, and in any case for an hour, otherwise the error matches
// rowlock.ErrInvalid. Nobody calls it for you. It reads the table from its
// beginning, and waits for no transaction: a mark that somebody is looking at is left for the next
// time. After an error some marks may be gone.
func (s *Store) ReapRuns(ctx context.Context, olderThan time.Duration) (int, error) {
	return s.guarded.ReapRuns(ctx, olderThan)
}
