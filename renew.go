package rowlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// sendRenewal sends one batch and plans the next look at its leases.
func (c *Client) sendRenewal(batch []*Lease) {
	batch = slices.DeleteFunc(batch, func(l *Lease) bool { return !l.renewalGoes() })
	if len(batch) == 0 {
		return
	}
	now := c.now()
	left := never
	for _, l := range batch {
		left = min(left, l.trustedUntil()-now)
	}
	// A try gets a third of the trust that is left, so that others can follow; but
	// always as long as a server may take that commits in time for its leases to live.
	try := max(left/3, min(left, max(batch[0].set.ttl/slowestCommit, 50*time.Millisecond)))
	ctx, cancel := context.WithTimeout(c.life, try)
	errs := c.renew(ctx, batch)
	cancel()
	after := c.now()
	failed, least := -1, never // the one of which least trust is left stands for all
	for i, l := range batch {
		deadline := l.trustedUntil()
		next := after + l.set.ttl // not used: the lease has ended
		switch {
		case errs[i] == nil:
			next = now + c.renewEvery(l.set.ttl)
			l.heldLong(after)
		case l.Err() == nil:
			// Soon again: with what is left of the trust window.
			next = after + min(max((deadline-after)/10, 5*time.Millisecond), time.Second)
			if driver.IsSilent(errs[i]) {
				next = after + l.silence.pause(after-now)
			}
			if left := deadline - after; left < least {
				failed, least = i, left
			}
		}
		c.keeper.renewed(l, next, deadline)
	}
	if failed >= 0 {
		l := batch[failed]
		c.troubles.renew.fail(context.Background(), 0, "key", l.hold.Key, "token", l.hold.Token,
			"hold", l.hold.ID, "left", least, "err", errs[failed])
	}
}

// slowestCommit is the part of a TTL within which a server commits a renewal on a new
// connection, where a live holder is to keep its lease.
const slowestCommit = 6

// renewalGoes tells whether the lease still wants the renewal that was to be sent.
func (l *Lease) renewalGoes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		l.renewals--
	}
	return l.ended == nil
}

// renewalStarts notes that a renewal is about to be sent: until its answer the hold
// is not handed on. false: the lease has ended.
func (l *Lease) renewalStarts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return false
	}
	l.renewals++
	return true
}

// renew sends one renewal for a batch and applies the answers: only an
// acknowledged one extends trust, counted from before the send. It gives an error
// for each lease: nil is acknowledged. Each lease was asked by renewalStarts.
func (c *Client) renew(ctx context.Context, batch []*Lease) []error {
	start := c.now()
	holds := make([]driver.Hold, len(batch))
	for i, l := range batch {
		holds[i] = l.hold
		if l.set.maxHold > 0 { // the last renewals are shortened
			holds[i].TTL = min(l.set.ttl, max(l.began+l.set.maxHold-start, time.Millisecond))
		}
	}
	c.calls.Add(1)
	results, err := c.store.Renew(ctx, holds)
	if err == nil && len(results) != len(holds) {
		err = fmt.Errorf("the store gave %d answers for %d renewals", len(results), len(holds))
	}
	errs := make([]error, len(batch))
	for i, l := range batch {
		l.mu.Lock()
		l.renewals--
		l.mu.Unlock()
		if err != nil {
			errs[i] = err
			l.renewalFailed(err)
			continue
		}
		switch r := results[i]; r.Status {
		case driver.Alive:
			ttl := holds[i].TTL
			if r.Left > 0 {
				ttl = min(ttl, r.Left)
			}
			l.extend(start, ttl, holds[i].TTL < l.set.ttl)
			c.renewals.Add(1)
		case driver.Taken, driver.Forced, driver.Removed, driver.Released:
			l.lose(lostReason(r.Status), r.Err, false)
			errs[i] = l.Err()
		default:
			errs[i] = r.Err
			if errs[i] == nil {
				errs[i] = errNoAnswer
			}
			l.renewalFailed(errs[i])
		}
	}
	return errs
}

// errNoAnswer stands for an unknown outcome without a cause.
var errNoAnswer = fmt.Errorf("the database gave no usable answer")

// errUnanswered: the trust ended before the only renewal was answered.
var errUnanswered = fmt.Errorf("the database did not answer the renewal in time")

func (l *Lease) renewalFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return
	}
	if l.cause == nil {
		l.c.troubles.renew.more(1)
	}
	l.cause = err
}

// extend moves the trust deadline, never back, and never revives. last: MaxHold
// allows no later one.
func (l *Lease) extend(start, ttl time.Duration, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil && l.c.now() < l.deadline {
		l.deadline = max(l.deadline, start+ttl-l.set.margin)
		l.renewedAt = max(l.renewedAt, start)
		l.last = l.last || last
		if l.cause != nil {
			l.cause = nil
			l.c.troubles.renew.less(1)
		}
		l.c.troubles.renew.ok()
	}
}
