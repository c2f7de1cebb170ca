package keys

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// retries reports whether the attempt of TryAcquire is to be sent
// again, and after which pause: its connection was silent; or the key is held, maybe by
// such an attempt of its own, whose undo is waited for. Called under Table.mu.
func (w *Waiter) retries(err error, sent, got time.Duration) (pause time.Duration, again bool) {
	if w.first == 0 {
		w.first = max(sent, 1)
	}
	if w.t.closed || got-w.first >= w.Ask.TTL-w.Ask.Margin { // a caller may have no end
		return 0, false
	}
	if r := Refused(err); r != nil && r.apart {
		w.Last, w.pinned = err, maybePinned
		return 0, true
	}
	if driver.IsSilent(err) {
		w.Last = err
		w.maybeHeld = w.maybeHeld || !driver.IsNotApplied(err)
		return w.silence.Pause(got - sent), true
	}
	if !w.maybeHeld || Refused(err) == nil {
		return 0, false
	}
	w.maybeHeld = w.t.Unresolved.Unanswered(w.try.Q.Key) // if not, this is the last try: the one before may have come too early
	return w.silence.Pause(0), true
}

// resend sends the attempt of w once more, under an ID of its own. Called under
// Table.mu.
func (w *Waiter) resend(pause time.Duration) {
	t := w.t
	if pause > 0 {
		t.Store.Work.ForkAfter(pause, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if !w.gone && !t.closed { // with a closed client the caller leaves
				w.resend(0)
			}
		})
		return
	}
	t.submit(w, w.pinned)
}
