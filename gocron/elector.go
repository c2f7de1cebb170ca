package gocronlock

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/rowlock/rowlock"
)

// Elector is for gocron.WithDistributedElector: the process that holds its key leads, and
// runs all jobs. It is safe for concurrent use; one serves all schedulers of a
// process that are to lead together.
type Elector struct {
	locks rowlock.Locker
	key   string
	opts  []rowlock.Option

	turn  chan struct{} // the right to read and change what follows
	lease *rowlock.Lease
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector makes an Elector; it does no I/O and starts nothing. The key is the
// same in all processes. opts are those of rowlock.Client.TryAcquire.
//
// The leader's lease is renewed until Resign or the Client's Close. When the leader
// dies, the lease ends after its TTL (rowlock.Options, or the option rowlock.TTL), and
// the first scheduler whose job is due then leads. Call Resign after the scheduler's
// Shutdown to hand over at once.
//
// Around a change of leaders a run can be missing. It can also happen twice: the new
// leader's clock may be late, or the old one may still be at it.
func NewElector(l rowlock.Locker, key string, opts ...rowlock.Option) *Elector {
	return &Elector{locks: l, key: key, opts: opts, turn: make(chan struct{}, 1)}
}

// IsLeader implements gocron.Elector: nil if this process leads, or has just become
// the leader. While it leads that takes a look at the clock, otherwise one attempt
// at the key; calls that come meanwhile wait for the answer. An error that matches
// rowlock.ErrHeld: another process leads. Others: nobody may be leading. ctx bounds
// the attempt.
func (e *Elector) IsLeader(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e.lease != nil && e.lease.Err() == nil {
		return nil
	}
	lease, err := e.locks.TryAcquire(ctx, e.key, e.opts...)
	if err != nil {
		return err
	}
	e.lease = lease
	return nil
}

// Resign ends the leadership of this process, so that another can have it at once.
// The next IsLeader tries to lead again: stop the scheduler first. Without leadership
// it does nothing. The error is that of Lease.Release; the leadership is over in any
// case.
func (e *Elector) Resign(ctx context.Context) error {
	e.turn <- struct{}{} // an attempt under way ends by its own context
	defer func() { <-e.turn }()
	if e.lease == nil {
		return nil
	}
	lease := e.lease
	e.lease = nil
	return lease.Release(ctx)
}
