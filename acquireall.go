package rowlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/keys"
)

// AcquireAll asks for all its keys at once. Where some are refused it keeps what it got below
// the first refused key, in the order of the keys' bytes, gives the rest back, waits for that
// key as any caller of Acquire does, and asks for the rest again. So it waits only for a key
// that is larger than all that it has: callers that wait for each other cannot form a circle,
// and each gets on.
//
// Where each hold needs a connection (driver.Error.NoRoom) those are one more thing that callers
// wait for, in no order. So whoever cannot get the next one gives back all that it has, waits for
// a random time, and begins again.

// AcquireAll waits until all keys are held, and returns their leases: all of them or none.
// It takes them in the order of their bytes, whatever their order here, so calls whose keys
// overlap never wait for each other in a circle. That is not so for a caller that has a
// lease while it calls AcquireAll or Acquire for another key: to avoid a circle among those is
// the program's affair.
//
// opts are for all keys, Want.Options for one: Shared for "tenant/7", say, and an exclusive
// hold of "tenant/7/report". TTL, MaxHold, NoRenew and NoWait can only be
// for all; Reentrant for none. With NoWait it is TryAcquireAll. While it waits it holds some
// of the keys, except with MaxHold, with NoRenew, and where the store's number of holds is
// limited (SelectForUpdate in a bounded pool): then it holds none. If one is lost meanwhile,
// or the database has no connection left for one (SelectForUpdate), it starts again. Where nobody else wants the keys all are taken by one call of the store.
// The leases of a group are never handed on one by one to other callers of this client.
//
// ctx bounds the wait, never the hold. Errors are those of Acquire. ErrInvalid also: no key,
// a key twice (in whatever modes), more keys than the store takes in one call or can hold at a time, an option
// that is nil or cannot be given here. ErrSelfDeadlock: ctx comes from a lease of one of the
// keys. After an error nothing is held.
func (c *Client) AcquireAll(ctx context.Context, wants []Want, opts ...Option) (*Group, error) {
	g, err := c.acquireAll(ctx, wants, opts, false)
	if err != nil {
		return nil, err
	}
	for _, l := range g.leases {
		l.noteCallSite()
	}
	return g, nil
}

// TryAcquireAll is AcquireAll that tries once: if another has one of the keys the error is a
// *HeldError that names it and matches ErrHeld, and all others have been given back. Any
// other error means that nothing is held, as for TryAcquire.
func (c *Client) TryAcquireAll(ctx context.Context, wants []Want, opts ...Option) (*Group, error) {
	g, err := c.acquireAll(ctx, wants, opts, true)
	if err != nil {
		return nil, err
	}
	for _, l := range g.leases {
		l.noteCallSite()
	}
	return g, nil
}

// acquisition is a call of AcquireAll under way.
type acquisition struct {
	c     *Client
	ctx   context.Context
	keys  []groupKey // in the order of their bytes
	keeps bool       // holds what is below the key that it waits for
	back  []*Lease   // given back, and maybe not answered yet
	full  int        // how often there was no connection left for a key
	lacks error      // that of the last time, until it waits for a key that another has
}

func (c *Client) acquireAll(ctx context.Context, wants []Want, opts []Option, once bool) (*Group, error) {
	keys, set, err := c.groupKeys(ctx, wants, opts)
	if err != nil {
		return nil, err
	}
	once = once || set.noWait
	a := &acquisition{c: c, ctx: ctx, keys: keys, keeps: set.MaxHold == 0 && !set.NoRenew}
	if !once {
		for _, k := range keys {
			if c.holds(ctx, k.name) {
				return nil, fmt.Errorf("acquire %q: %w", k.name, ErrSelfDeadlock)
			}
		}
	}
	if s, ok := c.store.Driver().(driver.HoldLimiter); ok {
		exclusive := 0
		for _, k := range keys {
			if k.set.Mode == driver.Exclusive {
				exclusive++
			}
		}
		if most := s.HoldLimit(); most > 0 && exclusive > most {
			return nil, fmt.Errorf("acquire all: %w: %d exclusive keys: the store can hold %d at a time: give its pool more connections", ErrInvalid, exclusive, most)
		} else if most > 0 {
			a.keeps = false // groups that hold some would keep the room from each other
		}
	}
	for i := range keys {
		k := &keys[i]
		k.watched = c.watch(ctx, k.name, k.set, once)
	}
	for _, k := range keys {
		c.awaitOwnRelease(ctx, k.name, k.set.Mode)
	}
	var g *Group
	if once {
		g, err = a.once()
	} else {
		g, err = a.wait()
	}
	for _, k := range keys {
		k.watched.end(k.lease, err)
	}
	return g, err
}

// once tries once for all keys.
func (a *acquisition) once() (*Group, error) {
	if a.try(len(a.keys)) < 0 {
		if g := newGroup(a.c, a.leases()); g.Err() == nil {
			return g, nil
		}
	}
	var failed error
	var refused *groupKey
	for i := range a.keys {
		k := &a.keys[i]
		switch {
		case k.lease != nil && failed == nil:
			if lost := k.lease.Err(); lost != nil { // before all were held
				failed = fmt.Errorf("acquire all: %w", lost)
			}
		case k.refused != nil && !k.refused.OwnRelease && refused == nil:
			refused = k
		case k.err != nil && failed == nil:
			failed = k.err
		}
	}
	a.giveBack(0)
	a.awaitBack()
	if refused != nil {
		named := a.c.table.WhoHas(a.ctx, keys.ID{Name: refused.name, Mode: refused.set.Mode}, refused.set.Slots, refused.refused)
		return nil, fmt.Errorf("acquire %q: %w", refused.name, toldOf(refused.name, named))
	}
	return nil, failed
}

// wait gets all keys.
func (a *acquisition) wait() (*Group, error) {
	for {
		a.awaitBack()
		most, refused, began := 0, -1, a.c.now()
		if !a.over() {
			most = a.open()
			refused = a.try(most)
		}
		if err := a.failed(); err != nil {
			a.giveBack(0)
			return nil, err
		}
		if refused < 0 && most == len(a.keys) {
			g := newGroup(a.c, a.leases())
			if g.Err() == nil {
				return g, nil
			}
			a.giveBack(0) // one was lost: once more
			continue
		}
		if refused < 0 {
			refused = most
		} else if err := a.keys[refused].err; driver.IsNoRoom(err) {
			a.makeRoom(err, a.c.now()-began)
			continue
		}
		a.lacks = nil
		if a.keeps {
			a.giveBack(refused + 1)
		} else {
			a.giveBack(0)
		}
		switch err := a.waitFor(&a.keys[refused]); {
		case driver.IsNoRoom(err):
			a.makeRoom(err, 0)
		case err != nil:
			a.giveBack(0)
			return nil, err
		}
	}
}

// leastRoomPause and mostRoomPause bound how long makeRoom waits.
const (
	leastRoomPause = 50 * time.Millisecond
	mostRoomPause  = 5 * time.Second
)

// makeRoom gives all back and waits for a random time, more after each time: others that do so
// too are then not all at it again at once. took is how long it took to find out that there is
// no room: so long others lack what this call had.
func (a *acquisition) makeRoom(why error, took time.Duration) {
	a.lacks = why
	a.giveBack(0)
	a.awaitBack()
	most := max(leastRoomPause, 2*took)
	for range min(a.full, 7) {
		most = min(2*most, mostRoomPause)
	}
	a.full++
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.ctx.Done():
	case <-a.c.open.Done():
	}
}

// over reports whether ctx or the client has ended.
func (a *acquisition) over() bool { return a.ctx.Err() != nil || a.c.isClosed() }

// open is how many keys, from the first on, are worth an attempt at once. One that another
// caller of this client has in a mode that excludes this one, or waits for in the same mode, or
// that this client leaves to another program for a moment, is waited for as Acquire does.
func (a *acquisition) open() int {
	for i, k := range a.keys {
		if k.lease == nil && !a.c.table.MayBeFree(keys.ID{Name: k.name, Mode: k.set.Mode}) {
			return i
		}
	}
	return len(a.keys)
}

// try makes one attempt for each of the first n keys that is not held. It returns the index
// of the first that was not granted, or -1.
func (a *acquisition) try(n int) (refused int) {
	var wanted []keys.Caller
	var at []int
	for i := range a.keys[:n] {
		k := &a.keys[i]
		k.err, k.refused = nil, nil
		if k.lease == nil {
			wanted, at = append(wanted, k.watched.caller(a.ctx, k.set.ask(k.name))), append(at, i)
		}
	}
	if len(wanted) == 0 {
		return -1
	}
	waiters := a.c.table.JoinAll(wanted)
	refused = -1
	for j, i := range at {
		k := &a.keys[i]
		if waiters == nil {
			k.err = fmt.Errorf("acquire %q: %w", k.name, ErrClosed)
		} else if k.lease, k.refused, k.err = a.c.leaseFor(a.ctx, k.name, waiters[j]); k.err == nil {
			k.lease.g.NeverHandOff()
		} else {
			k.err = fmt.Errorf("acquire %q: %w", k.name, k.err)
		}
		if k.err != nil && refused < 0 {
			refused = i
		}
	}
	return refused
}

// failed is why the wait ends: ctx has ended, or the client is closed, or the database will
// answer the last try the same next time; nil: it goes on.
func (a *acquisition) failed() error {
	var passing error
	for _, k := range a.keys {
		switch {
		case k.err == nil:
		case errors.Is(k.err, ErrClosed), driver.IsLasting(k.err):
			return k.err
		case passing == nil || errors.Is(k.err, ErrHeld) && !errors.Is(passing, ErrHeld):
			passing = k.err
		}
	}
	switch {
	case a.c.isClosed():
		return fmt.Errorf("acquire %q: %w", a.keys[0].name, ErrClosed)
	case a.ctx.Err() == nil:
		return nil
	case passing != nil && errors.Is(passing, a.ctx.Err()) && a.lacks != nil: // it ended the try after
		return fmt.Errorf("%w: %w", passing, a.lacks)
	case passing != nil && errors.Is(passing, a.ctx.Err()):
		return passing
	case passing != nil: // why a key could not be had last
		return fmt.Errorf("acquire all: %w: %w", waitError(a.ctx, nil), passing)
	}
	return fmt.Errorf("acquire all: %w", waitError(a.ctx, a.lacks))
}

// waitFor waits for one key, which is larger than all that are held. If one of those is lost
// meanwhile all are given back, and the wait is over without an error. It ends too when there is
// no connection left for the key: see makeRoom.
func (a *acquisition) waitFor(k *groupKey) error {
	within, cancel := context.WithCancel(a.ctx)
	defer cancel()
	held := newGroup(a.c, a.leases())
	lease, err := a.c.waitInRoom(held.Context(within), k)
	if err == nil {
		lease.g.NeverHandOff()
		k.lease, k.err = lease, nil
	}
	if held.Err() == nil {
		return err
	}
	a.giveBack(0)
	if driver.IsLasting(err) {
		return err
	}
	return nil
}

// waitInRoom gets the key for a caller that has others. It ends when there is no connection
// left for it, with that error.
func (c *Client) waitInRoom(ctx context.Context, k *groupKey) (*Lease, error) {
	w := c.table.JoinInRoom(k.watched.caller(ctx, k.set.ask(k.name)))
	if w == nil {
		return nil, fmt.Errorf("acquire %q: %w", k.name, ErrClosed)
	}
	lease, _, err := c.leaseFor(ctx, k.name, w)
	return lease, err
}

// leases are those that are held, in the order of wants.
func (a *acquisition) leases() []*Lease {
	all := make([]*Lease, len(a.keys))
	for _, k := range a.keys {
		all[k.at] = k.lease
	}
	return slices.DeleteFunc(all, func(l *Lease) bool { return l == nil })
}

// giveBack gives the leases of keys back, from the index on. It does not wait.
func (a *acquisition) giveBack(from int) {
	var leases []*Lease
	for i := from; i < len(a.keys); i++ {
		if k := &a.keys[i]; k.lease != nil {
			leases = append(leases, k.lease)
			k.lease = nil
		}
	}
	if len(leases) == 0 {
		return
	}
	c := a.c
	released := c.store.Work.Do(func() { grant.GiveBack(a.ctx, usedBy(leases), c.opts.ReleaseWait) })
	if !released {
		for _, l := range leases {
			l.g.EndUnwanted((*user)(l))
		}
	}
	a.back = append(a.back, leases...)
}

// awaitBack waits until what was given back is free again: an attempt would find it held.
func (a *acquisition) awaitBack() {
	for _, l := range a.back {
		l.g.AwaitRelease(a.ctx, a.c.opts.ReleaseWait)
	}
	a.back = nil
}
