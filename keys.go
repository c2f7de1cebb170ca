package rowlock

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// keyID names an entry: callers of each mode wait for a key in one of their own.
type keyID struct {
	name string
	mode driver.Mode
}

// keyEntry is a key that callers of the client wait for, or that it has, or that it has just
// left to another client. Every event goes through its State (internal/key), whose actions
// are carried out here. However many callers wait, one attempt is on its way.
// Guarded by Client.mu.
type keyEntry struct {
	key.State
	c       *Client
	id      keyID
	waiters []*waiter          // the first is served first
	room    []*waiter          // where waiters began, for reuse
	sent    *waiter            // whose attempt is on its way
	givenUp bool               // all its callers have left meanwhile
	ticket  *ticket            // nil: its callers have none
	removal *removal           // of the last ticket that was used up or given up
	probe   probeEntry         // in the prober
	leave   context.CancelFunc // of the server's queue, while the client is in it
	turn    *driver.Turn       // the client's in it; nil: it has none
	grants  []*grant.Grant     // of this client, with those whose release was not answered; the last one last
	gate    driver.HoldID      // of the last attempt that left a gate
	sentAt  time.Duration      // when the last attempt was submitted
	slots   []int              // that this client had last, and are not asked for again yet
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
func (c *Client) key(id keyID) *keyEntry {
	k := c.keys[id]
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
	k.id = id
	c.keys[id] = k
	return k
}

// forget removes the entry of a key of which nothing is worth keeping. Called under c.mu.
func (c *Client) forget(k *keyEntry) {
	if k.Waiting > 0 || k.Held > 0 || k.idle || c.keys[k.id] != k {
		return
	}
	if k.Knows(c.now()) || len(k.slots) > 0 {
		k.idle = true
		if c.idleKeys++; c.idleKeys > maxIdleKeys {
			maps.DeleteFunc(c.keys, func(_ keyID, k *keyEntry) bool { return k.idle })
			c.idleKeys = 0
		}
		return
	}
	delete(c.keys, k.id)
	if k.sent == nil && !k.queued && !k.probing && len(c.freeKeys) < maxFree { // nothing on its way comes back to it
		*k = keyEntry{c: c, waiters: k.room[:0], room: k.room[:0], grants: k.grants[:0]}
		c.freeKeys = append(c.freeKeys, k)
	}
}

// step moves the state of the key by e, and carries out the action. Called under c.mu.
func (k *keyEntry) step(e key.Event) { k.act(k.Step(e, k.c.now(), k.env())) }

// act carries out an action, and sees to the ticket.
func (k *keyEntry) act(a key.Action) {
	k.do(a)
	k.lineUp()
}

func (k *keyEntry) env() key.Env {
	c := k.c
	handoff := c.opts.Handoff
	if handoff < 0 { // never, but the key is left to others after as long
		handoff = defaultHandoff
	}
	env := key.Env{Client: c.number, Handoff: handoff, Push: c.watcher.live, Hints: k.hints, Queue: c.queuer != nil}
	if k.id.mode == driver.Exclusive {
		env.Turns, env.Others = c.turner != nil, c.othersWait(k.id.name)
	} else {
		env.Together, env.Late = true, c.turner != nil
	}
	if k.fair() {
		env.Fair, env.First = true, k.first(c.now())
	}
	return env
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
	case a.Do == key.Rest:
		k.leaveQueue()
		k.endTurn()
		c.prober.add(k, jittered(a))
	case k.Mode == key.Trying:
		c.prober.remove(k)
		k.sent = k.waiters[0]
		c.submit(k.id.name, k.sent, k.pinning())
	default:
		if a.Do == key.Queue {
			k.waitTurn(driver.Place{})
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
	k.clearGate()
	k.dropTicket()
	c.prober.remove(k)
	if k.sent != nil && c.withdraw(k.sent) {
		k.sent = nil
	}
	if k.sent != nil && !k.givenUp {
		k.givenUp = true
		c.givenUp[k.id]++
	}
	detach := k.sent != nil || k.leave != nil && c.turner == nil
	k.leaveQueue()
	if k.Held == 0 || k.id.mode != driver.Exclusive {
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
	if c.keys[k.id] != k {
		return
	}
	delete(c.keys, k.id)
	if k.Knows(c.now()) || len(k.slots) > 0 {
		next := c.key(k.id)
		next.State, next.turn, next.slots, next.removal = k.State, k.turn, k.slots, k.removal
		next.grants = append(next.grants, k.grants...)
		k.turn, k.slots = nil, nil
		c.forget(next)
	}
}

// pop removes the first caller and answers it.
func (k *keyEntry) pop(l *Lease, err error) {
	w := k.waiters[0]
	k.waiters[0] = nil
	k.waiters = k.waiters[1:]
	k.waits(-1)
	w.answer(l, err)
}

// popAt is pop for the caller with this index.
func (k *keyEntry) popAt(i int, l *Lease) {
	if i == 0 {
		k.pop(l, nil)
		return
	}
	w := k.waiters[i]
	k.waiters = slices.Delete(k.waiters, i, i+1)
	k.waits(-1)
	w.answer(l, nil)
}

// waits counts the callers that wait.
func (k *keyEntry) waits(n int) {
	k.c.waiting += n
	if k.id.mode != driver.Exclusive {
		k.c.together += n
	}
}
