package mysqllock

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
)

// queue waits for the row lock, which is (1) and (2), and then goes on as any acquire
// does.
func (f *forUpdate) queue(ctx context.Context, r driver.Request, begin func()) driver.Result {
	defer f.hinter.join(r)()
	for {
		n, err := f.session(ctx, r.TTL)
		if err != nil {
			return driver.Result{Err: notSent(f.lease.what("wait"), err)}
		}
		start := time.Now()
		found, err := f.stand(ctx, n, r.Key)
		switch {
		case err != nil && n.broken: // it died while it waited, or the caller has gone
			n.put()
			if ctx.Err() != nil || !pause(ctx, 100*time.Millisecond) {
				return driver.Result{Err: notSent(f.lease.what("wait"), errors.Join(ctx.Err(), err))}
			}
			continue
		case err != nil:
			n.put()
			return driver.Result{Err: notSent(f.lease.what("wait"), err)}
		}
		// The lock is there. From here on a caller who gives up does not cut anything
		// short: the outcome would be unknown.
		steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.TTL)
		begin()
		a := &seizure{f: f, r: r, session: n, started: clock.Now(), line: hadToWait(n, start)}
		a.stood = a.read(found)
		result, err := a.run(steps)
		f.refused(steps, r, result, a.wanted)
		cancel()
		if err == nil && result.Status == driver.Granted {
			return result
		}
		lost := n.broken
		n.put()
		if err != nil {
			return driver.Result{Err: a.fail(lost, err)}
		}
		return result
	}
}

// stand waits in the server's queue until the session has the row lock, in slices
// of the session's innodb_lock_wait_timeout, a second: a waiter whose program died
// leaves no longer-lived ghost. A key without a row has nobody to wait for.
func (f *forUpdate) stand(ctx context.Context, n *conn, key string) ([]count, error) {
	for {
		found, err := query(ctx, n, 0, f.waitRow(key), scanOne[count])
		if !errors.Is(err, errBlocked) {
			return found, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}
