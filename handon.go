package rowlock

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Handing on: a lease is released while a caller of the same client waits for the
// key, and the hold passes to it in memory, without a statement. (Lock cohorting:
// Dice, Marathe, Shavit, PPoPP 2012.) The database granted a range of tokens; each
// local holder gets the next one and a lease of its own. The old lease sends
// nothing any more.

// defaultHandOn is how long after the database's grant a hold may still be handed
// on: then the key goes back to the database, where other programs wait.
const defaultHandOn = 50 * time.Millisecond

// mayHandOn tells whether the hold of l may pass to another local holder. Called
// under l.mu as the lease ends: no renewal can start any more, and none is on its
// way whose late loss would hit the next holder.
func (l *Lease) mayHandOn(now time.Duration) bool {
	trust := l.set.ttl - l.set.margin
	return l.c.opts.HandOn > 0 &&
		l.set.minHold == 0 && // its end is written by the release
		!l.guarded && // its transaction may be open: the next grant must wait for it in the database
		l.renewals == 0 &&
		now-l.granted <= l.c.opts.HandOn &&
		l.deadline-now >= trust/2 &&
		l.hold.Token+1-l.first < driver.TokenRange
}

// handOn passes the ended lease's hold to the head of the local queue, if it asked
// for such a one.
func (c *Client) handOn(l *Lease, now time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[l.hold.Key]
	if c.closed || q == nil || len(q.waiters) == 0 || q.state != resting {
		return false
	}
	s := q.waiters[0].set
	if s.ttl != l.set.ttl || s.margin != l.set.margin || s.minHold != 0 || s.guarded != l.set.guarded || s.noRenew {
		return false
	}
	next := &Lease{
		c: c, hold: l.hold, set: s,
		began: now, renewedAt: l.renewedAt, deadline: l.deadline,
		granted: l.granted, first: l.first,
	}
	next.hold.Token++
	next.hold.MaxHold = 0 // the database would count it from its own grant
	if next.set.maxHold > 0 {
		next.deadline = min(next.deadline, next.maxHoldEnd())
	}
	next.task.lease = next
	c.keeper.add(next)
	c.keeper.remove(l)
	k := c.local[l.hold.Key]
	k.holder = next
	c.local[l.hold.Key] = k
	q.pop(next, nil)
	if len(q.waiters) > 0 {
		q.rest(localProbe)
	}
	q.endIfEmpty()
	return true
}
