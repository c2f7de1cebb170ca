package rowlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Do runs fn while it holds key. It waits for the key for as long as ctx allows
// (with NoWait it tries once, and the error is that of TryAcquire: one that matches
// ErrHeld where another has it, or ErrReleasing), calls fn with a context that ends
// with the hold, returns only after fn did, and releases the key then: on a panic and
// on runtime.Goexit too.
//
// The error is fn's own. If the hold was lost before fn returned, it is joined
// with the *LostError, even if fn returned nil: what fn did may not have been
// alone. A failed release is logged by the Client, not returned: the key is free
// again after its TTL. Without a lease fn is not called and the error is Acquire's.
//
// [Client.Close] ends fn's context with the cause ErrClosed and waits for fn, for
// which the key stays held meanwhile: fn can finish what it has begun, also in a
// guarded transaction, with a context that has not ended (context.WithoutCancel).
//
// Give ctx an end and the Client a Logger: while the database does not answer, Do waits for it too, and without a Logger
// nothing says so. The run of a job that only one of many programs should do:
//
//	ctx, cancel := context.WithTimeout(ctx, time.Hour) // of the wait and of the job
//	defer cancel()
//	err := rowlock.Do(ctx, locks, "report", job, rowlock.NoWait(),
//		rowlock.MinHold(9*time.Minute)) // the tick is every 10 minutes: a bit less
//	if errors.Is(err, rowlock.ErrHeld) { return nil } // another has it, or had it at this tick
func Do(ctx context.Context, l Locker, key string, fn func(context.Context, *Lease) error, opts ...Option) error {
	if err := checkRun(ctx, "do", l, key, fn); err != nil {
		return err
	}
	lease, err := leaseOf(ctx, "do", l, key, opts)
	if err != nil {
		return err
	}
	r, open := runUnder(ctx, lease, fn)
	if !open {
		return fmt.Errorf("acquire %q: %w", key, ErrClosed)
	}
	return r.withLoss()
}

// checkRun checks the arguments of Do, Lead and Every that Acquire cannot.
func checkRun(ctx context.Context, verb string, l Locker, key string, fn func(context.Context, *Lease) error) error {
	switch {
	case l == nil:
		return fmt.Errorf("%s %q: %w: the Locker is nil", verb, key, ErrInvalid)
	case fn == nil:
		return fmt.Errorf("%s %q: %w: the function is nil", verb, key, ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%s %q: %w: the context is nil", verb, key, ErrInvalid)
	}
	return nil
}

// leaseOf is l.Acquire, whose answer is checked: l may be anybody's.
func leaseOf(ctx context.Context, verb string, l Locker, key string, opts []Option) (*Lease, error) {
	lease, err := l.Acquire(ctx, key, opts...)
	if err == nil && (lease == nil || lease.c == nil) {
		err = fmt.Errorf("%s %q: %w: the Locker (%T) gave neither a lease nor an error", verb, key, ErrInvalid, l)
	}
	return lease, err
}

// ran is how a function under a lease has ended.
type ran struct {
	err      error // the function's
	ended    error // what the lease said when the function had returned; nil: it was held
	released error // the answer to the release that came then
}

// withLoss is the function's error, joined with the *LostError of a hold that was lost before
// the function returned, whether that was known then or came out at the release.
func (r ran) withLoss() error {
	lost := r.ended
	if lost == nil {
		lost = r.released
	}
	if errors.Is(lost, ErrLost) && !errors.Is(r.err, lost) {
		return errors.Join(r.err, lost)
	}
	return r.err
}

// runUnder runs fn under a lease, with a context that ends with the hold, and then releases
// the lease: on a panic and on runtime.Goexit too. open is false, and fn not called, when the
// client's Close has begun.
func runUnder(ctx context.Context, lease *Lease, fn func(context.Context, *Lease) error) (r ran, open bool) {
	ctx = lease.holdStarts(ctx)
	running, open := lease.c.doBegins(lease, ctx)
	if !open {
		_ = lease.Release(ctx)
		return ran{}, false
	}
	defer func() {
		r.ended = lease.Err() // before the release, which sets it
		r.released = lease.Release(ctx)
		lease.c.doReturned(running) // after the release: Close would end the lease as lost
	}()
	r.err = fn(running, lease)
	return r, true
}

// doing are the functions of Do, Lead and Every that run.
type doing struct {
	mu      sync.Mutex
	running map[*leaseContext]struct{}
	closed  bool          // Close has begun
	done    chan struct{} // closed when Close has begun and none runs
}

// all are those that run now.
func (d *doing) all() []*leaseContext {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.running))
}

// doBegins registers a function of Do, Lead or Every on the lease that it runs under, whatever
// Locker that came from. It makes the function's context; false: Close has begun.
func (c *Client) doBegins(l *Lease, parent context.Context) (*leaseContext, bool) {
	running := l.newContext(parent)
	d := &c.doing
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false
	}
	if d.running == nil {
		d.running = make(map[*leaseContext]struct{})
	}
	d.running[running] = struct{}{}
	return running, true
}

func (c *Client) doReturned(running *leaseContext) {
	d := &c.doing
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, running)
	if d.closed && len(d.running) == 0 {
		close(d.done)
	}
}

// underDo reports whether a function of Do runs under l, or under the lease in whose
// context the view l was made.
func (c *Client) underDo(l *Lease) bool {
	c.doing.mu.Lock()
	defer c.doing.mu.Unlock()
	for ; l != nil; l = l.within() {
		for running := range c.doing.running {
			if running.lease == l {
				return true
			}
		}
	}
	return false
}

// insideDo is the key whose function of Do ctx comes from.
func (c *Client) insideDo(ctx context.Context) (key string, inside bool) {
	for {
		lc, ok := ctx.Value(lastLease{}).(*leaseContext)
		switch {
		case !ok:
			return "", false
		case lc.lease.c == c && c.underDo(lc.lease):
			return lc.lease.Key(), true
		}
		ctx = lc.Context
	}
}
