package rowlock

import "context"

// Context returns a child of parent (nil: of the background) that ends with the hold:
// context.Cause is then what Err says. Work under a lock should use it. Its Err looks at
// the clock, as Lease.Err does. No goroutine is started.
//
// The context of a function of [Do] also ends when its client is closed, with the cause
// ErrClosed, while the lease is still held. That of a nil Lease has ended.
func (l *Lease) Context(parent context.Context) context.Context {
	if l == nil {
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithCancelCause(parent)
		cancel(errNilLease)
		return ctx
	}
	return l.newContext(parent)
}

func (l *Lease) newContext(parent context.Context) *leaseContext {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel, forget := childOf(parent)
	lc := &leaseContext{Context: ctx, lease: l, cancel: cancel}
	l.mu.Lock()
	ended := l.ended
	if ended == nil {
		if l.contexts == nil {
			l.contexts = make(map[*leaseContext]struct{})
		}
		l.contexts[lc] = struct{}{}
	}
	l.mu.Unlock()
	if ended != nil {
		cancel(ended)
	}
	if forget != nil {
		context.AfterFunc(ctx, func() {
			l.mu.Lock()
			delete(l.contexts, lc) // where parent ended first: a long lease may see many
			l.mu.Unlock()
			forget()
		})
	}
	return lc
}

// childOf makes a child of parent whose cancel calls no method of parent, which may be the
// caller's own code: leases and groups end their contexts under locks, and where deadlines are
// kept. After its end the caller calls forget, in a goroutine of its own, so that parent forgets
// the child. nil: parent never ends, and knows nothing of it.
func childOf(parent context.Context) (child context.Context, cancel context.CancelCauseFunc, forget context.CancelFunc) {
	if parent.Done() == nil {
		child, cancel = context.WithCancelCause(context.WithoutCancel(parent))
		return child, cancel, nil
	}
	between, forget := context.WithCancel(parent)
	child, cancel = context.WithCancelCause(between)
	return child, cancel, forget
}

type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

// Err implements context.Context.
func (lc *leaseContext) Err() error {
	_ = lc.lease.Err() // ends the context if the trust deadline has passed
	return lc.Context.Err()
}

// lastLease asks a context for the innermost lease that it comes from.
type lastLease struct{}

// Value implements context.Context.
func (lc *leaseContext) Value(k any) any {
	if _, ok := k.(lastLease); ok {
		return lc
	}
	return lc.Context.Value(k)
}

// holds reports whether ctx comes from a lease of key of this client that is held.
func (c *Client) holds(ctx context.Context, key string) bool { return c.leaseIn(ctx, key) != nil }

// leaseIn is the innermost lease of key of this client that ctx comes from and that is
// held; nil: there is none.
func (c *Client) leaseIn(ctx context.Context, key string) *Lease {
	for {
		lc, ok := ctx.Value(lastLease{}).(*leaseContext)
		if !ok {
			return nil
		}
		if l := lc.lease; l.c == c && l.Key() == key && l.Err() == nil {
			return l
		}
		ctx = lc.Context
	}
}
