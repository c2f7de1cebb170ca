package rowlock

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/key"
)

// enqueue waits for the key in the server's own queue (driver.Queuer), for the first
// caller. It ends with an answer, or when nobody waits here any more. With Fair it begins when
// the ticket has a place. Called under Client.mu.
func (k *keyEntry) enqueue() {
	if !k.hasPlace() {
		return // see placed
	}
	c := k.c
	first := k.waiters[0]
	caller, s := first.ctx, first.set
	if first.watched != nil {
		first.watched.attempts++
	}
	req := c.newRequest(k.id.name, s, notPinned, true)
	k.phases(&req, first)
	c.showTicket(&req, k)
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
		k.answered(caller, s, lease, err, gateOf(&req, a.Results[0]), a.Got-a.Sent)
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
// so already. A turn that it has ends. With Fair it begins when its ticket has a place, of which
// place is what was said just now, if anything. Called under Client.mu.
func (k *keyEntry) waitTurn(place driver.Place) {
	k.endTurn()
	if k.leave != nil || !k.hasPlace() {
		return
	}
	ticket := driver.Ticket{Key: k.id.name}
	if k.fair() {
		ticket = k.ticket.Ticket
	}
	c := k.c
	ctx, cancel := context.WithCancel(c.open)
	k.leave, k.queued = cancel, true
	c.store.Work.Fork(func() {
		turn, err := c.turner.WaitTurn(ctx, ticket, place)
		c.mu.Lock()
		defer c.mu.Unlock()
		left := ctx.Err() != nil
		cancel()
		if left {
			if err == nil {
				turn.End()
			}
			return
		}
		k.leave = nil
		switch {
		case err == nil:
			k.turn = &turn
			if turn.First && k.ticket != nil && k.ticket.Seq == ticket.Seq {
				k.ticket.ahead = 0
			}
			k.step(key.Event{Kind: key.Turn, Waited: turn.Waited})
		case len(k.waiters) > 0:
			k.step(key.Event{Kind: key.NoPlace})
		}
	})
}

// placed notes that the entry's ticket has a place.
func (k *keyEntry) placed(place driver.Place) {
	switch {
	case k.Mode != key.Queued || k.leave != nil:
	case k.c.turner != nil:
		k.waitTurn(place)
	default:
		k.enqueue()
	}
	k.step(key.Event{Kind: key.Placed, Ahead: place.Ahead})
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
		k.afterRemoval(k.turn.End)
		k.turn = nil
	}
}
