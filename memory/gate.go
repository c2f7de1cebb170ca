package memory

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// gateLeft is how long the gate stands; 0: none does. One that is over is cleared.
func (p *phase) gateLeft(now time.Time) time.Duration {
	left := p.gateUntil.Sub(now)
	if p.gate == (driver.HoldID{}) || left <= 0 {
		p.gate = driver.HoldID{}
		return 0
	}
	return left
}

// refuses reports whether an exclusive request must wait for the phase, and leaves its gate.
// Without a gate of its own it is not granted; one that does not wait has it only for this
// step.
func (p *phase) refuses(q driver.Request, now time.Time) (r driver.Result, refused bool) {
	for id, h := range p.shares {
		if h.until().Sub(now) <= 0 {
			p.end(id, now)
		}
	}
	gate := p.gateLeft(now)
	own := gate > 0 && (p.gate == q.ID || q.Gate != driver.HoldID{} && p.gate == q.Gate)
	mayGate := own || gate == 0 && !p.gateAfter.After(now)
	if mayGate && q.Wants {
		p.gate, p.gateUntil = q.ID, now.Add(max(q.GateTime, time.Millisecond))
	}
	left, owner := p.last(now)
	switch {
	case len(p.shares) > 0:
	case mayGate:
		return driver.Result{}, false
	case gate > 0:
		left = gate
	default:
		left = p.gateAfter.Sub(now)
	}
	return driver.Result{Status: driver.Held, Left: left, Owner: owner, Shared: true, Gated: p.gate == q.ID}, true
}

// last is how long the hold that ends last goes on, and whose it is.
func (p *phase) last(now time.Time) (left time.Duration, owner string) {
	for _, h := range p.shares {
		if rest := h.until().Sub(now); rest > left {
			left, owner = rest, h.owner
		}
	}
	return left, owner
}

// clearGate ends the gate that the attempt with this ID left.
func (r *row) clearGate(id driver.HoldID) {
	if r != nil && r.phase != nil && r.phase.gate == id {
		r.phase.gate = driver.HoldID{}
	}
}
