package rowlock

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/undo"
)

// Gates. A caller that waits for a key in a phase of readers or slots leaves a gate by its
// attempts (driver.Request.Gate), each of which takes over that of the one before. If it goes
// without the key the gate is cleared by the undo of the attempt that left it.

// phases adds to an attempt for the caller w what it needs in a phase. Called under c.mu.
func (k *keyEntry) phases(q *driver.Request, w *waiter) {
	c, now := k.c, k.c.now()
	switch {
	case c.store.Limits.Modes == 0:
	case q.Mode == driver.Exclusive:
		q.Gate, q.GateTime = k.gate, k.gateTime(now, w.set.TTL)
	default:
		q.Waited = refusal(w.last) != nil
	}
	k.sentAt = now
}

// gateTime is how long a gate stands: so long that the next attempt finds it, also on a
// machine that takes its time.
func (k *keyEntry) gateTime(now, ttl time.Duration) time.Duration {
	apart := now - k.sentAt
	if k.gate == (driver.HoldID{}) || apart < driver.GateTime*2/3 {
		return driver.GateTime
	}
	return min(3*apart, max(ttl, driver.GateTime))
}

// gateOf is the attempt whose gate stands after the answer r.
func gateOf(q *driver.Request, r driver.Result) (id driver.HoldID) {
	if r.Gated {
		id = q.ID
	}
	return id
}

// clearGate clears the gate for which nobody waits any more. Called under c.mu.
func (k *keyEntry) clearGate() {
	if k.gate == (driver.HoldID{}) {
		return
	}
	c := k.c
	c.unresolved.Add(undo.Task{
		Hold:         driver.Hold{Key: k.id.name, ID: k.gate, TTL: driver.GateTime, Undo: true},
		Acknowledged: true, // the attempt was answered
		Sent:         c.now(),
	})
	k.gate = driver.HoldID{}
}
