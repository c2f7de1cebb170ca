package rowlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/undo"
)

// The events of a key that come from its attempts, probes and grants. Those of the stream are
// in watcher.go, those of the server's queue in serverqueue.go.

// answered moves the key after the answer to an attempt for a caller with the settings s.
// gate is the ID of the attempt if its gate stands, took how long it took, ctx is that caller's.
func (k *keyEntry) answered(ctx context.Context, s settings, lease *Lease, err error, gate driver.HoldID, took time.Duration) {
	c := k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var before undo.Left
	if k.sent != nil {
		c.attempts.remove(k.sent)
		before = k.sent.before
	}
	if k.givenUp {
		k.givenUp = false
		c.givenUpEnds(k.id)
	}
	k.sent = nil
	if lease != nil || c.turner == nil {
		k.leaveQueue()
	}
	if lease != nil && k.id.mode != driver.Exclusive {
		k.endTurn() // it was for the attempt: others may have the key beside this hold
	}
	held := refusal(err)
	if lease != nil || held != nil {
		k.fails(false)
		c.report.Acquire.OK()
		k.gate = gate // a grant ends it
		if c.closed || len(k.waiters) == 0 {
			k.clearGate()
		}
	}
	switch {
	case lease != nil:
		// The caller may have left; the next one gets the lease if it asked for the same.
		if k.serve(lease, s) {
			k.dropTicket()
		} else {
			defer c.giveBack(lease)
		}
		k.step(key.Event{Kind: key.Granted})
		if len(k.waiters) == 0 {
			k.stop()
		}
	case len(k.waiters) == 0:
		c.forget(k)
	case errors.Is(err, ErrClosed) || driver.IsLasting(err):
		k.pop(nil, err)
		k.step(key.Event{Kind: key.Left})
		if len(k.waiters) > 0 {
			k.step(key.Event{Kind: key.Again}) // the next caller gets the error of an attempt of its own
		}
	case held != nil:
		c.watcher.start()
		k.noteRefusal(held, before)
		k.step(key.Event{
			Kind: key.Refused, Left: max(held.Left, held.aheadLeft), Pinned: held.Pinned, Apart: unsure(err),
			Phase: held.Shared, Gated: gate != driver.HoldID{}, Ahead: held.Waiting,
		})
	default:
		k.noteCause(err)
		k.fails(true)
		c.report.Acquire.Fail(ctx, 0, logs.Attrs(k.id.name, k.id.mode, "err", err)...)
		k.step(key.Event{Kind: key.Failed, Silent: driver.IsSilent(err), Took: took})
	}
}

// serve gives the lease of an attempt with the settings s to the caller that is next, and to
// all readers that asked for the same one each on its grant; false: there is no such caller.
func (k *keyEntry) serve(lease *Lease, s settings) bool {
	next := 0
	if k.id.mode != driver.Exclusive { // they have no order
		next = slices.IndexFunc(k.waiters, func(w *waiter) bool { return w.set == s })
	}
	if next < 0 || len(k.waiters) == 0 || k.waiters[next].set != s {
		return false
	}
	k.popAt(next, lease)
	k.Waiting--
	for i := 0; k.id.mode == driver.Shared && i < len(k.waiters); {
		if k.waiters[i].set != s {
			i++
			continue
		}
		l := k.c.beside(lease.g, s.Terms)
		if l == nil {
			break
		}
		k.popAt(i, l)
		k.Waiting--
	}
	return true
}

// giveBack ends a grant that reached no caller.
func (c *Client) giveBack(l *Lease) {
	c.store.Work.Fork(func() { l.g.EndUnwanted((*user)(l)) })
}

// probed moves the key after a probe of it. before: see Client.metOwn.
func (k *keyEntry) probed(info driver.Info, err error, before undo.Left) {
	c := k.c
	switch {
	case k.Mode != key.Resting && k.Mode != key.Queued || k.probe.index > 0 || len(k.waiters) == 0:
		return // moved on meanwhile
	case err != nil:
		k.noteCause(err)
		k.fails(true)
		c.report.Acquire.Fail(context.Background(), 0, logs.Attrs(k.id.name, k.id.mode, "err", err)...)
		k.step(key.Event{Kind: key.ProbeFailed, Lasting: driver.IsLasting(err)})
		return
	}
	k.fails(false)
	free := k.freeFor(info)
	if !free {
		k.noteRefusal(&HeldError{
			Key: k.id.name, Owner: info.Owner, Left: info.Left, Pinned: info.Pinned,
			Shared: info.InPhase() && k.id.mode == driver.Exclusive,
		}, before)
		if k.Held == 0 || k.id.mode != driver.Exclusive {
			c.watcher.start()
		}
	}
	k.step(key.Event{
		Kind: key.Probed, Free: free, Kept: info.Kept && !info.InPhase(), Token: info.Token, Left: info.Left, Pinned: info.Pinned,
		Hint: info.Wanted, Phase: info.InPhase(), Gated: info.Gated,
	})
}

// grantBegan notes that a grant of this client has begun. Called under c.mu.
func (c *Client) grantBegan(g *grant.Grant, hint driver.Hint) {
	k := c.key(idOf(g))
	k.grants = append(k.grants, g)
	c.observers.wake(k.id.name)
	k.step(key.Event{Kind: key.Began, Token: g.Hold.Stored, Hint: hint, Known: hint.Client != 0})
}

// grantReleasing notes that the release of a grant is about to be sent. It reports whether it
// is of use to know whether another wants the key.
func (c *Client) grantReleasing(g *grant.Grant) (asks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[idOf(g)]
	if k == nil {
		return false
	}
	k.step(key.Event{Kind: key.ReleaseSent})
	switch now := c.now(); k.id.mode {
	case driver.Exclusive:
		return k.Waiting > 0 || k.Hinted(now)
	case driver.Slot:
		return k.AsksSlot(now, k.env())
	}
	return false
}

// grantEnded notes that a grant has ended, and that its release was answered.
func (c *Client) grantEnded(g *grant.Grant, o grant.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := idOf(g)
	c.observers.wake(id.name)
	k := c.keys[id]
	if k == nil {
		return
	}
	if i := slices.Index(k.grants, g); i >= 0 {
		k.grants = slices.Delete(k.grants, i, i+1)
	}
	k.noteSlot(g)
	k.step(key.Event{Kind: key.Ended, Lost: o.Lost, Hint: o.Hint, Known: o.Known})
	c.forget(k)
	c.wakeOthers(id)
}

// refusal is the *HeldError in err; nil: there is none.
func refusal(err error) *HeldError {
	if err == nil {
		return nil
	}
	var held *HeldError
	errors.As(err, &held)
	return held
}

// fails notes whether the database answers about the key.
func (k *keyEntry) fails(now bool) {
	switch {
	case now && !k.failing:
		k.c.report.Acquire.More(1)
	case !now && k.failing:
		k.c.report.Acquire.Less(1)
	}
	k.failing = now
}

// noteCause notes why the key cannot be had now, for the error of a wait that ends.
func (k *keyEntry) noteCause(err error) {
	for _, w := range k.waiters {
		w.last, w.metOwn = err, false
		if w.noRoom != nil && w.full == nil && driver.IsNoRoom(err) {
			w.full = err
			w.noRoom <- struct{}{}
		}
	}
}

// noteRefusal is noteCause of an attempt or a probe that was told that the key is held. before: see metOwn.
func (k *keyEntry) noteRefusal(held *HeldError, before undo.Left) {
	own := k.c.metOwn(k.id, held, before)
	for _, w := range k.waiters {
		w.last, w.metOwn = held, own
	}
}
