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

// keyed is a key that callers of the client wait for, or that it has, or that it was
// asked to leave to another just now. What happens to it goes through its State, and what
// the State says is done here. However many callers wait, one attempt is on its way.
// Guarded by Client.mu.
type keyed struct {
	key.State
	c       *Client
	name    string
	waiters []*waiter          // the first is served first
	room    []*waiter          // where waiters began, for reuse
	sent    *waiter            // whose attempt is on its way
	place   place              // in the prober
	leave   context.CancelFunc // of the server's queue, while the client is in it
	turn    func()             // ends the client's turn in it
	holder  *grant.Grant       // the last grant of this client
	failing bool               // the last attempt or look was not answered
	hints   bool               // its hint is renewed
	queued  bool               // was in the server's queue: its goroutine may come back
	looking bool               // a look at it is on its way
	idle    bool               // kept only for what is known of it
}

const (
	// maxIdleKeys bounds the keys that are kept only for what is known of them, which is
	// of use for two seconds at most.
	maxIdleKeys = 1024

	// maxHints is for how many keys a client renews its hint.
	maxHints = 16
)

// key finds what is known of a key, or begins it. Called under c.mu.
func (c *Client) key(name string) *keyed {
	k := c.keys[name]
	if k != nil {
		if k.idle {
			k.idle = false
			c.idleKeys--
		}
		return k
	}
	if n := len(c.spareKeys); n > 0 {
		k, c.spareKeys = c.spareKeys[n-1], c.spareKeys[:n-1]
	} else {
		k = &keyed{c: c, room: make([]*waiter, 0, 4)}
		k.waiters = k.room
	}
	k.name = name
	c.keys[name] = k
	return k
}

// forget ends a key of which nothing is worth knowing. Called under c.mu.
func (c *Client) forget(k *keyed) {
	if k.Waiting > 0 || k.Held > 0 || k.idle || c.keys[k.name] != k {
		return
	}
	if k.Knows(c.now()) {
		k.idle = true
		if c.idleKeys++; c.idleKeys > maxIdleKeys {
			maps.DeleteFunc(c.keys, func(_ string, k *keyed) bool { return k.idle })
			c.idleKeys = 0
		}
		return
	}
	delete(c.keys, k.name)
	if k.sent == nil && !k.queued && !k.looking && len(c.spareKeys) < maxSpare { // nothing on its way comes back to it
		*k = keyed{c: c, waiters: k.room[:0], room: k.room[:0]}
		c.spareKeys = append(c.spareKeys, k)
	}
}

// step moves the key, and does what is to be done. Called under c.mu.
func (k *keyed) step(e key.Event) {
	k.do(k.Step(e, k.c.now(), k.env()))
}

func (k *keyed) env() key.Env {
	c := k.c
	return key.Env{
		Client: c.number, Handoff: max(c.opts.Handoff, defaultHandoff), Queue: c.queuer != nil, Turns: c.turner != nil,
		Push: c.watcher.live, Hints: k.hints,
	}
}

func (k *keyed) do(a key.Action) {
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
			k.lineUp()
		}
		c.prober.add(k, spread(a))
	}
}

// spread draws the time of an action.
func spread(a key.Action) time.Duration {
	switch {
	case a.After <= 0:
		return 0
	case a.Spread == key.Third:
		return a.After*2/3 + rand.N(a.After*2/3+1)
	case a.Spread == key.Within:
		return rand.N(a.After)
	}
	return a.After
}

// stop ends what goes on for a key that nobody waits for. An attempt that has not left is
// withdrawn; one on its way is answered to nobody, and given back.
func (k *keyed) stop() {
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

// detach leaves an attempt that is on its way to be answered to nobody: callers that come
// now do not meet it.
func (k *keyed) detach() {
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

// pop takes the first caller out and answers it.
func (k *keyed) pop(l *Lease, err error) {
	w := k.waiters[0]
	k.waiters[0] = nil
	k.waiters = k.waiters[1:]
	k.c.waiting--
	w.tell(l, err)
}

// answered moves the key after an attempt for a caller with the settings s, which took so
// long. ctx is that caller's.
func (k *keyed) answered(ctx context.Context, s settings, lease *Lease, err error, took time.Duration) {
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
		// The caller may have left; the next one takes what it would have asked for.
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
			k.step(key.Event{Kind: key.Again}) // each hears it from its own attempt
		}
	case held != nil:
		c.watcher.start()
		k.blocked(held)
		k.step(key.Event{Kind: key.Refused, Left: held.Left, Pinned: held.Pinned, Apart: unsure(err)})
	default:
		k.blocked(err)
		k.fails(true)
		c.report.Acquire.Fail(ctx, 0, "key", k.name, "err", err)
		k.step(key.Event{Kind: key.Failed, Silent: driver.IsSilent(err), Took: took})
	}
}

// giveBack ends a grant that reached no caller.
func (c *Client) giveBack(l *Lease) {
	c.store.Work.Fork(func() { l.g.End(grant.Unwanted, nil) })
}

// looked moves the key after a look at it.
func (k *keyed) looked(info driver.Info, err error) {
	c := k.c
	switch {
	case k.Mode != key.Resting && k.Mode != key.Queued || k.place.index > 0 || len(k.waiters) == 0:
		return // moved on meanwhile
	case err != nil:
		k.blocked(err)
		k.fails(true)
		c.report.Acquire.Fail(context.Background(), 0, "key", k.name, "err", err)
		k.step(key.Event{Kind: key.LookFailed, Lasting: driver.IsLasting(err)})
		return
	}
	k.fails(false)
	if info.Held {
		k.blocked(&HeldError{Key: k.name, Owner: info.Owner, Left: info.Left, Pinned: info.Pinned})
		if k.Held == 0 {
			c.watcher.start()
		}
	}
	k.step(key.Event{Kind: key.Looked, Free: !info.Held, Token: info.Token, Left: info.Left, Pinned: info.Pinned, Hint: info.Wanted})
}

// began notes that a grant of this client has begun. Called under c.mu.
func (c *Client) began(g *grant.Grant, hint driver.Hint) {
	k := c.key(g.Hold.Key)
	k.holder = g
	k.step(key.Event{Kind: key.Began, Hint: hint, Known: hint.Client != 0})
}

// releasing notes that the release of a grant is about to be sent. It reports whether it
// is of use to know whether another wants the key.
func (c *Client) releasing(g *grant.Grant) (asks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[g.Hold.Key]
	if k == nil {
		return false
	}
	k.step(key.Event{Kind: key.Pushing})
	return k.Waiting > 0 || k.Contested(c.now())
}

// over notes that a grant has ended, and that its release was answered.
func (c *Client) over(g *grant.Grant, end grant.Over) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[g.Hold.Key]
	if k == nil {
		return
	}
	if k.holder == g {
		k.holder = nil
	}
	k.step(key.Event{Kind: key.Ended, Lost: end.Lost, Hint: end.Hint, Known: end.Known})
	c.forget(k)
}

// heldHere says what stands in the way of key within this client, if anything does: a
// lease of another caller, or a release that is not answered. Called under c.mu.
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

// errReleasing: who has the key is not known.
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
func (k *keyed) fails(now bool) {
	switch {
	case now && !k.failing:
		k.c.report.Acquire.More(1)
	case !now && k.failing:
		k.c.report.Acquire.Less(1)
	}
	k.failing = now
}

// blocked notes what stands in the way, for the error of a wait that ends.
func (k *keyed) blocked(err error) {
	for _, w := range k.waiters {
		w.last = err
	}
}
