package session

import (
	"cmp"
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
		a := &Attempt{f: f, r: r, session: n}
		start := time.Now()
		found, err := f.waitForRow(ctx, n, f.WaitStatement(r.Key))
		if err != nil {
			if err = f.endWait(ctx, a, err); err == nil {
				continue
			}
			return driver.Result{Err: err}
		}
		// The lock is there. From here on a caller who gives up does not cut anything
		// short: the outcome would be unknown.
		steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.TTL)
		begin()
		a.started, a.inQueue = clock.Now(), row.HadToWait(n, start)
		a.locked = a.readToken(found)
		n.Locks = a.locked
		result, err := a.Run(steps)
		f.refused(steps, r, result, a.wanted)
		cancel()
		if err == nil && result.Status == driver.Granted {
			return result
		}
		lost := n.Broken
		n.Put()
		if err = cmp.Or(err, result.Err); err != nil {
			return driver.Result{Err: f.noRoom(a.Fail(lost, err))}
		}
		return result
	}
}

// endWait gives back the session of a wait that failed. One that has died is not the wait's fault: nil, it goes on with another.
// But where it may have locked the row, and cannot be ended, that is for an undo. A wait that its caller gave up needs none: it is being
// ended, and if that fails its place in the server's queue ends with its slice. (If the row comes before that, and the network swallows
// the answer and the end of the connection, the session has it until its wait_timeout.)
func (f *ForUpdate) endWait(ctx context.Context, a *Attempt, err error) error {
	died := a.session.Broken
	if !died {
		// It has looked at the tables: while its transaction is open nobody can alter them.
		short, cancel := context.WithTimeout(f.life, conn.KillWait)
		_ = rollBack(short, a.session)
		cancel()
	}
	a.session.Put()
	if ctx.Err() != nil && !errors.Is(err, conn.ErrSilent) {
		return f.noRoom(a.Fail(false, errors.Join(ctx.Err(), err)))
	}
	a.queuedTo = time.Now().Add(queueWait + time.Second) // the server may end it a second late
	lost := died && !f.sessionOver(f.life, a, err)
	if died && !lost && ctx.Err() == nil && conn.Pause(ctx, 100*time.Millisecond) {
		return nil
	}
	return f.noRoom(a.Fail(lost, errors.Join(ctx.Err(), err)))
}

// waitForRow waits in the server's queue until the session has the row lock, in slices
// of queueWait. A key without a row has nobody to wait for.
func (f *ForUpdate) waitForRow(ctx context.Context, n *conn.Conn, statement string) ([]conn.Int, error) {
	n.Queued = queueWait
	defer func() { n.Queued = 0 }()
	for {
		found, err := conn.Query(ctx, n, 0, statement, conn.ScanOne[conn.Int])
		if err == nil && n.Broken { // it was found silent in the moment of the answer
			err = conn.ErrSilent
		}
		if !errors.Is(err, conn.ErrBlocked) {
			return found, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}
