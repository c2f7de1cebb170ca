package rowlock

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// keyEntry is a key that callers of the client wait for, or that it has, or that it has just
// left to another client. Every event goes through its State (internal/key), whose actions
// are carried out here. However many callers wait, one attempt is on its way.
// Guarded by Client.mu.
type keyEntry struct {
	key.State
	c       *Client
	name    string
	waiters []*waiter          // the first is served first
	room    []*waiter          // where waiters began, for reuse
	sent    *waiter            // whose attempt is on its way
	probe   probeEntry         // in the prober
	leave   context.CancelFunc // of the server's queue, while the client is in it
	turn    func()             // ends the client's turn in it
	holder  *grant.Grant       // the last grant of this client
	failing bool               // the last attempt or probe was not answered
	hints   bool               // its hint is renewed
	queued  bool               // was in the server's queue: its goroutine may come back
	probing bool               // a probe of it is on its way
	idle    bool               // kept only for its hint or yield time
}

const (
	// maxIdleKeys bounds the entries that are kept only for the hint or the yield time in
	// them, which end after two seconds.
	maxIdleKeys = 1024

	// maxHints is the number of keys whose hint a client renews.
	maxHints = 16
)

// key finds the entry of a key, or makes one. Called under c.mu.
func (c *Client) key(name string) *keyEntry {
	k := c.keys[name]
	if k != nil {
		if k.idle {
			k.idle = false
			c.idleKeys--
		}
		return k
	}
	if n := len(c.freeKeys); n > 0 {
		k, c.freeKeys = c.freeKeys[n-1], c.freeKeys[:n-1]
	} else {
		k = &keyEntry{c: c, room: make([]*waiter, 0, 4)}
		k.waiters = k.room
	}
	k.name = name
	c.keys[name] = k
	return k
}

// forget removes the entry of a key of which nothing is worth keeping. Called under c.mu.
func (c *Client) forget(k *keyEntry) {
	if k.Waiting > 0 || k.Held > 0 || k.idle || c.keys[k.name] != k {
		return
	}
	if k.Knows(c.now()) {
		k.idle = true
		if c.idleKeys++; c.idleKeys > maxIdleKeys {
			maps.DeleteFunc(c.keys, func(_ string, k *keyEntry) bool { return k.idle })
			c.idleKeys = 0
		}
		return
	}
	delete(c.keys, k.name)
	if k.sent == nil && !k.queued && !k.probing && len(c.freeKeys) < maxFree { // nothing on its way comes back to it
		*k = keyEntry{c: c, waiters: k.room[:0], room: k.room[:0]}
		c.freeKeys = append(c.freeKeys, k)
	}
}

// step moves the state of the key by e, and carries out the action. Called under c.mu.
func (k *keyEntry) step(e key.Event) {
	k.do(k.Step(e, k.c.now(), k.env()))
}

func (k *keyEntry) env() key.Env {
	c := k.c
	return key.Env{
		Client: c.number, Handoff: max(c.opts.Handoff, defaultHandoff), Queue: c.queuer != nil, Turns: c.turner != nil,
		Push: c.watcher.live, Hints: k.hints,
	}
}

func (k *keyEntry) do(a key.Action) {
	c := k.c
	switch {
	case a.Do == key.Nothing:
	case a.Do == key.Stop:
		k.stop()
	case a.Do == key.EndTurn:
		k.endTurn()
	case c.closed || len(k.waiters) == 0:
		c.prober.remove(k)
	case a.Do == key.Queue && c.turner == nil:
		c.prober.remove(k)
		k.enqueue()
	case k.Mode == key.Trying:
		c.prober.remove(k)
		k.sent = k.waiters[0]
		c.submit(k.name, k.sent, k.pinning())
	default:
		if a.Do == key.Queue {
			k.waitTurn()
		}
		c.prober.add(k, jittered(a))
	}
}

// jittered draws the time of an action.
func jittered(a key.Action) time.Duration {
	switch {
	case a.After <= 0:
		return 0
	case a.Jitter == key.JitterThird:
		return a.After*2/3 + rand.N(a.After*2/3+1)
	case a.Jitter == key.JitterFull:
		return rand.N(a.After)
	}
	return a.After
}

// stop ends what goes on for a key for which no caller waits. An attempt that has not left
// is withdrawn; the grant of one on its way is given back.
func (k *keyEntry) stop() {
	c := k.c
	k.fails(false)
	c.prober.remove(k)
	if k.sent != nil && c.withdraw(k.sent) {
		k.sent = nil
	}
	detach := k.sent != nil || k.leave != nil && c.turner == nil
	k.leaveQueue()
	if k.Held == 0 {
		k.endTurn()
	}
	if k.hints {
		k.hints = false
		c.hints--
	}
	if detach {
		k.detach()
	}
	c.forget(k)
}

// detach takes the entry out of the map while an attempt or the server's queue may still
// answer to it: callers that come now get an entry of their own.
func (k *keyEntry) detach() {
	c := k.c
	if c.keys[k.name] != k {
		return
	}
	delete(c.keys, k.name)
	if k.Knows(c.now()) {
		next := c.key(k.name)
		next.State, next.holder, next.turn = k.State, k.holder, k.turn
		k.turn = nil
	}
}

// pop removes the first caller and answers it.
func (k *keyEntry) pop(l *Lease, err error) {
	w := k.waiters[0]
	k.waiters[0] = nil
	k.waiters = k.waiters[1:]
	k.c.waiting--
	w.answer(l, err)
}

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
	k.step(key.Event{Kind: key.Probed, Free: !info.Held, Token: info.Token, Left: info.Left, Pinned: info.Pinned, Hint: info.Wanted})
}

// grantBegan notes that a grant of this client has begun. Called under c.mu.
func (c *Client) grantBegan(g *grant.Grant, hint driver.Hint) {
	k := c.key(g.Hold.Key)
	k.holder = g
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
			return &HeldError{Key: name, Owner: c.opts.Owner, Left: left + k.holder.Terms.Margin}
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
