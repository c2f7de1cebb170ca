package rowlock

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
)

// enqueue waits for the key in the server's own queue (driver.Queuer), for the
// head of the local one. It ends with an answer, or when nobody waits here any
// more. Where the server's queue has no place, otherwise is done. Called under
// Client.mu, as otherwise is.
func (q *queue) enqueue(otherwise func()) {
	c := q.c
	if c.closed || len(q.waiters) == 0 {
		return
	}
	c.prober.remove(q)
	q.state = queued
	caller, s := q.waiters[0].ctx, q.waiters[0].set
	req := c.newRequest(q.key, s, false)
	ctx, cancel := context.WithCancel(c.open)
	q.leave = cancel
	c.store.Work.Fork(func() {
		defer cancel()
		a := c.store.AcquireWait(ctx, c.queuer, req)
		if errors.Is(a.Err, driver.ErrNoPlace) {
			q.noPlace(otherwise)
			return
		}
		lease, err := c.outcome(caller, &req, s, a.Results[0], a.Sent, a.Got)
		q.answered(caller, s, lease, err, a.Got-a.Sent)
	})
}

// noPlace goes on without the server's queue.
func (q *queue) noPlace(otherwise func()) {
	c := q.c
	c.mu.Lock()
	defer c.mu.Unlock()
	q.state, q.leave = idle, nil
	if len(q.waiters) == 0 {
		q.endIfEmpty()
	} else if !c.closed {
		otherwise()
	}
}
