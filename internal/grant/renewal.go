package grant

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/repeat"
)

const (
	// slowestCommit is the part of a TTL within which a server commits a renewal on a new
	// connection, where a live holder is to keep its lease.
	slowestCommit = 6

	// renewalTime is the part of a TTL after which a renewal that is not answered gets company by another, at the
	// earliest. A Store needs more trips than that commit on a new connection: it prepares it first, with one or two.
	renewalTime = 4

	// slowestProcess is the part of a TTL within which the process gets the processor there.
	slowestProcess = 10

	// stuckRenewal is the age from which one more batch of renewals may leave beside those
	// on their way: a key in one is blocked, or its connection is dead. From the age of
	// deadRenewal on a batch keeps no other back.
	stuckRenewal = 100 * time.Millisecond
	deadRenewal  = time.Second

	// urgentRenewal is the trust from which on a renewal waits for no batch.
	urgentRenewal = time.Second
)

// renewals is the batcher of renewals: few batches at a time. All at once they need as
// many connections as there are batches, and keep the server so busy that each takes
// longer than all of them in turn. One that waits loses nothing: its trust is counted
// from when it is sent, and the renewer watches the deadlines meanwhile.
func renewals(store *call.Store) *batch.Batcher[driver.Hold] {
	l := store.Limits
	c := batch.Config[driver.Hold]{
		Store: store, Send: store.Renew,
		Entry:  call.Entry,
		Size:   l.Renewals,
		AtOnce: l.InFlight, Most: l.InFlight + 1,
		Slow: stuckRenewal, Dead: deadRenewal, Urgent: urgentRenewal,
	}
	if l.InFlight == 0 {
		c.AtOnce = math.MaxInt
	}
	return batch.New(c)
}

// renewal is one renewal on its way.
type renewal struct {
	call   batch.Call[driver.Hold]
	g      *Grant
	caller *caller // nil: the renewer started it
}

// caller waits for a renewal of its own.
type caller struct {
	answer  chan error
	left    atomic.Bool
	silence repeat.Silence
}

// newRenewal begins a renewal; nil: the grant has ended.
func (g *Grant) newRenewal(of *caller) *renewal {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.user == nil {
		return nil
	}
	g.renewals++
	r := &renewal{g: g, caller: of}
	if of == nil {
		g.latest = r
	}
	r.call = batch.Call[driver.Hold]{Q: g.holdLocked(), Class: g.Terms.TTL, Deadline: g.deadline, Owner: r}
	return r
}

// Renew sends a renewal for a caller. It is nil once the database has acknowledged, and
// the grant's deadline was moved. A renewal that its caller has left goes on, and moves
// the deadline all the same. Errors: ctx's own, driver.ErrClosed, the database's; for a
// grant that has ended any error may come.
func (g *Grant) Renew(ctx context.Context) error {
	c := &caller{answer: make(chan error, 1)}
	sent := g.rn.store.Work.Do(func() {
		r := g.newRenewal(c)
		if r == nil {
			c.answer <- errEnded
			return
		}
		r.call.Now = true
		g.rn.renewals.Submit(&r.call)
	})
	if !sent {
		return driver.ErrClosed
	}
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
		c.left.Store(true)
		return ctx.Err()
	}
}

// Patience implements batch.Owner: the trust that is left, or will be if the one sent before is acknowledged, but for
// what the process may need to see the answer; of a caller's renewal the trust that is left. The renewal of a grant
// that has ended is not sent; the last ones before MaxHold are cut short.
//
// After a third of what is left another is sent beside it, whose connection may be a better one; but
// not before a server has had the time that it may take on a new connection where its leases are to live. The
// first is not given up for that: on a busy server it may be the one that stands first in all queues, and
// a new connection costs more than an answer.
func (r *renewal) Patience(now time.Duration) time.Duration {
	g := r.g
	g.mu.Lock()
	t, left, trusted := g.Terms, g.deadline-now, g.deadline
	if g.user == nil || left <= 0 {
		g.mu.Unlock()
		return 0
	}
	if t.MaxHold > 0 {
		r.call.Q.TTL = min(t.TTL, max(g.Began+t.MaxHold-now, time.Millisecond))
	}
	if g.renewals > 1 {
		trusted = max(trusted, min(g.sent+t.TTL-t.Margin, g.maxHoldEnd()))
	}
	g.sent = now
	alone := max(left/3, t.TTL/renewalTime, 50*time.Millisecond)
	patience := max(trusted-now-t.TTL/slowestProcess, min(alone, left))
	beside := g.latest == r && alone < patience
	g.mu.Unlock()
	if beside {
		g.rn.planBeside(g, now+alone)
	}
	if r.caller != nil {
		return left
	}
	return patience
}

// Answered implements batch.Owner: only an acknowledged renewal extends trust, counted
// from before the send.
func (r *renewal) Answered(res driver.Result, sent, got time.Duration) {
	g, rn := r.g, r.g.rn
	var err error
	g.mu.Lock()
	g.renewals--
	g.answered = max(g.answered, got)
	seen := g.seenLocked(sent, got)
	switch res.Status {
	case driver.Alive:
		ttl := r.call.Q.TTL
		if res.Left > 0 {
			ttl = min(ttl, res.Left)
		}
		g.extendLocked(sent, ttl, r.call.Q.TTL < g.Terms.TTL)
		g.passed = 0
		g.mu.Unlock()
		rn.renewed.Add(1)
		seen.tell(0, nil)
	case driver.Pinned: // it lives, but an open transaction of an earlier holder must end first
		if res.Left > 0 {
			g.extendLocked(sent, min(r.call.Q.TTL, res.Left), r.call.Q.TTL < g.Terms.TTL)
		}
		err = errPinned
		g.failedLocked(err)
		g.mu.Unlock()
		seen.tell(0, err)
	case driver.Taken, driver.Forced, driver.Removed, driver.Released:
		g.mu.Unlock()
		seen.tell(lossOf(res.Status), res.Err)
		g.End(lossOf(res.Status), res.Err)
		err = errEnded
	default:
		if err = res.Err; err == nil {
			err = errNoAnswer
		}
		if sent >= g.renewedAt { // no later one was acknowledged
			g.failedLocked(err)
		}
		g.mu.Unlock()
		seen.tell(0, err)
	}
	if r.caller != nil {
		r.answerCaller(err, sent, got)
		return
	}
	r.planNext(err, sent, got)
}

// answerCaller hands out the answer; what a dead connection swallowed is sent again.
func (r *renewal) answerCaller(err error, sent, got time.Duration) {
	g, c := r.g, r.caller
	if driver.IsSilent(err) && !c.left.Load() {
		if pause := c.silence.Pause(got - sent); got+pause < g.Deadline() {
			g.rn.store.Work.ForkAfter(pause, func() {
				if again := g.newRenewal(c); again != nil {
					again.call.Now = true
					g.rn.renewals.Submit(&again.call)
				} else {
					c.answer <- errEnded
				}
			})
			return
		}
	}
	if err == nil {
		g.rn.plan(g, sent+g.rn.interval(g))
	}
	c.answer <- err
}

// planNext plans when the renewer checks a grant next, after a renewal that it had started
// was answered. Where one that was sent later is on its way, that one decides.
func (r *renewal) planNext(err error, sent, got time.Duration) {
	g, rn := r.g, r.g.rn
	g.Check()
	g.mu.Lock()
	user, more, left, h := g.user, slices.Clone(g.more), g.deadline-got, g.holdLocked()
	latest, overtaken := g.latest == r, sent < g.renewedAt // by one that was acknowledged
	next := sent + rn.interval(g)
	if err != nil {
		// Soon again: with what is left of the trust window.
		next = got + min(max(left/10, 5*time.Millisecond), time.Second)
		if driver.IsSilent(err) {
			next = got + g.silence.Pause(got-sent)
		}
	}
	g.mu.Unlock()
	if latest {
		rn.plan(g, next)
	}
	switch {
	case user == nil:
	case err != nil && overtaken:
	case err != nil:
		rn.report.Renew.Fail(context.Background(), 0, logs.Attrs(h.Key, h.Mode, "token", h.Token, "hold", h.ID, "left", left, "err", err)...)
	default:
		user.Renewed(got)
		for _, u := range more {
			u.Renewed(got)
		}
	}
}

// extendLocked moves the trust deadline, never back, and never revives. last: MaxHold
// allows no later one.
func (g *Grant) extendLocked(start, ttl time.Duration, last bool) {
	if g.user == nil || g.rn.store.Now() >= g.deadline {
		return
	}
	g.deadline = max(g.deadline, start+ttl-g.Terms.Margin)
	g.renewedAt = max(g.renewedAt, start)
	g.shortened = g.shortened || last
	if g.cause != nil {
		g.cause = nil
		g.rn.report.Renew.Less(1)
	}
	g.rn.report.Renew.OK()
}

func (g *Grant) failedLocked(err error) {
	if g.user == nil {
		return
	}
	if g.cause == nil {
		g.rn.report.Renew.More(1)
	}
	g.cause = err
}

var (
	// errNoAnswer stands for an unknown outcome without a cause.
	errNoAnswer = errors.New("the database gave no usable answer")

	// errUnanswered: the trust ended before the only renewal was answered.
	errUnanswered = errors.New("the database did not answer the renewal in time")

	// errPinned: see driver.Hold.Confirm.
	errPinned = errors.New("an open transaction of an earlier holder of the key must end first")

	// errEnded: the grant ended before its renewal was answered; its user knows why.
	errEnded = errors.New("the grant has ended")
)

// lossOf translates a store's answer about a hold that it does not have.
func lossOf(s driver.Status) Reason {
	switch s {
	case driver.Taken:
		return Taken
	case driver.Forced, driver.Released: // released, but not by its holder
		return Forced
	}
	return Removed
}
