package session

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// AcquireWait waits for the row lock, which is (1) and (2), and then goes on as any acquire
// does.
func (f *ForUpdate) AcquireWait(ctx context.Context, r driver.Request, begin func()) driver.Result {
	if r.Mode != driver.Exclusive {
		return f.waitForPhase(ctx, r, begin)
	}
	defer f.hinter.join(r)()
	for {
		n, err := f.session(ctx, r.TTL)
		if err != nil {
			return driver.Result{Err: conn.NotSent(f.lease.What("wait"), err)}
		}
		start := time.Now()
		found, err := f.waitForRow(ctx, n, f.waitRow(r.Key))
		switch {
		case err != nil && n.Broken: // it died while it waited, or the caller has gone
			n.Put()
			if ctx.Err() != nil || !conn.Pause(ctx, 100*time.Millisecond) {
				return driver.Result{Err: conn.NotSent(f.lease.What("wait"), errors.Join(ctx.Err(), err))}
			}
			continue
		case err != nil:
			n.Put()
			return driver.Result{Err: conn.NotSent(f.lease.What("wait"), err)}
		}
		// The lock is there. From here on a caller who gives up does not cut anything
		// short: the outcome would be unknown.
		steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.TTL)
		begin()
		a := &acquisition{f: f, r: r, session: n, started: clock.Now(), inQueue: row.HadToWait(n, start)}
		a.locked = a.readToken(found)
		n.Locks = a.locked
		result, err := a.run(steps)
		f.refused(steps, r, result, a.wanted)
		cancel()
		if err == nil && result.Status == driver.Granted {
			return result
		}
		lost := n.Broken
		n.Put()
		if err != nil {
			return driver.Result{Err: f.noRoom(a.fail(lost, err))}
		}
		return result
	}
}

// waitForRow waits in the server's queue until the session has the row lock, in slices
// of queueWait. A key without a row has nobody to wait for.
func (f *ForUpdate) waitForRow(ctx context.Context, n *conn.Conn, statement string) ([]conn.Int, error) {
	n.Queued = queueWait
	defer func() { n.Queued = 0 }()
	for {
		found, err := conn.Query(ctx, n, 0, statement, conn.ScanOne[conn.Int])
		if !errors.Is(err, conn.ErrBlocked) {
			return found, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}
