package rowlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/logs"
)

// reapPatience bounds a round: a server that hangs must not end reaping for good.
const reapPatience = time.Minute

// startReaping starts the background reaper, once, if the store has one.
func (c *Client) startReaping() {
	c.reaping.Do(func() {
		r, ok := c.store.Driver().(driver.Reaper)
		if !ok || c.opts.ReapInterval < 0 || c.isClosed() {
			return
		}
		c.store.Work.Fork(func() { c.reap(r) })
	})
}

// reap removes rows of long dead keys now and then, until the client is closed.
// Pods that start together spread by the random part.
func (c *Client) reap(r driver.Reaper) {
	pause := c.opts.ReapInterval
	var loop logs.Loop
	defer loop.Over()
	loop.Use(&c.report)
	loop.Worked() // a lease was got
	for {
		timer := time.NewTimer(pause/2 + rand.N(pause+1))
		select {
		case <-timer.C:
		case <-c.open.Done():
			timer.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(c.open, reapPatience)
		began := c.now()
		n, err := r.Reap(ctx, reapGrace)
		cancel()
		if c.teller != nil && (err == nil || !c.isClosed()) {
			c.teller.reaped(n, c.now()-began, err)
		}
		switch {
		case err == nil:
			loop.Worked()
			if n > 0 {
				c.log.Debug("reaped", "rows", n)
			}
		case c.isClosed():
		case driver.IsLasting(err):
			loop.Refused(context.Background(), "loop", "reap", "err", err)
		default:
			c.log.Warn("reaping failed; trying again later", "err", err)
		}
		pause = c.opts.ReapInterval
		if n >= driver.MaxReap {
			pause /= 60
		}
	}
}
