package rowlock

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/keys"
)

// Acquire waits until key is held and returns its lease. The lease is renewed in
// the background until Release, or until it is lost; see Lease.Err.
//
// ctx bounds the wait, never the hold. When it ends first the error matches
// ctx.Err(), and also ErrHeld if the key was last seen held, by another program or by
// another caller of this Client, else the last cause (ErrReleasing is one). A failure
// that will not pass (ErrSchema, wrong credentials, a certificate that cannot be verified) comes back at once; one that may
// pass (connection lost, failover) is tried again until ctx ends. Other errors: ErrInvalid, ErrClosed, and ErrSelfDeadlock if ctx
// comes from a lease of the same key (unless Reentrant). After an error nothing is held: if the
// outcome of a statement is not known it is undone in the background.
//
// The callers of one Client get a key in the order in which they asked.
func (c *Client) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	s, err := c.prepare(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if s.reentrant {
		if v, err := c.viewIn(ctx, key, s); err != errNoLease {
			return v, err
		}
		s.reentrant = false
	}
	if !s.noWait && c.holds(ctx, key) {
		return nil, fmt.Errorf("acquire %q: %w", key, ErrSelfDeadlock)
	}
	w := c.watch(ctx, key, s, s.noWait)
	if s.noWait {
		c.awaitOwnRelease(ctx, key, s.Mode)
	}
	l, err := c.wait(ctx, &s, key, s.noWait, w)
	if err == nil {
		l.noteCallSite()
	}
	w.end(l, err)
	return l, err
}

// TryAcquire tries once. If another has the key the error is a *HeldError, which says who,
// and matches ErrHeld. Any other error means that nothing is held and that the
// attempt, if it may have reached the database, is undone in the background:
// ErrInvalid, ErrClosed, ErrSchema, ctx's, the database's own; or ErrReleasing: a hold which this
// client gave back is in the way, because its Release did not wait any longer for the answer, or
// one that an earlier attempt left behind, whose undo is not answered: try again. ctx bounds the wait for the answer: an attempt whose connection turned out to be dead is no answer,
// and is made again. It does not wait for others: while any wait for the key it is a *HeldError, even if nobody has the key in that moment.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	s, err := c.prepare(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if s.reentrant {
		if v, err := c.viewIn(ctx, key, s); err != errNoLease {
			return v, err
		}
		s.reentrant = false
	}
	w := c.watch(ctx, key, s, true)
	c.awaitOwnRelease(ctx, key, s.Mode)
	l, err := c.wait(ctx, &s, key, true, w)
	if err == nil {
		l.noteCallSite()
	}
	w.end(l, err)
	return l, err
}

// ask is what settings ask for of a key.
func (s *settings) ask(key string) keys.Ask {
	return keys.Ask{Key: key, Terms: s.Terms, Fair: s.fair, StandsBy: s.standing != nil}
}

// wait gets a key for one caller.
func (c *Client) wait(ctx context.Context, s *settings, key string, once bool, by *watched) (*Lease, error) {
	a := s.ask(key)
	caller := by.caller(ctx, a)
	if s.standing != nil {
		caller.Loop = &s.standing.loop
	}
	w := c.table.Join(caller, once)
	if w == nil {
		return nil, fmt.Errorf("acquire %q: %w", a.Key, ErrClosed)
	}
	lease, refused, err := c.leaseFor(ctx, a.Key, w)
	if refused != nil && once {
		err = toldOf(a.Key, c.table.WhoHas(ctx, a.ID(), a.Slots, refused))
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", a.Key, err)
	}
	return lease, nil
}

// leaseFor is the lease, or the error, that the caller gets for whom w waits for key. refused: the error is this, as the store said it.
func (c *Client) leaseFor(ctx context.Context, key string, w *keys.Waiter) (lease *Lease, refused *keys.Refusal, err error) {
	got, ended, err := c.table.Await(ctx, w)
	switch {
	case ended:
		return nil, nil, waitError(ctx, c.waitCause(toldOf(key, err)))
	case err != nil:
		return nil, keys.Refused(err), toldOf(key, err)
	}
	lease = leaseOfUser(got.User)
	c.logs.Step(ctx, "acquired", &lease.g.Hold, lease.token)
	c.startReaping()
	return lease, nil, nil
}

// awaitOwnRelease waits for the releases of key that callers of this client did not wait for: an attempt that is made once
// would find its own client's hold.
func (c *Client) awaitOwnRelease(ctx context.Context, key string, m driver.Mode) {
	if c.opts.ReleaseAsync {
		c.table.AwaitReleases(ctx, keys.ID{Name: key, Mode: m})
	}
}

// prepare checks what can be checked before anything is sent.
func (c *Client) prepare(ctx context.Context, key string, opts []Option) (settings, error) {
	if c == nil {
		return settings{}, fmt.Errorf("acquire %q: %w: the Client is nil", key, ErrInvalid)
	}
	if ctx == nil {
		return settings{}, fmt.Errorf("acquire %q: %w: the context is nil", key, ErrInvalid)
	}
	if err := checkKey(key); err != nil {
		return settings{}, err
	}
	s, err := c.settingsFor(opts)
	if err != nil {
		return s, fmt.Errorf("acquire %q: %w", key, err)
	}
	if s.standing != nil {
		s.standing.worksWith(c, s.TTL)
	}
	if c.isClosed() {
		return s, fmt.Errorf("acquire %q: %w", key, ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return s, fmt.Errorf("acquire %q: %w", key, waitError(ctx, nil))
	}
	return s, nil
}

// waitError is ctx's error joined with the cause of the wait.
func waitError(ctx context.Context, last error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// waitCause is last, the last cause that is known, or else what the store can explain.
func (c *Client) waitCause(last error) error {
	if e, ok := c.store.Driver().(driver.Explainer); ok && last == nil {
		return e.Explain()
	}
	return last
}
