package rowlock

import (
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// retries reports whether the attempt of TryAcquire is to be sent
// again, and after which pause: its connection was silent; or the key is held, maybe by
// such an attempt of its own, whose undo is waited for. Called under Client.mu.
func (w *waiter) retries(err error, sent, got time.Duration) (pause time.Duration, again bool) {
	if w.first == 0 {
		w.first = max(sent, 1)
	}
	if w.c.closed || got-w.first >= w.set.TTL-w.set.Margin { // a caller may have no end
		return 0, false
	}
	if unsure(err) {
		w.last, w.pinned = err, maybePinned
		return 0, true
	}
	if driver.IsSilent(err) {
		w.last = err
		w.maybeHeld = w.maybeHeld || !driver.IsNotApplied(err)
		return w.silence.Pause(got - sent), true
	}
	if !w.maybeHeld || !errors.Is(err, ErrHeld) {
		return 0, false
	}
	w.maybeHeld = w.c.unresolved.Unanswered(w.try.Q.Key) // if not, this is the last try: the one before may have come too early
	return w.silence.Pause(0), true
}

// resend sends the attempt of w once more, under an ID of its own. Called under
// Client.mu.
func (w *waiter) resend(pause time.Duration) {
	c := w.c
	if pause > 0 {
		c.store.Work.ForkAfter(pause, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !w.gone && !c.closed { // with a closed client the caller leaves
				w.resend(0)
			}
		})
		return
	}
	c.submit(w.try.Q.Key, w, w.pinned)
}
