package mysqllock

import (
	"context"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/getlock"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// AcquireWait implements driver.Queuer where Limits.Queue says so. Under
// SelectForUpdate the waiter is in the server's own queue for the row lock, with a session of its own, and has it within a
// millisecond of its release or of the holder's death. It looks up from the queue
// every second, and then is at its end again.
//
// Order: MariaDB serves in the order of arrival; MySQL may prefer a waiter that
// itself keeps others waiting (its CATS scheduling:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-transaction-scheduling.html).
func (s *Store) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Result{}, err
	}
	if keep, ok := s.strategy.(*session.ForUpdate); ok {
		return keep.AcquireWait(ctx, r, begin), nil
	}
	return driver.Result{}, &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrNotSupported}
}

// WaitTurn implements driver.Turner where Limits.Turns says so: see Options.WakeupConns.
func (s *Store) WaitTurn(ctx context.Context, key string) (waited bool, end func(), err error) {
	if s.locks == nil {
		return false, nil, getlock.ErrNoTurn(driver.ErrNotSupported)
	}
	if err := s.ready(ctx); err != nil {
		return false, nil, err
	}
	return s.locks.Wait(ctx, key)
}
