package keys

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
)

// Modes. The callers that want a key in one mode have an entry of their own (ID), with its
// machine. Between the modes of one client the database decides, as between programs; here the
// end of a grant wakes those that wait in another mode, and exclusive callers that hand the key
// off to each other know that others wait.

// entries are those of a key. Called under Table.mu.
func (t *Table) entries(name string) [3]*keyEntry {
	return [3]*keyEntry{
		t.keys[ID{name, driver.Exclusive}], t.keys[ID{name, driver.Shared}], t.keys[ID{name, driver.Slot}],
	}
}

// excludes reports whether holds of two modes cannot always be beside each other.
func excludes(a, b driver.Mode) bool {
	return a == driver.Exclusive || b == driver.Exclusive || a == driver.Slot && b == driver.Slot
}

// othersWait reports whether callers here wait for a key in a mode that is not Exclusive.
// Called under Table.mu.
func (t *Table) othersWait(name string) bool {
	if t.together == 0 {
		return false
	}
	for _, k := range t.entries(name) {
		if k != nil && k.id.Mode != driver.Exclusive && len(k.waiters) > 0 {
			return true
		}
	}
	return false
}

// wakeOthers wakes the callers that a grant of this mode, which has ended, kept out. Called
// under Table.mu.
func (t *Table) wakeOthers(id ID) {
	if t.waiting == 0 || id.Mode == driver.Exclusive && t.together == 0 {
		return
	}
	for _, k := range t.entries(id.Name) {
		if k != nil && k.id.Mode != id.Mode && (k.id.Mode == driver.Exclusive || id.Mode == driver.Exclusive) {
			k.step(key.Event{Kind: key.Freed})
		}
	}
}

// idOf is the entry of a grant.
func idOf(g *grant.Grant) ID { return ID{g.Hold.Key, g.Hold.Mode} }

// joinGrant makes one more user of a reader's grant that this client has had for less than Handoff;
// none: there is none. So many readers need one hold in the database for each such time,
// and keeps a writer waiting for no longer. Called under Table.mu.
func (t *Table) joinGrant(id ID, terms grant.Terms) grant.Used {
	k := t.keys[id]
	if k == nil || len(k.grants) == 0 {
		return none
	}
	g := k.grants[len(k.grants)-1]
	if t.Now()-g.Began >= t.HandoffTime {
		return none
	}
	return t.beside(g, terms)
}

// beside makes one more user of a grant; none: that cannot be.
func (t *Table) beside(g *grant.Grant, terms grant.Terms) (next grant.Used) {
	if t.HandoffTime < 0 {
		return none
	}
	now := t.Now()
	g.Join(terms, func(token int64) grant.User {
		next = t.NewUser(g, now, token)
		return next.User
	})
	return next
}

// freeFor reports whether what a probe found is a key that the first caller can have.
func (k *keyEntry) freeFor(info driver.Info) bool {
	return freeFor(k.id.Mode, k.waiters[0].Ask.Slots, info)
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
	if k.id.Mode != driver.Slot {
		return
	}
	if len(k.slots) == maxLastSlots {
		k.slots = append(k.slots[:0], k.slots[1:]...)
	}
	k.slots = append(k.slots, g.Hold.Slot)
}

// lastSlot is the slot to ask for first, which no other attempt here asks for; -1: any. Called
// under Table.mu.
func (t *Table) lastSlot(name string) int {
	k := t.keys[ID{name, driver.Slot}]
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
	if k.id.Mode == driver.Exclusive {
		return 0
	}
	if now-g.Began >= k.t.HandoffTime { // whatever is known of other clients
		return -1
	}
	for i, w := range k.waiters {
		if w.Ask.Slots > g.Hold.Slot {
			return i
		}
	}
	return -1
}
