package rowlock

import (
	"math/bits"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// sendRelease sends the release of l with those of other leases. Its answer is worth
// waiting for until by.
func (c *Client) sendRelease(l *Lease, trusted time.Duration) {
	c.work.more() // until it was answered
	c.watcher.releasing(l.hold.Key)
	now := c.now()
	by := now + c.opts.ReleaseWait
	l.sending = call[driver.Hold]{q: l.ending(), patience: c.opts.ReleaseWait, by: min(by, trusted), answer: l}
	if trusted >= by {
		if f := c.releases.submit(&l.sending); f != nil {
			c.releases.lead(f)
		}
		return
	}
	// Little trust is left. A batch ends with the smallest deadline of its calls, so
	// this one goes with its like; and it waits neither for other batches nor with one
	// of them for longer than that.
	l.sending.class = deadlineClass(trusted - now)
	if f := c.releases.submit(&l.sending); f != nil {
		go c.releases.run(f)
	}
	l.withdrawAt(trusted)
}

// deadlineClass puts deadlines together of which none is more than twice another.
func deadlineClass(left time.Duration) time.Duration {
	return 1 << bits.Len64(uint64(max(left, 1)))
}

// withdrawAt waits for the answer to the release, and takes the release back if no
// batch has taken it by then. A batch that has is over by then.
func (l *Lease) withdrawAt(by time.Duration) {
	done := l.releaseDone()
	if done == nil {
		return
	}
	timer := time.NewTimer(by - l.c.now())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		if l.c.releases.withdraw(&l.sending) {
			now := l.c.now()
			l.answered(driver.Result{Err: errTooLate}, now, now)
		}
	}
}

// answered implements answerer: the release of l has its answer.
func (l *Lease) answered(r driver.Result, sent, got time.Duration) {
	c := l.c
	defer c.work.exit()
	if r.Status == driver.Unknown && l.repeat(r.Err, got-sent) {
		return
	}
	var err error
	status := r.Status
	if l.release.repeated && status != driver.Unknown {
		status = driver.Released
	}
	switch status {
	case driver.Released:
		c.troubles.release.ok()
		if ctx := l.release.ctx; c.debug(ctx) {
			c.log.DebugContext(ctx, "released", "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID)
		}
	case driver.Taken, driver.Forced, driver.Removed:
		c.losses.Add(1)
		err = &LostError{Key: l.hold.Key, Token: l.hold.Token, Reason: lostReason(r.Status), Err: r.Err}
	default:
		again := undoTask{hold: l.ending(), acknowledged: true, sent: c.now()}
		if isRefusal(r.Err) {
			again.refuse(c, r.Err)
		} else {
			c.late.Add(1)
			c.troubles.release.fail(l.release.ctx, 1, "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID, "err", r.Err)
		}
		c.undoer.add(again)
	}
	c.localEnd(l.hold.Key, true)
	l.releaseAnswered(err)
}
