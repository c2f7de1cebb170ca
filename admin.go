package rowlock

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
)

// adminPatience bounds a List or ForceRelease whose caller would wait for ever.
const adminPatience = 30 * time.Second

// List tells of keys that begin with prefix and come after the key after, in the order of
// their bytes, at most limit of them; the next page begins after the last. Keys that are
// free and not yet reaped are among them. Errors: ErrInvalid, ErrClosed, ErrNotSupported
// where the store cannot list, ErrSchema, the database's own, ctx's. ctx bounds the wait.
func (c *Client) List(ctx context.Context, prefix, after string, limit int) ([]Info, error) {
	const what = "list"
	s, err := ability[driver.Lister](c, ctx, what)
	if err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("%s: %w: limit %d: use at least 1", what, ErrInvalid, limit)
	}
	infos, err := call.Ask(c.store, ctx, c.open, adminPatience, "admin", func(ctx context.Context) ([]Info, error) {
		return s.List(ctx, prefix, after, limit)
	})
	return infos, c.adminError(ctx, what, err)
}

// ForceRelease ends whatever hold key has, and raises its token: the key is free, its
// holder learns of it at its next renewal, with ReasonForced, and cannot commit a guarded
// transaction any more. Until then it may go on with work that is not guarded. The Info is
// the state before. After an error that does not match ErrInvalid, ErrNotSupported or
// ErrClosed the hold may have ended: ask Inspect. Other errors: ErrSchema, the database's
// own, ctx's. ctx bounds the wait.
func (c *Client) ForceRelease(ctx context.Context, key string) (Info, error) {
	what := fmt.Sprintf("force release %q", key)
	s, err := ability[driver.Forcer](c, ctx, what)
	if err == nil {
		if err = checkKey(key); err != nil {
			err = fmt.Errorf("force release: %w", err)
		}
	}
	if err != nil {
		return Info{Key: key}, err
	}
	info, err := call.Ask(c.store, ctx, c.open, adminPatience, "admin", func(ctx context.Context) (Info, error) {
		return s.ForceRelease(ctx, key)
	})
	if err != nil {
		info = Info{Key: key}
	}
	return info, c.adminError(ctx, what, err)
}

// ability finds an ability of the client's store.
func ability[A any](c *Client, ctx context.Context, what string) (a A, err error) {
	switch {
	case c == nil:
		return a, fmt.Errorf("%s: %w: the Client is nil", what, ErrInvalid)
	case ctx == nil:
		return a, fmt.Errorf("%s: %w: the context is nil", what, ErrInvalid)
	case c.isClosed():
		return a, fmt.Errorf("%s: %w", what, ErrClosed)
	case ctx.Err() != nil:
		return a, fmt.Errorf("%s: %w", what, waitError(ctx, nil))
	}
	a, ok := c.store.Driver().(A)
	if !ok {
		return a, fmt.Errorf("%s: %w: the store (%T) cannot do it", what, ErrNotSupported, c.store.Driver())
	}
	return a, nil
}

func (c *Client) adminError(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case err == ctx.Err():
		err = waitError(ctx, c.waitCause(nil))
	}
	return fmt.Errorf("%s: %w", what, err)
}
