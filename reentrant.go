package rowlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// A view is a Lease that stands for another one of the same caller: it has that one's
// token and end, and counts for nothing. The grant knows the first lease only.

// Reentrant is for functions that call each other and lock the same key: where ctx comes from a
// live lease of this client on the key (see [Lease.Context]), Acquire, TryAcquire and Do succeed
// at once. The new Lease is a view of
// that one. It has its token and its end: when the first lease ends, released or lost, every
// view of it ends with the same error. Release of a view ends the view only. Renew, and a
// guard through the view, are the first lease's. Nothing is sent to the database. A view in
// the context of a view is one of the first lease too.
//
// How the key is held was said when the first lease was acquired: TTL, MaxHold, NoRenew and
// Owner beside Reentrant are for the case that ctx has no such lease, and a view ignores
// them. What the first lease cannot give is ErrInvalid: Guarded where it was acquired
// without, a MinHold longer than its own, Slots of fewer places than its own. An exclusive or
// a Shared lease has views for Shared, one of Slots those for Slots, an exclusive one those
// without an option; in another mode the caller would wait for the lease: ErrSelfDeadlock.
//
// Without the option the same Acquire is ErrSelfDeadlock, because most often it is a
// mistake. Where ctx comes from no such lease it is an ordinary one.
func Reentrant() Option { return func(s *settings) { s.reentrant = true } }

// view says what a Lease is a view of. It is constant.
type view struct {
	of     *Lease // the first lease: the grant's user
	within *Lease // in whose context it was made: of, or a view of it
}

// first is the lease of which l is a view, or l.
func (l *Lease) first() *Lease {
	if l.view != nil {
		return l.view.of
	}
	return l
}

// within is the lease in whose context the view l was made; nil: l is no view.
func (l *Lease) within() *Lease {
	if l.view != nil {
		return l.view.within
	}
	return nil
}

// errNoLease: there is nothing to make a view of.
var errNoLease = errors.New("the context comes from no live lease of the key")

// viewIn makes a view of the live lease of key that ctx comes from, or gives errNoLease.
func (c *Client) viewIn(ctx context.Context, key string, s settings) (*Lease, error) {
	l := c.leaseIn(ctx, key)
	if l == nil {
		return nil, errNoLease
	}
	switch has := l.g.Terms; {
	case s.Mode != has.Mode && !(s.Mode == driver.Shared && has.Mode == driver.Exclusive):
		return nil, fmt.Errorf("acquire %q (%v): %w: the lease that the context comes from is %v", key, s.Mode, ErrSelfDeadlock, has.Mode)
	case s.Slots < has.Slots:
		return nil, fmt.Errorf("acquire %q: %w: Slots(%d) with Reentrant: the lease that the context comes from was acquired with Slots(%d): use at least as many", key, ErrInvalid, s.Slots, has.Slots)
	case s.Guarded && !has.Guarded:
		return nil, fmt.Errorf("acquire %q: %w: Guarded with Reentrant: the lease that the context comes from was acquired without Guarded: acquire that one with it", key, ErrInvalid)
	case s.MinHold > has.MinHold:
		return nil, fmt.Errorf("acquire %q: %w: MinHold %v with Reentrant: the lease that the context comes from was acquired with MinHold %v: acquire that one with the longer", key, ErrInvalid, s.MinHold, has.MinHold)
	}
	return l.newView()
}

// newView makes a view of a lease, or gives errNoLease where that has ended meanwhile.
func (l *Lease) newView() (*Lease, error) {
	first := l.first()
	v := &Lease{c: l.c, g: l.g, token: first.token, began: l.c.now(), view: &view{of: first, within: l}}
	first.mu.Lock()
	defer first.mu.Unlock()
	if first.ended != nil {
		return nil, errNoLease
	}
	if first.views == nil {
		first.views = make(map[*Lease]struct{})
	}
	first.views[v] = struct{}{}
	return v, nil
}

// releaseView ends a view, and is what every Release of it gives.
func (l *Lease) releaseView() error {
	if l.Err() == nil && l.ends(ErrReleased, false) { // Err looks at the clock
		first := l.first()
		first.mu.Lock()
		delete(first.views, l)
		first.mu.Unlock()
	}
	if err := l.end(); err != ErrReleased {
		return err
	}
	return nil
}
