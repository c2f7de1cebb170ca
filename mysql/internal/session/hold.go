package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// hold is a key that a session of this Store has.
type hold struct {
	key     string
	id      driver.HoldID
	token   int64
	ttl     time.Duration // at the grant
	granted time.Duration // before the acquire, by clock.Now
	keeps   bool          // granted with MinHold
	wanted  driver.Hint   // by another, at the grant
	seen    time.Duration // when that was read
	session *conn.Conn
	sem     chan struct{} // the right to use the session
	ended   bool          // the session is the hold's no more; for the goroutine that has sem

	mu       sync.Mutex
	beating  *heartbeat
	heard    time.Duration // before the last heartbeat that was answered
	rowUntil time.Duration // until when the lease row is good, counted from before its renewal
	trusted  time.Duration // until when the holder was told that it holds
}

// SessionOf is the session of a hold; nil: there is no such hold.
func (f *ForUpdate) SessionOf(h driver.Hold) *conn.Conn {
	if own := f.get(h.Key, h.ID); own != nil {
		return own.session
	}
	return nil
}

// Occupy keeps the session of a hold from sending anything until free is called: to those who use it the
// server does not answer.
func (f *ForUpdate) Occupy(h driver.Hold) (free func()) {
	own := f.get(h.Key, h.ID)
	own.sem <- struct{}{}
	return func() { <-own.sem }
}

// RowsDue has the next renewal renew the lease rows of all holds.
func (f *ForUpdate) RowsDue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.holds {
		h.mu.Lock()
		h.rowUntil -= h.ttl / 2
		h.mu.Unlock()
	}
}

// heartbeat is one statement on the session of a hold. One that the server does
// not answer goes on after the call that sent it, because giving it up would close
// the session; the next call waits for the same one.
type heartbeat struct {
	sent  time.Duration
	done  chan struct{} // closed at the answer
	err   error         // the session is dead, or was not used
	stale bool          // the lease row has another hold, or none
}

// ErrUnanswered: a heartbeat goes on, whose answer is not known yet.
var ErrUnanswered = errors.New("the session has not answered yet")

// Heartbeats is how often the engine calls Renew.
func Heartbeats(ttl time.Duration) time.Duration { return min(ttl/10, time.Second) }

// startBeat starts a heartbeat, or joins the one under way.
func (f *ForUpdate) startBeat(h *hold, ttl time.Duration) *heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beating != nil {
		return h.beating
	}
	b := &heartbeat{sent: clock.Now(), done: make(chan struct{})}
	h.beating = b
	begun := f.work(func() {
		start := clock.Now()
		b.stale, b.err = f.beatOnce(h, ttl)
		h.mu.Lock()
		h.beating = nil
		if b.err == nil {
			h.heard = start
		}
		h.mu.Unlock()
		close(b.done)
	})
	if !begun {
		h.beating = nil
		b.err = conn.ErrClosed()
		close(b.done)
	}
	return b
}

// beatOnce sends the statement. It has as much time as the hold can be trusted.
func (f *ForUpdate) beatOnce(h *hold, ttl time.Duration) (stale bool, err error) {
	ctx, cancel := context.WithTimeout(f.life, ttl)
	defer cancel()
	select {
	case h.sem <- struct{}{}:
		defer func() { <-h.sem }()
	case <-ctx.Done():
		return false, fmt.Errorf("%w: %w", ErrUnanswered, ctx.Err())
	}
	if h.ended || h.session.Broken {
		return false, errors.New("the session has ended")
	}
	// The last renewals before MaxHold are shorter. But a renewal never shortens what
	// the holder trusts by an earlier one.
	if s := conn.WholeSeconds(ttl); s > h.session.Silence || s < h.session.Silence && h.mayShorten(s) {
		if err := h.session.EndAfter(ctx, s); err != nil {
			h.session.Broken = true
			return false, err
		}
	}
	found, err := conn.Query(ctx, h.session, 0, f.beat(h.key), scanHold)
	if err != nil {
		h.session.Broken = true
		return false, err
	}
	return len(found) != 1 || found[0] != h.id, nil
}

// wait waits for the answer, at most until the channel is closed or receives.
func (b *heartbeat) wait(giveUp <-chan struct{}) (stale bool, err error) {
	select {
	case <-b.done:
		return b.stale, b.err
	case <-giveUp:
	}
	select {
	case <-b.done:
		return b.stale, b.err
	default:
		return false, ErrUnanswered
	}
}

// left is how long the hold is good from now, the start of a call, on: until the
// earlier of the session's silence and the lease row's expiry.
func (h *hold) left(now, ttl, maxHold time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	until := min(h.heard+ttl, h.rowUntil)
	if maxHold > 0 {
		until = min(until, h.granted+maxHold)
	}
	return until - now
}

// trust notes until when the holder is told that it holds.
func (h *hold) trust(until time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trusted = max(h.trusted, until)
}

func (h *hold) mayShorten(to time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return clock.Now()+to >= h.trusted
}

// rowDue reports whether the lease row is to be renewed too: a third of its time is
// over, or there were no heartbeats (a lease with NoRenew, renewed by hand).
func (h *hold) rowDue(now, ttl time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rowUntil-now < ttl*2/3 || now-h.heard > 2*Heartbeats(ttl)
}

// silent reports whether a heartbeat has had no answer for longer than the next one takes to be due. The lease row is
// not renewed then: the session may be on a server that is the primary no more, and the row's end is what another waits for.
func (h *hold) silent(now, ttl time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beating != nil && now-h.beating.sent > Heartbeats(ttl)
}

func (h *hold) renewed(until time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rowUntil = max(h.rowUntil, until)
}
