package rowlock

import (
	"math/rand/v2"
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
	q.pop(next, nil)
	if len(q.waiters) > 0 {
		q.rest(localProbe)
	}
	q.endIfEmpty()
	return true
}

// yield leaves the key to others for a moment, where it is their turn. Called under
// Client.mu.
func (q *queue) yield() {
	if d := q.turn(q.c.now()); d > 0 {
		q.rest(d)
		q.spot.attempt, q.offered = true, true
		return
	}
	q.attempt()
}

// turn says how long a queue with local waiters stays away from the key after a
// hold went back to the database, so that other programs, which find out by
// probes, get their turn. Where others are known to want the key, all of them and
// this client have the same chance. Where nothing tells of others it is short, but
// now and then so long that any other must have probed and taken the key, which
// tells of it. A series of holds that is younger than HandOn (or its default) goes on. Called under
// Client.mu.
func (q *queue) turn(now time.Duration) time.Duration {
	series := max(q.c.opts.HandOn, defaultHandOn)
	if now-q.since < series {
		return 0
	}
	q.since = 0
	switch {
	case now < q.contested && q.c.watcher.live:
		return jitter(pushTurn)
	case now < q.contested:
		return rand.N(lastProbe)
	case q.around == 0: // soon, not at once
		q.around = now - lookAround + 3*series
	case now-q.around >= lookAround:
		q.around = now
		return lastProbe * 3 / 2
	}
	return rand.N(firstProbe)
}

// lookAround is how often a client that knows of no others leaves them time to
// take the key.
const lookAround = 1500 * time.Millisecond

// pushTurn is for how long a client leaves the key to others that are woken by its
// release, unless it hears of theirs: it sends nothing for a race that it would lose.
// If it finds the key free after all, nobody wants it any more.
const pushTurn = 100 * time.Millisecond

// contested is for how long a hold of another program says that others want the key.
const contested = 10 * time.Second
