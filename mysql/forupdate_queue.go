package mysqllock

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
)

// AcquireWait implements driver.Queuer where Limits.Queue says so. Under
// SelectForUpdate the waiter stands in the server's own queue for the row lock, with a session of its own, and has it within a
// millisecond of its release or of the holder's death. It looks up from the queue
// every second, and then stands at its end again.
//
// Order: MariaDB serves in the order of arrival; MySQL may prefer a waiter that
// itself keeps others waiting (its CATS scheduling:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-transaction-scheduling.html).
func (s *Store) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Result{}, err
	}
	if keep, ok := s.keep.(*forUpdate); ok {
		return keep.queue(ctx, r, begin), nil
	}
	return driver.Result{}, &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrNotSupported}
}

// queue waits for the row lock, which is (1) and (2), and then goes on as any acquire
// does.
func (f *forUpdate) queue(ctx context.Context, r driver.Request, begin func()) driver.Result {
	defer f.hinter.join(r)()
	for {
		n, err := f.sessions.next(ctx, secondsOf(r.TTL))
		if err != nil {
			return driver.Result{Err: notSent(f.lease.what("wait"), err)}
		}
		start := time.Now()
		found, err := f.stand(ctx, n, r.Key)
		switch {
		case err != nil && n.c.broken: // it died while it waited, or the caller has gone
			f.sessions.drop(n)
			if ctx.Err() != nil || !pause(ctx, 100*time.Millisecond) {
				return driver.Result{Err: notSent(f.lease.what("wait"), errors.Join(ctx.Err(), err))}
			}
			continue
		case err != nil:
			f.sessions.put(n)
			return driver.Result{Err: notSent(f.lease.what("wait"), err)}
		}
		// The lock is there. From here on a caller who gives up does not cut anything
		// short: the outcome would be unknown.
		steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.TTL)
		begin()
		a := &seizure{f: f, r: r, n: n, started: clock.Now(), line: hadToWait(n.c, start)}
		a.stood = a.read(found)
		result, err := a.run(steps)
		f.refused(steps, r, result, a.wanted)
		cancel()
		if err == nil && result.Status == driver.Granted {
			return result
		}
		lost := n.c.broken
		f.sessions.put(n)
		if err != nil {
			return driver.Result{Err: a.fail(lost, err)}
		}
		return result
	}
}

// stand waits in the server's queue until the session has the row lock, in slices
// of the session's innodb_lock_wait_timeout, a second: a waiter whose program died
// leaves no longer-lived ghost. A key without a row has nobody to wait for.
func (f *forUpdate) stand(ctx context.Context, n *session, key string) ([]count, error) {
	for {
		found, err := ask(ctx, n, f.waitRow(key), scanOne[count])
		if !errors.Is(err, errBlocked) {
			return found, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}
