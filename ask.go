package rowlock

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// ask runs one statement for a caller: on the client's own context, with a deadline
// of its own, and entered in what Close waits for. The caller's ctx bounds only its
// wait. Nothing that ctx carries reaches the store: a session in it would pull the
// statement into a transaction, and its end would cut a connection that others use.
// What a dead connection swallowed is done again: it changes nothing, or names its hold.
func ask[T any](c *Client, ctx context.Context, patience time.Duration, do func(context.Context) (T, error)) (T, error) {
	type answer struct {
		t   T
		err error
	}
	answered := make(chan answer, 1)
	asking := c.work.goWork(func() {
		own := c.within(patience)
		defer own.end()
		var s silence
		for {
			began := c.now()
			t, err := do(own)
			wanted := ctx.Err() == nil && !c.isClosed()
			if !driver.IsSilent(err) || !wanted || pause(own, s.pause(c.now()-began)) != nil {
				answered <- answer{t, err}
				return
			}
		}
	})
	var none T
	if !asking {
		return none, ErrClosed
	}
	select {
	case a := <-answered:
		return a.t, a.err
	case <-ctx.Done():
		return none, waitError(ctx, nil)
	}
}
