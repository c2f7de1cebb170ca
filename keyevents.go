package rowlock

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// The events of a key that come from its attempts, probes and grants. Those of the stream are
// in watcher.go, those of the server's queue in serverqueue.go.

// answered moves the key after the answer to an attempt for a caller with the settings s.
// took is how long the attempt took, ctx is that caller's.
func (k *keyEntry) answered(ctx context.Context, s settings, lease *Lease, err error, took time.Duration) {
	c := k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.sent != nil {
		c.attempts.remove(k.sent)
	}
	k.sent = nil
	if lease != nil || c.turner == nil {
		k.leaveQueue()
	}
	held := refusal(err)
	if lease != nil || held != nil {
		k.fails(false)
		c.report.Acquire.OK()
	}
	switch {
	case lease != nil:
		// The caller may have left; the next one gets the lease if it asked for the same.
		if len(k.waiters) > 0 && k.waiters[0].set == s {
			k.pop(lease, nil)
			k.Waiting--
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
		k.noteCause(held)
		k.step(key.Event{Kind: key.Refused, Left: held.Left, Pinned: held.Pinned, Apart: unsure(err)})
	default:
		k.noteCause(err)
		k.fails(true)
		c.report.Acquire.Fail(ctx, 0, "key", k.name, "err", err)
		k.step(key.Event{Kind: key.Failed, Silent: driver.IsSilent(err), Took: took})
	}
}

// giveBack ends a grant that reached no caller.
func (c *Client) giveBack(l *Lease) {
	c.store.Work.Fork(func() { l.g.End(grant.Unwanted, nil) })
}

// probed moves the key after a probe of it.
func (k *keyEntry) probed(info driver.Info, err error) {
	c := k.c
	switch {
	case k.Mode != key.Resting && k.Mode != key.Queued || k.probe.index > 0 || len(k.waiters) == 0:
		return // moved on meanwhile
	case err != nil:
		k.noteCause(err)
		k.fails(true)
		c.report.Acquire.Fail(context.Background(), 0, "key", k.name, "err", err)
		k.step(key.Event{Kind: key.ProbeFailed, Lasting: driver.IsLasting(err)})
		return
	}
	k.fails(false)
	if info.Held {
		k.noteCause(&HeldError{Key: k.name, Owner: info.Owner, Left: info.Left, Pinned: info.Pinned})
		if k.Held == 0 {
			c.watcher.start()
		}
	}
	k.step(key.Event{Kind: key.Probed, Free: !info.Held, Kept: info.Kept, Token: info.Token, Left: info.Left, Pinned: info.Pinned, Hint: info.Wanted})
}

// grantBegan notes that a grant of this client has begun. Called under c.mu.
func (c *Client) grantBegan(g *grant.Grant, hint driver.Hint) {
	k := c.key(g.Hold.Key)
	k.holder = g
	c.observers.wake(k.name)
	k.step(key.Event{Kind: key.Began, Token: g.Hold.Stored, Hint: hint, Known: hint.Client != 0})
}

// grantReleasing notes that the release of a grant is about to be sent. It reports whether it
// is of use to know whether another wants the key.
func (c *Client) grantReleasing(g *grant.Grant) (asks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[g.Hold.Key]
	if k == nil {
		return false
	}
	k.step(key.Event{Kind: key.ReleaseSent})
	return k.Waiting > 0 || k.Hinted(c.now())
}

// grantEnded notes that a grant has ended, and that its release was answered.
func (c *Client) grantEnded(g *grant.Grant, o grant.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers.wake(g.Hold.Key)
	k := c.keys[g.Hold.Key]
	if k == nil {
		return
	}
	if k.holder == g {
		k.holder = nil
	}
	k.step(key.Event{Kind: key.Ended, Lost: o.Lost, Hint: o.Hint, Known: o.Known})
	c.forget(k)
}

// heldHere is why key cannot be had within this client: it is a lease of another caller,
// or its release is not answered; nil: neither. Called under c.mu.
func (c *Client) heldHere(name string) error {
	k := c.keys[name]
	if k == nil || k.Held == 0 {
		return nil
	}
	if k.holder != nil {
		if left, live := k.holder.Live(); live {
			return &HeldError{Key: name, Owner: k.holder.Terms.Owner, Left: left + k.holder.Terms.Margin}
		}
	}
	return errReleasing
}

// errReleasing: it is not known whether the key is held.
var errReleasing = errors.New("the release of the hold that this client had of the key is not answered")

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
		w.last = err
	}
}
