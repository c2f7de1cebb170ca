package rowlock

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Info is what the database knows of a key, by the database's clock.
type Info = driver.Info

// inspectPatience bounds an Inspect whose caller would wait for ever.
const inspectPatience = 30 * time.Second

// Inspect asks the database who has key. It changes nothing and needs no lease.
// A key that was never locked gives an Info that is not Held. Errors: ErrInvalid,
// ErrClosed, ErrSchema, the database's own, ctx's. ctx bounds the wait, as the client
// does: after 30 seconds without an answer the error matches context.DeadlineExceeded.
func (c *Client) Inspect(ctx context.Context, key string) (Info, error) {
	switch {
	case c == nil:
		return Info{Key: key}, fmt.Errorf("inspect %q: %w: the Client is nil", key, ErrInvalid)
	case ctx == nil:
		return Info{Key: key}, fmt.Errorf("inspect %q: %w: the context is nil", key, ErrInvalid)
	}
	if err := checkKey(key); err != nil {
		return Info{Key: key}, err
	}
	if c.isClosed() {
		return Info{Key: key}, fmt.Errorf("inspect %q: %w", key, ErrClosed)
	}
	if ctx.Err() != nil {
		return Info{Key: key}, fmt.Errorf("inspect %q: %w", key, waitError(ctx, nil))
	}
	infos, err := c.store.AskInspect(ctx, c.open, []string{key}, inspectPatience)
	if err != nil {
		if err == ctx.Err() {
			err = waitError(ctx, c.waitCause(nil))
		}
		return Info{Key: key}, fmt.Errorf("inspect %q: %w", key, err)
	}
	return infos[0], nil
}
