package mysqllock

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/getlock"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// AcquireWait is called by the Client that rowlock.New makes. It implements driver.Queuer where Limits.Queue says so. Under
// SelectForUpdate the waiter is in the server's own queue for the row lock, with a session of its own, and has it within a
// millisecond of its release or of the holder's death. It looks up from the queue
// every five seconds, and then is at its end again. Readers and slots wait so for an
// exclusive hold, and need the session no longer when they have the key.
//
// Order: MariaDB serves in the order of arrival; MySQL may prefer a waiter that
// itself keeps others waiting (its CATS scheduling:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-transaction-scheduling.html).
func (s *Store) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Result{}, err
	}
	keep, ok := s.strategy.(*session.ForUpdate)
	if !ok {
		return driver.Result{}, &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrNotSupported}
	}
	results, err := s.acquireVerified(ctx, []driver.Request{r}, func(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
		result := keep.AcquireWait(ctx, reqs[0], begin)
		if errors.Is(result.Err, driver.ErrNoPlace) {
			return nil, result.Err
		}
		return []driver.Result{result}, nil
	})
	if err != nil {
		return driver.Result{}, err
	}
	return results[0], nil
}

// WaitTurn is called by the Client that rowlock.New makes. It implements driver.Turner where Limits.Turns says so: see Options.WakeupConns.
func (s *Store) WaitTurn(ctx context.Context, key string) (end func(), err error) {
	if !s.Limits().Turns {
		return nil, getlock.ErrNoTurn(driver.ErrNotSupported)
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.locks.Wait(ctx, key)
}
