package rowlock

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// Modes. The callers that want a key in one mode have an entry of their own (keyID), with its
// machine. Between the modes of one client the database decides, as between programs; here the
// end of a grant wakes those that wait in another mode, and exclusive callers that hand the key
// off to each other know that others wait.

// entries are those of a key. Called under c.mu.
func (c *Client) entries(name string) [3]*keyEntry {
	return [3]*keyEntry{
		c.keys[keyID{name, driver.Exclusive}], c.keys[keyID{name, driver.Shared}], c.keys[keyID{name, driver.Slot}],
	}
}

// excludes reports whether holds of two modes cannot always be beside each other.
func excludes(a, b driver.Mode) bool {
	return a == driver.Exclusive || b == driver.Exclusive || a == driver.Slot && b == driver.Slot
}

// othersWait reports whether callers here wait for a key in a mode that is not Exclusive.
// Called under c.mu.
func (c *Client) othersWait(name string) bool {
	if c.together == 0 {
		return false
	}
	for _, k := range c.entries(name) {
		if k != nil && k.id.mode != driver.Exclusive && len(k.waiters) > 0 {
			return true
		}
	}
	return false
}

// wakeOthers wakes the callers that a grant of this mode, which has ended, kept out. Called
// under c.mu.
func (c *Client) wakeOthers(id keyID) {
	if c.waiting == 0 || id.mode == driver.Exclusive && c.together == 0 {
		return
	}
	for _, k := range c.entries(id.name) {
		if k != nil && k.id.mode != id.mode && (k.id.mode == driver.Exclusive || id.mode == driver.Exclusive) {
			k.step(key.Event{Kind: key.Freed})
		}
	}
}

// idOf is the entry of a grant.
func idOf(g *grant.Grant) keyID { return keyID{g.Hold.Key, g.Hold.Mode} }

// joinGrant makes a reader's lease on a grant that this client has had for less than Handoff;
// nil: there is none. So many readers need one hold in the database for each such time,
// and keeps a writer waiting for no longer. Called under c.mu.
func (c *Client) joinGrant(id keyID, t grant.Terms) *Lease {
	k := c.keys[id]
	if k == nil || len(k.grants) == 0 {
		return nil
	}
	g := k.grants[len(k.grants)-1]
	if c.now()-g.Began >= c.opts.Handoff {
		return nil
	}
	return c.beside(g, t)
}

// beside makes one more lease on a grant; nil: that cannot be.
func (c *Client) beside(g *grant.Grant, t grant.Terms) *Lease {
	if c.opts.Handoff < 0 {
		return nil
	}
	l := &Lease{c: c, g: g, began: c.now(), local: true}
	joined := g.Join(t, func(token int64) grant.User {
		l.token = token
		return (*user)(l)
	})
	if !joined {
		return nil
	}
	return l
}

// freeFor reports whether what a probe found is a key that the first caller can have.
func (k *keyEntry) freeFor(info driver.Info) bool {
	return freeFor(k.id.mode, k.waiters[0].set.Slots, info)
}

// freeFor reports whether a key in this state can be had in a mode, with Slots of so many.
func freeFor(m driver.Mode, slots int, info driver.Info) bool {
	switch {
	case !info.Held:
		return true
	case m == driver.Exclusive || !info.InPhase() || info.Gated:
		return false
	}
	return m == driver.Shared || info.FreeSlot < slots
}

// maxLastSlots bounds the slots that an entry remembers.
const maxLastSlots = 16

// noteSlot remembers the slot of a grant that has ended: it is asked for first.
func (k *keyEntry) noteSlot(g *grant.Grant) {
	if k.id.mode != driver.Slot {
		return
	}
	if len(k.slots) == maxLastSlots {
		k.slots = append(k.slots[:0], k.slots[1:]...)
	}
	k.slots = append(k.slots, g.Hold.Slot)
}

// lastSlot is the slot to ask for first, which no other attempt here asks for; -1: any. Called
// under c.mu.
func (c *Client) lastSlot(name string) int {
	k := c.keys[keyID{name, driver.Slot}]
	if k == nil || len(k.slots) == 0 {
		return -1
	}
	last := len(k.slots) - 1
	slot := k.slots[last]
	k.slots = k.slots[:last]
	return slot
}

// nextFor finds the caller that may get a released grant; -1: none.
func (k *keyEntry) nextFor(g *grant.Grant, now time.Duration) int {
	if k.id.mode == driver.Exclusive {
		return 0
	}
	if now-g.Began >= k.c.opts.Handoff { // whatever is known of other clients
		return -1
	}
	for i, w := range k.waiters {
		if w.set.Slots > g.Hold.Slot {
			return i
		}
	}
	return -1
}
