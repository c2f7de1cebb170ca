package rowlock

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Silence: a connection that gives no byte while the server answers on a new one is
// dead, as a firewall leaves it that has forgotten it. The Store finds out, closes it,
// and says so by driver.Error.Silent. That is no answer of the database, so nobody is
// told: what was sent goes again at once. An acquire gets a new hold ID and the old
// one is undone, because a firewall may also have swallowed the reply only; a
// renewal, a release or an undo names its hold, and can simply be repeated.

// silence paces such repeats of one call.
type silence struct {
	quick int // in a row
}

const (
	// silentAtLeast is how long a Store waits for a byte at least: one that was silent
	// for so long has paced its repeat itself.
	silentAtLeast = 100 * time.Millisecond

	// The pauses of repeats that come sooner, after the first.
	firstSilentPause = 10 * time.Millisecond
	lastSilentPause  = time.Second
)

// pause is how long to wait before what was silent after that time goes again.
func (s *silence) pause(took time.Duration) time.Duration {
	if took >= silentAtLeast {
		s.quick = 0
		return 0
	}
	s.quick++
	if s.quick == 1 {
		return 0
	}
	return min(firstSilentPause<<min(s.quick-2, 10), lastSilentPause)
}

// goesAgain reports whether the attempt of a caller who tries once is to be made
// again, and after which pause: its connection was silent; or the key is held, maybe by
// such an attempt of its own, whose undo is waited for. Called under Client.mu.
func (w *waiter) goesAgain(err error, sent, got time.Duration) (pause time.Duration, again bool) {
	if w.first == 0 {
		w.first = max(sent, 1)
	}
	if w.c.closed || got-w.first >= w.set.ttl-w.set.margin { // a caller may have no end
		return 0, false
	}
	if driver.IsSilent(err) {
		w.last = err
		w.ghost = w.ghost || !driver.IsNotApplied(err)
		return w.silence.pause(got - sent), true
	}
	if !w.ghost || !errors.Is(err, ErrHeld) {
		return 0, false
	}
	w.ghost = w.c.undoer.asks(w.try.q.Key) // if not, this is the last try: the one before may have come too early
	return w.silence.pause(0), true
}

// sendAgain sends the attempt of w once more, under an ID of its own. Called under
// Client.mu.
func (w *waiter) sendAgain(pause time.Duration) {
	c := w.c
	if pause > 0 {
		c.work.more()
		time.AfterFunc(pause, func() {
			defer c.work.exit()
			c.mu.Lock()
			defer c.mu.Unlock()
			if !w.gone && !c.closed { // with a closed client the caller leaves
				w.sendAgain(0)
			}
		})
		return
	}
	if f := c.submit(w.try.q.Key, w, false); f != nil {
		go f.lane.run(f)
	}
}

// repeat sends the release of l once more if its connection was silent and its caller
// still waits.
func (l *Lease) repeat(err error, took time.Duration) bool {
	c := l.c
	now, s := c.now(), &l.sending
	pause := l.release.silence.pause(took)
	if !driver.IsSilent(err) || now+pause >= s.by {
		return false
	}
	l.release.repeated = l.release.repeated || !driver.IsNotApplied(err)
	c.work.more()
	again := func() {
		s.class = deadlineClass(s.by - c.now())
		if f := c.releases.submit(s); f != nil {
			go c.releases.run(f)
		}
	}
	if pause > 0 {
		time.AfterFunc(pause, again)
	} else {
		again()
	}
	return true
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
