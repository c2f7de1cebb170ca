package rowlock

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// Handoff: a lease is released while a caller of the same client waits for the key, and
// its grant passes to that caller in memory, without a statement. (Lock cohorting: Dice,
// Marathe, Shavit, PPoPP 2012.) The database granted a range of tokens; each local holder
// gets the next one and a lease of its own. The old lease sends nothing any more.
//
// Whether another program gets the key instead is decided in internal/key/fairness.go, whether
// a grant may be handed off at all in grant.mayHandOffLocked, and to whom in nextFor.

// defaultHandoff is how long a client keeps a key that another program wants, from the
// moment at which it got the key: then the key goes back to the database.
const defaultHandoff = 50 * time.Millisecond

// handoff passes the grant of l, which is being released, to the head of the local queue,
// if it asked for such a one. A slot passes to the first caller that may have it. Readers do
// not wait for each other: see joinGrant.
func (c *Client) handoff(ctx context.Context, l *Lease) bool {
	if c.opts.Handoff < 0 || l.g.Hold.Mode == driver.Shared {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[idOf(l.g)]
	if c.closed || k == nil || len(k.waiters) == 0 {
		return false
	}
	now := c.now()
	i := k.nextFor(l.g, now)
	if i < 0 {
		return false
	}
	if k.Step(key.Event{Kind: key.Releasing}, now, k.env()).Do != key.HandOff {
		return false
	}
	next := &Lease{c: c, g: l.g, began: now, local: true}
	handedOff := l.g.HandOff((*user)(l), k.waiters[i].set.Terms, func(token int64) grant.User {
		next.token = token
		return (*user)(next)
	})
	if !handedOff {
		return false
	}
	c.logs.Step(ctx, "handed off", &l.g.Hold, l.token)
	k.popAt(i, next)
	k.dropTicket() // it was that caller's
	k.act(k.HandedOff(now, k.env()))
	return true
}
