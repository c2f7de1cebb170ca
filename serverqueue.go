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
func (k *keyEntry) enqueue() {
	c := k.c
	caller, s := k.waiters[0].ctx, k.waiters[0].set
	req := c.newRequest(k.name, s, notPinned, true)
	ctx, cancel := context.WithCancel(c.open)
	k.leave, k.queued = cancel, true
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
func (k *keyEntry) noPlace() {
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

// waitTurn waits for the client's turn in the server's queue (driver.Turner), unless it does
// so already. A turn that it has ends. Called under Client.mu.
func (k *keyEntry) waitTurn() {
	k.endTurn()
	if k.leave != nil {
		return
	}
	c := k.c
	ctx, cancel := context.WithCancel(c.open)
	k.leave, k.queued = cancel, true
	c.store.Work.Fork(func() {
		waited, end, err := c.turner.WaitTurn(ctx, k.name)
		c.mu.Lock()
		defer c.mu.Unlock()
		left := ctx.Err() != nil
		cancel()
		if left {
			if err == nil {
				end()
			}
			return
		}
		k.leave = nil
		switch {
		case err == nil:
			k.turn = end
			k.step(key.Event{Kind: key.Turn, Waited: waited})
		case len(k.waiters) > 0:
			k.step(key.Event{Kind: key.NoPlace})
		}
	})
}

// leaveQueue leaves the server's queue.
func (k *keyEntry) leaveQueue() {
	if k.leave != nil {
		k.leave()
		k.leave = nil
	}
}

// endTurn gives the turn to the next client.
func (k *keyEntry) endTurn() {
	if k.turn != nil {
		k.turn()
		k.turn = nil
	}
}
