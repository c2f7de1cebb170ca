package rowlock

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// Handoff: a lease is released while a caller of the same client waits for the key, and
// its grant passes to that caller in memory, without a statement. (Lock cohorting: Dice,
// Marathe, Shavit, PPoPP 2012.) The database granted a range of tokens; each local holder
// gets the next one and a lease of its own. The old lease sends nothing any more.

// defaultHandoff is how long a client keeps a key that another program wants, from the
// moment at which it got the key: then the key goes back to the database.
const defaultHandoff = 50 * time.Millisecond

// handoff passes the grant of l, which is being released, to the head of the local queue,
// if it asked for such a one.
func (c *Client) handoff(ctx context.Context, l *Lease) bool {
	if c.opts.Handoff < 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[l.Key()]
	if c.closed || k == nil || len(k.waiters) == 0 {
		return false
	}
	now := c.now()
	if k.Step(key.Event{Kind: key.Releasing}, now, k.env()).Do != key.HandOff {
		return false
	}
	next := &Lease{c: c, g: l.g, began: now}
	handedOff := l.g.HandOff((*user)(l), k.waiters[0].set.Terms, func(token int64) grant.User {
		next.token = token
		return (*user)(next)
	})
	if !handedOff {
		return false
	}
	if c.debug(ctx) {
		c.log.DebugContext(ctx, "handed off", "key", l.Key(), "token", l.token, "hold", l.g.Hold.ID)
	}
	k.pop(next, nil)
	k.do(k.HandedOff(now, k.env()))
	return true
}
