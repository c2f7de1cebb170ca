package rowlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// sendRelease sends the release of l and waits for its answer, at most
// ReleaseWait and left, the rest of the trust.
func (c *Client) sendRelease(l *Lease, left time.Duration) error {
	ctx, cancel := context.WithTimeout(c.life, min(c.opts.ReleaseWait, left))
	defer cancel()
	c.calls.Add(1)
	results, err := c.store.Release(ctx, []driver.Hold{l.hold})
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("the store gave %d answers for one release", len(results))
	}
	var r driver.Result
	if err == nil {
		r = results[0]
		err = r.Err
	}
	switch r.Status {
	case driver.Released:
		c.log.Debug("released", "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID)
		return nil
	case driver.Taken, driver.Forced, driver.Removed:
		c.losses.Add(1)
		return &LostError{Key: l.hold.Key, Token: l.hold.Token, Reason: lostReason(r.Status)}
	}
	c.late.Add(1)
	c.log.Warn("release not answered; repeating it", "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID, "err", err)
	c.undoer.add(undoTask{hold: l.hold, acknowledged: true, sent: c.now()})
	return nil
}

// Close ends the client: callers that wait get ErrClosed, every lease ends with
// ReasonClosed and is released, and what is still on its way is waited for. ctx
// bounds that wait; what it cuts off ends by its TTL, and the error names the
// keys and matches ctx's error. A second Close waits for the first one. The Store
// is not closed: it belongs to whoever opened it.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	if first && c.busy == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	if !first {
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("close: %w", waitError(ctx, nil))
		}
	}
	defer close(c.done)
	defer c.endLife()
	c.endOpen()
	for _, l := range c.keeper.all() {
		l.close()
	}
	var left []string
	select {
	case <-c.idle:
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
	c.log.Warn("client closed with a lease held; releasing it", "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID)
	c.undoer.add(undoTask{hold: l.hold, acknowledged: true, sent: c.now()})
	c.localEnd(l.hold.Key)
}
