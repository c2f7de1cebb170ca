package rowlock

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/key"
)

// enqueue waits for the key in the server's own queue (driver.Queuer), for the first
// caller. It ends with an answer, or when nobody waits here any more. Called under
// Client.mu.
func (k *keyed) enqueue() {
	c := k.c
	caller, s := k.waiters[0].ctx, k.waiters[0].set
	req := c.newRequest(k.name, s, false, true)
	ctx, cancel := context.WithCancel(c.open)
	k.leave = cancel
	c.store.Work.Fork(func() {
		defer cancel()
		a := c.store.AcquireWait(ctx, c.queuer, req)
		if errors.Is(a.Err, driver.ErrNoPlace) {
			k.noPlace()
			return
		}
		lease, err := c.outcome(caller, &req, s, a.Results[0], a.Sent, a.Got)
		k.answered(caller, s, lease, err, a.Got-a.Sent)
	})
}

// noPlace goes on without the server's queue.
func (k *keyed) noPlace() {
	c := k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	k.leave = nil
	if len(k.waiters) == 0 {
		c.forget(k)
		return
	}
	k.step(key.Event{Kind: key.NoPlace})
}
