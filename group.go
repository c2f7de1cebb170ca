package rowlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rowlock/rowlock/internal/grant"
)

// Group is the leases of one AcquireAll. It ends when the first of them ends, or by Release;
// after a loss the other leases are held, and renewed, until Release. All methods are safe
// for concurrent use, and for use after the end. Make with AcquireAll.
type Group struct {
	c      *Client
	leases []*Lease // in the order of wants

	mu       sync.Mutex
	ended    error // nil: no lease has ended
	released bool  // Release was called
	done     chan struct{}
	contexts map[*groupContext]struct{}
}

// errNilGroup: what AcquireAll returns beside an error was used.
var errNilGroup = fmt.Errorf("%w: the Group is nil: was the error of AcquireAll looked at?", ErrInvalid)

// newGroup makes a group of leases that are held, or were.
func newGroup(c *Client, leases []*Lease) *Group {
	g := &Group{c: c, leases: leases}
	for _, l := range leases {
		l.mu.Lock()
		ended := l.ended
		if ended == nil {
			l.group = g
		}
		l.mu.Unlock()
		if ended != nil {
			g.leaseEnded(l, ended)
		}
	}
	return g
}

// leaseEnded notes the end of a lease: Err, Done and the contexts.
func (g *Group) leaseEnded(l *Lease, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil {
		return
	}
	if err == ErrReleased && !g.released {
		err = fmt.Errorf("lease of %q: %w", l.Key(), err)
	}
	g.ended = err
	if g.done != nil {
		close(g.done)
	}
	for ctx := range g.contexts {
		ctx.cancel(err)
	}
	g.contexts = nil
}

// Leases are those of the group, in the order in which their keys were wanted. They are
// ordinary leases: each has its token and may be given to a guard. One that is released by
// itself ends the group.
func (g *Group) Leases() []*Lease {
	if g == nil {
		return nil
	}
	return append([]*Lease(nil), g.leases...)
}

// Done is closed when the first lease of the group ends, released or lost.
func (g *Group) Done() <-chan struct{} {
	if g == nil {
		return closedDone
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done == nil {
		g.done = make(chan struct{})
		if g.ended != nil {
			close(g.done)
		}
	}
	return g.done
}

// closedDone is the Done of a nil Group.
var closedDone = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// Err is nil while all keys are held. It looks at the clock each time, as Lease.Err does.
// Afterwards it is what ended the first lease that ended: ErrReleased after Release, else a
// *LostError, or an error that matches ErrReleased and names the key whose lease was
// released by itself.
func (g *Group) Err() error {
	if g == nil {
		return errNilGroup
	}
	if err := g.end(); err != nil {
		return err
	}
	for _, l := range g.leases {
		_ = l.Err() // ends the group if the trust deadline has passed
	}
	return g.end()
}

func (g *Group) end() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// Release ends all leases of the group and frees their keys, by one call of the store where
// they fit. None of them is handed on to a caller of this client by itself. In everything
// else it is as [Lease.Release]: it may be called more than once and from a defer, and the
// answer is the same ever after: nil, or the *LostError of each lease that was lost before,
// joined. Release of a nil Group is nil.
func (g *Group) Release(ctx context.Context) error {
	if g == nil {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	_ = g.Err() // a loss that the clock says came first
	g.mu.Lock()
	g.released = true
	g.mu.Unlock()
	o := g.c.opts
	released := g.c.store.Work.Do(func() {
		grant.ReleaseAll(ctx, usedBy(g.leases), o.ReleaseWait, o.ReleaseAsync)
	})
	var lost []error
	for _, l := range g.leases {
		if !released && l.Err() == nil {
			l.g.End(grant.Closed, nil)
		}
		if err := l.releaseAnswer(); err != nil {
			lost = append(lost, err)
		}
	}
	if len(lost) == 1 {
		return lost[0]
	}
	return errors.Join(lost...)
}

// usedBy are the grants of leases.
func usedBy(leases []*Lease) []grant.Used {
	used := make([]grant.Used, len(leases))
	for i, l := range leases {
		used[i] = grant.Used{Grant: l.g, User: (*user)(l)}
	}
	return used
}

// Context returns a child of parent (nil: of the background) that ends with the group:
// context.Cause is then what Err says. Its Err looks at the clock. It comes from every lease
// of the group: Acquire of one of the keys with it is ErrSelfDeadlock, or a view with
// Reentrant.
func (g *Group) Context(parent context.Context) context.Context {
	if parent == nil {
		parent = context.Background()
	}
	if g == nil {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(errNilGroup)
		return ctx
	}
	ctx, cancel, forget := childOf(parent)
	gc := &groupContext{Context: ctx, group: g, cancel: cancel}
	for _, l := range g.leases {
		from := parent
		if gc.innermost != nil {
			from = gc.innermost
		}
		gc.innermost = &leaseContext{Context: from, lease: l}
	}
	g.mu.Lock()
	ended := g.ended
	if ended == nil {
		if g.contexts == nil {
			g.contexts = make(map[*groupContext]struct{})
		}
		g.contexts[gc] = struct{}{}
	}
	g.mu.Unlock()
	if ended != nil {
		cancel(ended)
	}
	if forget != nil {
		context.AfterFunc(ctx, func() {
			g.mu.Lock()
			delete(g.contexts, gc) // where parent ended first
			g.mu.Unlock()
			forget()
		})
	}
	return gc
}

type groupContext struct {
	context.Context
	group     *Group
	cancel    context.CancelCauseFunc
	innermost *leaseContext // of a chain that has a context of each lease: what Acquire looks for
}

// Err implements context.Context.
func (gc *groupContext) Err() error {
	_ = gc.group.Err() // ends the context if a trust deadline has passed
	return gc.Context.Err()
}

// Value implements context.Context.
func (gc *groupContext) Value(k any) any {
	if _, ok := k.(lastLease); ok && gc.innermost != nil {
		return gc.innermost
	}
	return gc.Context.Value(k)
}
