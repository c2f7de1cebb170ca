package rowlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/undo"
)

// Acquire waits until key is held and returns its lease. The lease is renewed in
// the background until Release, or until it is lost; see Lease.Err.
//
// ctx bounds the wait, never the hold. When it ends first the error matches
// ctx.Err(), and also ErrHeld if the key was last seen held, by another program or by
// another caller of this Client, else the last cause (ErrReleasing is one). A failure
// that will not pass (ErrSchema, wrong credentials) comes back at once; one that may
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
	l, err := c.wait(ctx, key, s, s.noWait, w)
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
		s.reentrant = false
	}
	w := c.watch(ctx, key, s, true)
	c.awaitOwnRelease(ctx, key, s.Mode)
	l, err := c.wait(ctx, key, s, true, w)
	if err == nil {
		l.noteCallSite()
	}
	w.end(l, err)
	return l, err
}

// asyncWait is how long an attempt waits for a release of its own client at most.
const asyncWait = 3 * time.Second

// awaitOwnRelease waits for the releases of key that callers of this client did not wait
// for: the attempt would find its own client's hold. (One of Acquire that waits is woken
// by the answer.)
func (c *Client) awaitOwnRelease(ctx context.Context, key string, m driver.Mode) {
	if !c.opts.ReleaseAsync {
		return
	}
	var grants []*grant.Grant
	c.mu.Lock()
	for _, k := range c.entries(key) {
		if k != nil && excludes(k.id.mode, m) {
			grants = append(grants, k.grants...)
		}
	}
	c.mu.Unlock()
	for _, g := range grants {
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
		Key: key, Mode: s.Mode, Owner: s.Owner, TTL: s.TTL, Keep: s.Keep(),
		Guarded: s.Guarded, Pinned: last == isPinned, Apart: last == maybePinned, Client: c.number, Wants: waits,
		Fair: s.fair,
	}
	if s.Mode == driver.Slot {
		r.Slots, r.Slot = s.Slots, c.lastSlot(key)
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
		if err := badGrant(req, r); err != nil {
			r.Err = &driver.Error{Lasting: true, Err: fmt.Errorf("the store granted %q %w, which is out of range", req.Key, err)}
			break
		}
		if got < sent+s.AnswerWithin() {
			return c.hold(&granted{grant: grant.New(req.Key, req.ID, s.Terms, sent, r)}, r.Wanted)
		}
		r.Err = fmt.Errorf("the grant came after %v, too late for a TTL of %v", got-sent, s.TTL)
	case driver.Held:
		if req.Fair && r.Ahead > 0 {
			return nil, &HeldError{Key: req.Key, Waiting: r.Ahead, aheadLeft: r.Left}
		}
		return nil, &HeldError{Key: req.Key, Owner: r.Owner, Left: r.Left, Shared: r.Shared}
	case driver.Pinned:
		held := &HeldError{Key: req.Key, Owner: r.Owner, Pinned: true, Shared: r.Shared}
		if r.Apart && !req.Apart {
			return nil, &unsureError{held}
		}
		return nil, held
	}
	if !driver.IsNotApplied(r.Err) {
		c.report.Unknown.Fail(ctx, 1, logs.Attrs(req.Key, req.Mode, "hold", req.ID, "err", r.Err)...)
		if req.Mode == driver.Slot && r.Status != driver.Granted {
			r.Slot = -1 // not known
		}
		c.unresolved.Add(undo.Task{
			Hold: driver.Hold{
				Key: req.Key, ID: req.ID, Token: r.Token, Stored: r.Stored, TTL: s.TTL, Keep: s.Keep(),
				Guarded: s.Guarded, Mode: req.Mode, Slot: r.Slot, Phase: r.Phase, Undo: true,
			},
			Ctx:          ctx,
			Acknowledged: r.Status == driver.Granted,
			Sent:         got,
		})
	}
	if r.Err == nil {
		r.Err = errNoAnswer
	}
	return nil, r.Err
}

// badGrant is what is wrong with the numbers of a grant.
func badGrant(req *driver.Request, r driver.Result) error {
	switch {
	case r.Token <= 0 || r.Token > driver.MaxToken:
		return fmt.Errorf("with token %d", r.Token)
	case req.Mode == driver.Exclusive:
	case r.Phase <= 0 || r.Phase > driver.MaxToken:
		return fmt.Errorf("in a phase with token %d", r.Phase)
	case req.Mode == driver.Slot && (r.Slot < 0 || r.Slot >= req.Slots):
		return fmt.Errorf("with slot %d of %d", r.Slot, req.Slots)
	}
	return nil
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
		g.EndUnwanted((*user)(l))
		return nil, ErrClosed
	}
	return l, nil
}
