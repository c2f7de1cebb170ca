package keys

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

// ID names an entry: callers of each mode wait for a key in one of their own.
type ID struct {
	Name string
	Mode driver.Mode
}

// keyEntry is a key that callers of the client wait for, or that it has, or that it has just
// left to another client. Every event goes through its machine (internal/key), whose actions
// are carried out here. However many callers wait, one attempt is on its way.
// Guarded by Table.mu.
type keyEntry struct {
	key.Machine
	*key.Waits            // of the machine
	line       *key.Line  // the machine, in a Store with lines
	queue      *key.Queue // the machine, where the server keeps those who wait
	t          *Table
	id         ID
	waiters    []*Waiter          // the first is served first
	room       []*Waiter          // where waiters began, for reuse
	sent       *Waiter            // whose attempt is on its way
	place      inLine             // in the line of the key
	gate       driver.HoldID      // of the last attempt that left a gate; see gate.go
	probe      probeEntry         // in the prober
	leave      context.CancelFunc // of the server's queue, while the client waits in it
	turn       func()             // ends the client's turn (driver.Turner); nil: it has none
	grants     []*grant.Grant     // of this client, with those whose release was not answered; the last one last
	slots      []int              // that this client had last, and are not asked for again yet
	givenUp    bool               // all its callers have left while an attempt was on its way
	failing    bool               // the last attempt or probe was not answered
	queued     bool               // was in the server's queue: its goroutine may come back
	probing    bool               // a probe of it is on its way
	idle       bool               // kept only for what the machine or slots know
}

// maxIdleKeys bounds the entries that are kept only for what they know.
const maxIdleKeys = 1024

// newKey makes an entry.
func (t *Table) newKey() *keyEntry {
	k := &keyEntry{t: t, room: make([]*Waiter, 0, 4)}
	k.waiters = k.room
	if t.liner != nil {
		k.line = new(key.Line)
		k.Machine, k.Waits = k.line, &k.line.Waits
	} else {
		k.queue = new(key.Queue)
		k.Machine, k.Waits = k.queue, &k.queue.Waits
	}
	return k
}

// clear makes an entry as new, for another key.
func (k *keyEntry) clear() {
	if k.line != nil {
		*k.line = key.Line{}
	} else {
		*k.queue = key.Queue{}
	}
	*k = keyEntry{
		Machine: k.Machine, Waits: k.Waits, line: k.line, queue: k.queue, t: k.t,
		waiters: k.room[:0], room: k.room[:0], grants: k.grants[:0],
	}
}

// copyMachine lets the entry know of its key what another one does.
func (k *keyEntry) copyMachine(from *keyEntry) {
	if k.line != nil {
		*k.line = *from.line
	} else {
		*k.queue = *from.queue
	}
}

// key finds the entry of a key, or makes one. Called under Table.mu.
func (t *Table) key(id ID) *keyEntry {
	k := t.keys[id]
	if k != nil {
		if k.idle {
			k.idle = false
			t.idleKeys--
		}
		return k
	}
	if n := len(t.freeKeys); n > 0 {
		k, t.freeKeys = t.freeKeys[n-1], t.freeKeys[:n-1]
	} else {
		k = t.newKey()
	}
	k.id = id
	t.keys[id] = k
	return k
}

// forget removes the entry of a key of which nothing is worth keeping. Called under Table.mu.
func (t *Table) forget(k *keyEntry) {
	if k.Waiting > 0 || k.Held > 0 || k.idle || t.keys[k.id] != k {
		return
	}
	if k.knows() {
		k.idle = true
		if t.idleKeys++; t.idleKeys > maxIdleKeys {
			maps.DeleteFunc(t.keys, func(_ ID, k *keyEntry) bool { return k.idle })
			t.idleKeys = 0
		}
		return
	}
	delete(t.keys, k.id)
	if k.sent == nil && !k.queued && !k.probing && len(t.freeKeys) < maxFree { // nothing on its way comes back to it
		k.clear()
		t.freeKeys = append(t.freeKeys, k)
	}
}

// knows reports whether the entry is worth keeping though nobody waits.
func (k *keyEntry) knows() bool {
	return len(k.slots) > 0 || k.Held > 0 || k.Waiting > 0 || k.queue != nil && k.queue.Knows(k.t.Now())
}

// step moves the state of the key by e, and carries out the action. Called under Table.mu.
func (k *keyEntry) step(e key.Event) { k.do(k.Step(e, k.t.Now(), k.env())) }

func (k *keyEntry) env() key.Env {
	t := k.t
	handoff := t.HandoffTime
	if handoff < 0 { // never, but the key is left to others after as long
		handoff = DefaultHandoff
	}
	return key.Env{
		Handoff: handoff, Together: k.id.Mode != driver.Exclusive, Others: k.id.Mode == driver.Exclusive && t.othersWait(k.id.Name),
		Fair: len(k.waiters) > 0 && k.waiters[0].Ask.Fair, Bell: k.leave != nil, Wakes: t.turner != nil && k.id.Mode == driver.Exclusive, Usual: t.usual,
		Client: t.number, Hints: t.prober.hints < maxHints,
	}
}

func (k *keyEntry) do(a key.Action) {
	t := k.t
	switch {
	case a.Do == key.Nothing:
	case a.Do == key.Stop:
		k.stop()
	case a.Do == key.EndTurn:
		k.endTurn()
	case t.closed || len(k.waiters) == 0:
		t.prober.remove(k)
	case a.Do == key.Enqueue:
		t.prober.remove(k)
		k.enqueue()
	case k.Mode == key.Trying:
		t.prober.remove(k)
		if k.place.confirming || k.place.releasing { // until that is answered: an ID is that of one request at a time
			return
		}
		k.sent = k.waiters[0]
		t.submit(k.sent, k.pinning())
	default:
		k.probe.told = t.liner != nil && a.After <= 0
		t.prober.add(k, jittered(a))
	}
}

// jittered draws the time of an action.
func jittered(a key.Action) time.Duration {
	switch {
	case a.After <= 0:
		return 0
	case a.Jitter == key.JitterThird:
		return a.After*2/3 + rand.N(a.After*2/3+1)
	}
	return a.After
}

// stop ends what goes on for a key for which no caller waits. An attempt that has not left
// is withdrawn; the grant of one on its way is given back.
func (k *keyEntry) stop() {
	t := k.t
	k.fails(false)
	k.clearGate()
	t.prober.remove(k)
	if k.sent != nil && t.withdraw(k.sent) {
		if k.sent = nil; !k.place.stood {
			k.place = inLine{} // nobody has heard of it
		}
	}
	if k.sent == nil {
		k.leaveLine()
	}
	if k.sent != nil && !k.givenUp {
		k.givenUp = true
		t.givenUp[k.id]++
	}
	detach := k.sent != nil || k.place.confirming || k.leave != nil && k.queue != nil
	k.leaveQueue()
	if k.Held == 0 {
		k.endTurn()
	}
	if detach {
		k.detach()
	}
	t.forget(k)
}

// detach takes the entry out of the map while an attempt or the server's queue may still
// answer to it: callers that come now get an entry of their own.
func (k *keyEntry) detach() {
	t := k.t
	if t.keys[k.id] != k {
		return
	}
	delete(t.keys, k.id)
	if k.knows() {
		next := t.key(k.id)
		next.copyMachine(k)
		next.turn, next.slots = k.turn, k.slots
		if k.place.releasing {
			next.place, k.place = k.place, inLine{}
		}
		next.grants = append(next.grants, k.grants...)
		k.turn, k.slots = nil, nil
		t.forget(next)
	}
}

// pop removes the first caller and answers it.
func (k *keyEntry) pop(got grant.Used, err error) {
	w := k.waiters[0]
	k.waiters[0] = nil
	k.waiters = k.waiters[1:]
	k.waits(-1)
	w.answer(got, err)
}

// popAt is pop for the caller with this index.
func (k *keyEntry) popAt(i int, got grant.Used) {
	if i == 0 {
		k.pop(got, nil)
		return
	}
	w := k.waiters[i]
	k.waiters = slices.Delete(k.waiters, i, i+1)
	k.waits(-1)
	w.answer(got, nil)
}

// waits counts the callers that wait.
func (k *keyEntry) waits(n int) {
	k.t.waiting += n
	if k.id.Mode != driver.Exclusive {
		k.t.together += n
	}
}
