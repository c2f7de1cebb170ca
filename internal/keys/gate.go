package keys

import (
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/undo"
)

// Gates. A caller that waits for a key in a phase of readers or slots leaves a gate by its
// attempts (driver.Request.Gate), each of which takes over that of the one before. If it goes
// without the key the gate is cleared by the undo of the attempt that left it.

// phases adds to an attempt for the caller w what it needs in a phase. Called under Table.mu.
func (k *keyEntry) phases(q *driver.Request, w *Waiter) {
	switch {
	case k.t.Store.Limits.Modes == 0:
	case q.Mode == driver.Exclusive:
		q.Gate, q.GateTime = k.gate, k.queue.GateTime(w.Ask.TTL)
	default:
		q.Waited = Refused(w.Last) != nil
	}
}

// gateOf is the attempt whose gate stands after the answer r.
func gateOf(q *driver.Request, r driver.Result) (id driver.HoldID) {
	if r.Gated {
		id = q.ID
	}
	return id
}

// clearGate clears the gate for which nobody waits any more. Called under Table.mu.
func (k *keyEntry) clearGate() {
	if k.gate == (driver.HoldID{}) {
		return
	}
	t := k.t
	t.Unresolved.Add(undo.Task{
		Hold:         driver.Hold{Key: k.id.Name, ID: k.gate, TTL: driver.GateTime, Undo: true},
		Acknowledged: true, // the attempt was answered
		Sent:         t.Now(),
	})
	k.gate = driver.HoldID{}
}
