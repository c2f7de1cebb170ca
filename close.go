package rowlock

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
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
func (l *Lease) answered(r driver.Result, _, _ time.Duration) {
	c := l.c
	defer c.work.exit()
	var err error
	switch r.Status {
	case driver.Released:
		c.troubles.release.ok()
		if ctx := l.release.ctx; c.debug(ctx) {
			c.log.DebugContext(ctx, "released", "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID)
		}
	case driver.Taken, driver.Forced, driver.Removed:
		c.losses.Add(1)
		err = &LostError{Key: l.hold.Key, Token: l.hold.Token, Reason: lostReason(r.Status), Err: r.Err}
	default:
		c.late.Add(1)
		c.troubles.release.fail(l.release.ctx, 1, "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID, "err", r.Err)
		c.undoer.add(undoTask{hold: l.ending(), acknowledged: true, sent: c.now()})
	}
	c.localEnd(l.hold.Key, true)
	l.releaseAnswered(err)
}

// Close ends the client: callers that wait get ErrClosed, every lease ends with
// ReasonClosed and is released, and what is still on its way is waited for. ctx
// bounds that wait; what it cuts off ends by its TTL, and the error names the
// keys and matches ctx's error. A second Close waits for the first one. The Store
// is not closed: it belongs to whoever opened it.
//
// What was logged reaches the handler of Options.Logger before Close returns, unless
// the handler takes longer than ctx allows, or than Options.ReleaseWait for one record.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	c.work.close()
	if !first {
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("close: %w", waitError(ctx, nil))
		}
	}
	defer close(c.done)
	defer c.endLog(ctx)
	defer c.endLife()
	c.endOpen()
	for _, l := range c.keeper.all() {
		l.close()
	}
	var left []string
	select {
	case <-c.work.idle:
	case <-ctx.Done():
		left = append(left, "statements under way")
	}
	left = append(left, c.undoer.wait(ctx)...)
	if len(left) > 0 {
		slices.Sort(left)
		left = slices.Compact(left)
		return fmt.Errorf("close: not released, the keys are free after their TTL: %s: %w", strings.Join(left, ", "), waitError(ctx, nil))
	}
	return nil
}

// endLog hands what was logged to the handler, for as long as ctx allows.
func (c *Client) endLog(ctx context.Context) {
	c.troubles.flush()
	c.logs.flush(ctx, c.opts.ReleaseWait)
}

// close ends the lease because its client is closed; the undoer releases it.
func (l *Lease) close() {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.endLocked(&LostError{Key: l.hold.Key, Token: l.hold.Token, Reason: ReasonClosed})
	l.mu.Unlock()
	c := l.c
	c.keeper.remove(l)
	c.losses.Add(1)
	c.troubles.closed.add("key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID)
	c.undoer.add(undoTask{hold: l.ending(), acknowledged: true, sent: c.now()})
	c.localEnd(l.hold.Key, false)
}
