package check

import (
	"cmp"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// kept is P26, a live holder keeps its lease, and P15: what blocks other keys loses none
// of theirs. It looks at holders that look again and again, and say how long their
// process got no processor; at the pulses of the supervisor, which say how the server was;
// and at those of the holder's process, which say how it reached the server.
//
// A lease that was lost for want of a renewal was owed to its holder if for a TTL
// before that the process was awake (a tenth of the TTL), each pulse of both came in time and
// was answered within a sixth of the TTL, and no fault was there, nor within a TTL
// before, but those that leave the server well. So nothing is said of a machine that is
// too slow, nor of times in which the supervisor itself stood still. The supervisor's pulses
// alone do not do: between a client and the server stands its proxy, which runs in the
// supervisor and needs the processor several times for each trip. On a machine with a load of
// 35 a read by a client took longer than the supervisor's whole pulse. P26 is promised with
// TTLs of some length only; of P15 it judges shorter ones where each pulse was answered
// within a twentieth.
func kept(k *key) (found []Violation) {
	for _, h := range k.holds {
		for _, e := range h.uses {
			if e.Kind != history.Look || e.Reason != string(rowlock.ReasonExpired) || e.Age == 0 {
				continue
			}
			if promise, by := k.owed(e); promise != "" {
				found = append(found, k.violation("kept", promise, append([]history.Event{h.acquire, e}, by...),
					"a lease was lost while the server and its holder were well: %s, after %s.", k.tell(e), k.tell(h.acquire)))
			}
			break
		}
	}
	return found
}

// owed is the promise that the loss e broke, with what it was for; empty: none, as far
// as is known.
func (k *key) owed(e history.Event) (promise string, by []history.Event) {
	ttl, least := k.on.TTL, cmp.Or(k.Kept, 3*time.Second)
	from, most := e.Begin-ttl, ttl/6
	if ttl < least {
		most = ttl / 20
	} else {
		promise = "P26"
	}
	if e.Age > ttl/10 || !k.healthy(from, e.Begin, ttl/4, most) || !k.reached(e.Client, from, e.Begin, ttl/4, most) {
		return "", nil
	}
	for _, f := range k.frozen {
		if f.Client == e.Client && overlaps(f, from, e.Begin) {
			return "", nil
		}
	}
	for _, f := range k.faults {
		if !k.hitBy(f) || f.End < from-ttl || f.Begin > e.Begin {
			continue
		}
		switch effect := effects[f.Key]; {
		case !effect.calm || ttl < effect.calmFrom || effect.sessions && k.on.Strategy == forUpdate:
			return "", nil
		case effect.blocks:
			promise, by = "P15", append(by, f)
		}
	}
	return promise, by
}

// healthy reports whether the pulses show that the server did its work all the time: one
// began in each time of the length apart, and was answered within most.
func (r *round) healthy(from, to, apart, most time.Duration) bool {
	return answered(r.pulses, from, to, apart, most)
}

// reached reports whether the client's own pulses show that it reached the server all the time.
func (r *round) reached(client string, from, to, apart, most time.Duration) bool {
	return answered(r.reach[client], from, to, apart, most)
}

func answered(pulses []history.Event, from, to, apart, most time.Duration) bool {
	last := from
	for _, p := range pulses {
		if p.Begin < from-apart || p.Begin > to {
			continue
		}
		if p.Result != history.OK || p.End-p.Begin > most || p.Begin-last > apart {
			return false
		}
		last = p.Begin
	}
	return last > from && to-last <= apart
}
