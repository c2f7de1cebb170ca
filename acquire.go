package rowlock

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// Acquire waits until key is held and returns its lease. The lease is renewed in
// the background until Release, or until it is lost; see Lease.Err.
//
// ctx bounds the wait, never the hold. When it ends first the error matches
// ctx.Err(), and also ErrHeld if the key was last seen held by another, else the
// last cause. A failure that will not pass (ErrSchema, wrong credentials) comes
// back at once; one that may pass (connection lost, failover) is tried again
// until ctx ends. Other errors: ErrInvalid, ErrClosed, and ErrSelfDeadlock if ctx
// comes from a lease of the same key. After an error nothing is held: if the
// outcome of a statement is not known it is undone in the background.
//
// The callers of one Client get a key in the order in which they asked.
func (c *Client) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	s, err := c.prepare(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if s.noWait {
		return c.tryOnce(ctx, key, s)
	}
	if ctx.Value(heldKey{c, key}) != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, ErrSelfDeadlock)
	}
	return c.wait(ctx, key, s)
}

// TryAcquire tries once. If another has the key the error is a *HeldError and
// matches ErrHeld. Any other error means that nothing is held and that the
// attempt, if it may have reached the database, is undone in the background:
// ErrInvalid, ErrClosed, ErrSchema, ctx's, the database's own. ctx bounds the
// wait for the answer. It does not queue behind the waiters of Acquire.
func (c *Client) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	s, err := c.prepare(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return c.tryOnce(ctx, key, s)
}

// prepare checks what can be checked before anything is sent.
func (c *Client) prepare(ctx context.Context, key string, opts []Option) (settings, error) {
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

// tryOnce makes one attempt. A caller that gives up leaves the statement running
// to its answer; a grant that comes then is undone.
func (c *Client) tryOnce(ctx context.Context, key string, s settings) (*Lease, error) {
	type answer struct {
		lease *Lease
		err   error
	}
	answers := make(chan answer)
	gone := make(chan struct{})
	if !c.goWork(func() {
		lease, err := c.attempt(key, s, false)
		select {
		case answers <- answer{lease, err}:
		case <-gone:
			if err == nil {
				c.giveBack(lease)
			}
		}
	}) {
		return nil, fmt.Errorf("acquire %q: %w", key, ErrClosed)
	}
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, fmt.Errorf("acquire %q: %w", key, a.err)
		}
		return a.lease, nil
	case <-ctx.Done():
		close(gone)
		return nil, fmt.Errorf("acquire %q: %w", key, waitError(ctx, nil))
	case <-c.open.Done():
		close(gone)
		return nil, fmt.Errorf("acquire %q: %w", key, ErrClosed)
	}
}

// waitError is ctx's error joined with what stood in the way.
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

// attempt sends one acquire and reads its answer: a lease, a *HeldError, or
// another error after which the attempt was undone if it may have been applied.
// No caller's context reaches the store: a session or transaction in it would
// pull the statement in, and its end would make the outcome unknown.
func (c *Client) attempt(key string, s settings, pinned bool) (*Lease, error) {
	var id driver.HoldID
	rand.Read(id[:]) // never fails
	req := driver.Request{
		Key: key, ID: id, Owner: c.opts.Owner, TTL: s.ttl, Keep: s.minHold,
		Guarded: s.guarded, Pinned: pinned,
	}
	start := c.now()
	ctx, cancel := context.WithTimeout(c.life, s.ttl-s.margin)
	c.calls.Add(1)
	results, err := c.store.Acquire(ctx, []driver.Request{req})
	cancel()
	end := c.now()
	var r driver.Result
	switch {
	case err != nil:
		r.Err = err
	case len(results) != 1:
		r.Err = fmt.Errorf("the store gave %d answers for one key", len(results))
	default:
		r = results[0]
	}
	switch r.Status {
	case driver.Granted:
		if end < start+s.ttl-s.margin {
			lease := c.newLease(key, id, s, start, r)
			if err := c.hold(lease); err != nil {
				return nil, err
			}
			return lease, nil
		}
		r.Err = fmt.Errorf("the grant came after %v, too late for a TTL of %v", end-start, s.ttl)
	case driver.Held:
		return nil, &HeldError{Key: key, Owner: r.Owner, Left: r.Left}
	case driver.Pinned:
		return nil, &HeldError{Key: key, Owner: r.Owner, Pinned: true}
	}
	if !driver.IsNotApplied(r.Err) {
		c.log.Warn("outcome of an acquire is unknown; undoing it", "key", key, "hold", id, "err", r.Err)
		c.undoer.add(undoTask{
			hold: driver.Hold{
				Key: key, ID: id, Token: r.Token, Stored: r.Stored, TTL: s.ttl, Keep: s.minHold,
				Guarded: s.guarded, Undo: true,
			},
			acknowledged: r.Status == driver.Granted,
			sent:         end,
		})
	}
	if r.Err == nil {
		r.Err = errNoAnswer
	}
	return nil, r.Err
}

// hold takes a granted lease into care. If the client was closed meanwhile it is
// given back.
func (c *Client) hold(l *Lease) error {
	c.keeper.add(l) // before the look at closed: Close ends what it finds in care
	c.mu.Lock()
	closed := c.closed
	c.local[l.hold.Key]++
	if !closed {
		c.startReaping()
	}
	c.mu.Unlock()
	if closed {
		c.giveBack(l)
		return ErrClosed
	}
	c.log.Debug("acquired", "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID)
	return nil
}

// giveBack ends a lease that reached no caller, without its MinHold.
func (c *Client) giveBack(l *Lease) {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return // lost meanwhile, which has undone it
	}
	l.endLocked(ErrReleased)
	l.mu.Unlock()
	c.keeper.remove(l)
	h := l.hold
	h.Undo = true
	c.undoer.add(undoTask{hold: h, acknowledged: true, sent: c.now()})
	c.localEnd(h.Key)
}
