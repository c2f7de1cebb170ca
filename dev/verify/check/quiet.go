package check

import (
	"cmp"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// quiet reports whether all was well from a time to another: the pulses show that the server
// did its work, no fault was there, and no client stood still or was killed.
func (k *key) quiet(from, to time.Duration) bool {
	return k.healthy(from, to, k.on.TTL/4, k.on.TTL/6) && k.faultless(from, to)
}

// faultless is that no fault was there, and no client stood still or was killed.
func (k *key) faultless(from, to time.Duration) bool {
	for _, f := range k.faults {
		if k.hitBy(f) && overlaps(f, from, to) {
			return false
		}
	}
	for _, f := range k.frozen {
		if overlaps(f, from, to) {
			return false
		}
	}
	for _, f := range k.killed {
		if overlaps(f, from, to) {
			return false
		}
	}
	return true
}

// overlaps reports whether an event was there at any time from one to the other.
func overlaps(e history.Event, from, to time.Duration) bool { return e.Begin <= to && e.End >= from }

// served reports whether the client reached the server all the time, as fast as quiet asks of the server itself.
func (k *key) served(client string, from, to time.Duration) bool {
	return k.reached(client, from, to, k.on.TTL/4, k.on.TTL/6)
}

// allServed is served of every client, each as long as it was there. It asks none that recorded no pulse.
func (k *key) allServed(from, to time.Duration) bool {
	for client, reach := range k.reach {
		last := reach[len(reach)-1].Begin
		if last >= from && !k.served(client, max(from, reach[0].Begin), min(to, last)) {
			return false
		}
	}
	return true
}

// well is the time, not before from, from which on until to the pulses show that the server did its work, and that the
// client reached it as long as it was there: one began in each quarter of the time d, and was answered within a
// sixth. False: it did not at to. Of a client that is not named, or that recorded no pulse, only the server is asked.
func (k *key) well(client string, from, to, d time.Duration) (since time.Duration, ok bool) {
	since, last := steady(k.pulses, from, to, d/4, d/6)
	if to-last > d/4 {
		return 0, false
	}
	if reach := k.reach[client]; len(reach) > 0 {
		since, _ = steady(reach, since, min(to, reach[len(reach)-1].Begin), d/4, d/6)
	}
	return since, true
}

// steady is the time, not before from, from which on the pulses began no further apart, and were answered within most, until
// the last that began by to, and when that began: from, if none did.
func steady(pulses []history.Event, from, to, apart, most time.Duration) (since, last time.Duration) {
	since, last = from, from
	for _, p := range pulses {
		if p.Begin < from-apart || p.Begin > to {
			continue
		}
		if p.Begin-last > apart {
			since = p.Begin
		}
		if p.Result != history.OK || p.End-p.Begin > most {
			since = max(since, p.Begin, p.End)
		}
		last = max(last, p.Begin)
	}
	return since, last
}

// patience is how long a caller must have waited before it is asked why.
func (k *key) patience() time.Duration { return cmp.Or(k.Turn, max(3*time.Second, k.on.TTL+k.slack())) }

// waited are the acquires of a key that waited for the whole of a patience, until they ended.
func (k *key) waited() (list []history.Event) {
	see := func(e history.Event) {
		if !e.Try && e.End-e.Begin >= k.patience() {
			list = append(list, e)
		}
	}
	for _, h := range k.holds {
		see(h.acquire)
	}
	for _, t := range k.tries {
		see(t)
	}
	return list
}

// idle reports whether nobody that is known had the key from a time to another, or a guarded
// transaction under it. Who was granted or renewed it while the server's clock was ahead has it until that time comes.
func (k *key) idle(from, to time.Duration) bool {
	if k.clockSet(to) {
		return false
	}
	for _, h := range k.holds {
		if h.acquire.Begin > to {
			break
		}
		if _, until := k.endOf(h); until+k.tail()+k.slack() >= from && h.acquire.End <= to {
			return false
		}
	}
	for _, e := range append(k.commits[:len(k.commits):len(k.commits)], k.tried...) {
		if e.Begin <= to && k.goneAt(e.Client, e.End) >= from {
			return false
		}
	}
	return true
}
