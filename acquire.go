package rowlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/undo"
)

// Acquire waits until key is held and returns its lease. The lease is renewed in
// the background until Release, or until it is lost; see Lease.Err.
//
// ctx bounds the wait, never the hold. When it ends first the error matches
// ctx.Err(), and also ErrHeld if the key was last seen held, by another program or by
// another caller of this Client, else the last cause. A failure that will not pass (ErrSchema, wrong credentials) comes
// back at once; one that may pass (connection lost, failover) is tried again
// until ctx ends. Other errors: ErrInvalid, ErrClosed, and ErrSelfDeadlock if ctx
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
	}
	if !s.noWait && c.holds(ctx, key) {
		return nil, fmt.Errorf("acquire %q: %w", key, ErrSelfDeadlock)
	}
	if s.noWait {
		c.awaitOwnRelease(ctx, key)
	}
	l, err := c.wait(ctx, key, s, s.noWait)
	if err == nil {
		l.noteCallSite()
	}
	return l, err
}

// TryAcquire tries once. If another has the key the error is a *HeldError and
// matches ErrHeld. Any other error means that nothing is held and that the
// attempt, if it may have reached the database, is undone in the background:
// ErrInvalid, ErrClosed, ErrSchema, ctx's, the database's own. ctx bounds the
// wait for the answer: an attempt whose connection turned out to be dead is no answer,
// and is made again. It does not queue behind the waiters of Acquire.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	s, err := c.prepare(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if s.reentrant {
		if v, err := c.viewIn(ctx, key, s); err != errNoLease {
			return v, err
		}
	}
	c.awaitOwnRelease(ctx, key)
	l, err := c.wait(ctx, key, s, true)
	if err == nil {
		l.noteCallSite()
	}
	return l, err
}

// asyncWait is how long an attempt waits for a release of its own client at most.
const asyncWait = 3 * time.Second

// awaitOwnRelease waits for the release of key that a caller of this client did not wait
// for: the attempt would find its own client's hold. (One of Acquire that waits is woken
// by the answer.)
func (c *Client) awaitOwnRelease(ctx context.Context, key string) {
	if !c.opts.ReleaseAsync {
		return
	}
	c.mu.Lock()
	var g *grant.Grant
	if k := c.keys[key]; k != nil {
		g = k.holder
	}
	c.mu.Unlock()
	if g != nil {
		g.AwaitRelease(ctx, asyncWait)
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

// newRequest is one attempt for key. No caller's context reaches the store: a
// session or transaction in it would pull the statement in, and its end would
// make the outcome unknown.
func (c *Client) newRequest(key string, s settings, last pinning, waits bool) driver.Request {
	r := driver.Request{
		Key: key, Owner: s.Owner, TTL: s.TTL, Keep: s.MinHold,
		Guarded: s.Guarded, Pinned: last == isPinned, Apart: last == maybePinned, Client: c.number, Wants: waits,
	}
	rand.Read(r.ID[:]) // never fails
	return r
}

// outcome reads the answer to an attempt: a lease, a *HeldError, or another error
// after which the attempt was undone if it may have been applied. ctx is the caller's,
// for what is logged.
func (c *Client) outcome(ctx context.Context, req *driver.Request, s settings, r driver.Result, sent, got time.Duration) (*Lease, error) {
	switch r.Status {
	case driver.Granted:
		if r.Token <= 0 || r.Token > driver.MaxToken {
			r.Err = &driver.Error{Lasting: true, Err: fmt.Errorf("the store granted %q with token %d, which is out of range", req.Key, r.Token)}
			break
		}
		if got < sent+s.TTL-s.Margin {
			return c.hold(&granted{grant: grant.New(req.Key, req.ID, s.Terms, sent, r)}, r.Wanted)
		}
		r.Err = fmt.Errorf("the grant came after %v, too late for a TTL of %v", got-sent, s.TTL)
	case driver.Held:
		return nil, &HeldError{Key: req.Key, Owner: r.Owner, Left: r.Left}
	case driver.Pinned:
		held := &HeldError{Key: req.Key, Owner: r.Owner, Pinned: true}
		if r.Apart && !req.Apart {
			return nil, &unsureError{held}
		}
		return nil, held
	}
	if !driver.IsNotApplied(r.Err) {
		c.report.Unknown.Fail(ctx, 1, "key", req.Key, "hold", req.ID, "err", r.Err)
		c.unresolved.Add(undo.Task{
			Hold: driver.Hold{
				Key: req.Key, ID: req.ID, Token: r.Token, Stored: r.Stored, TTL: s.TTL, Keep: s.MinHold,
				Guarded: s.Guarded, Undo: true,
			},
			Acknowledged: r.Status == driver.Granted,
			Sent:         got,
		})
	}
	if r.Err == nil {
		r.Err = errNoAnswer
	}
	return nil, r.Err
}

// errNoAnswer stands for an unknown outcome without a cause.
var errNoAnswer = errors.New("the database gave no usable answer")

// granted is a grant with the lease of its first user.
type granted struct {
	grant grant.Grant
	lease Lease
}

// hold makes the lease of a grant. If the client was closed meanwhile the grant is given
// back.
func (c *Client) hold(new *granted, hint driver.Hint) (*Lease, error) {
	g, l := &new.grant, &new.lease
	l.c, l.g, l.token, l.began = c, g, g.Hold.Token, g.Began
	c.renewer.Add(g, (*user)(l)) // before closed is read: Close ends what it finds here
	c.mu.Lock()
	closed := c.closed
	c.grantBegan(g, hint)
	if !closed {
		c.startReaping()
	}
	c.mu.Unlock()
	if closed {
		g.End(grant.Unwanted, nil)
		return nil, ErrClosed
	}
	return l, nil
}
