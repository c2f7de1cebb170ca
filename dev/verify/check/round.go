package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// round is a history as the checkers need it.
type round struct {
	Options
	events []history.Event
	keys   []*key
	faults []history.Event
	frozen []history.Event
	pulses []history.Event            // by Begin
	reach  map[string][]history.Event // the same of each client
	killed map[string]history.Event   // by client
}

// key is what happened to one key.
type key struct {
	*round
	space    string
	name     string
	on       history.Space
	holds    []*hold         // by Acquire.Begin
	tries    []history.Event // acquires that got nothing, or nobody knows what
	commits  []history.Event
	ledger   []history.Event // in the order of the database
	seen     []history.Event // the rows of readers
	register []history.Event // writes and reads
	observed []history.Event
	tried    []history.Event // Once and Locked
	effects  []history.Event // and marks, in the order of the database
	raised   []history.Event // calls that gave a conflict of the database to their caller
	terms    []history.Event // of Lead
	leaders  []history.Event // of Observe
	grants   map[class]grants
}

// hold is a lease that somebody got, and what was done with it.
type hold struct {
	acquire history.Event
	uses    []history.Event // Renew, Look, Done, Release, by Begin
}

// leaseID names a lease in a history.
type leaseID struct {
	client string
	id     int64
}

// newRound sorts events, which stay as they are.
func newRound(events []history.Event, o Options) *round {
	r := &round{Options: o, events: events, killed: make(map[string]history.Event), reach: make(map[string][]history.Event)}
	if o.Begin == 0 {
		for _, e := range events {
			if e.Begin > 0 && (r.Begin == 0 || e.Begin < r.Begin) {
				r.Begin = e.Begin
			}
		}
	}
	if o.Patience == 0 {
		r.Patience = 30 * time.Second
	}
	type name struct{ space, key string }
	byName := make(map[name]*key)
	of := func(e history.Event) *key {
		k := byName[name{e.Space, e.Key}]
		if k == nil {
			k = &key{round: r, space: e.Space, name: e.Key, on: o.Spaces[e.Space]}
			byName[name{e.Space, e.Key}] = k
			r.keys = append(r.keys, k)
		}
		return k
	}
	leases := make(map[leaseID]*hold)
	for _, e := range events {
		if e.Kind != history.Acquire {
			continue
		}
		if e.Result != history.OK {
			k := of(e)
			k.tries = append(k.tries, e)
			continue
		}
		h := &hold{acquire: e}
		leases[leaseID{e.Client, e.ID}] = h
		k := of(e)
		k.holds = append(k.holds, h)
	}
	for _, e := range events {
		if e.Raised != "" {
			k := of(e)
			k.raised = append(k.raised, e)
		}
		switch e.Kind {
		case history.Renew, history.Look, history.Done, history.Release:
			if h := leases[leaseID{e.Client, e.Lease}]; h != nil {
				h.uses = append(h.uses, e)
			}
		case history.Commit:
			k := of(e)
			k.commits = append(k.commits, e)
		case history.Write, history.Read:
			k := of(e)
			k.register = append(k.register, e)
		case history.Observe:
			k := of(e)
			k.observed = append(k.observed, e)
		case history.Term:
			k := of(e)
			k.terms = append(k.terms, e)
		case history.Leader:
			k := of(e)
			k.leaders = append(k.leaders, e)
		case history.Seen:
			k := of(e)
			k.seen = append(k.seen, e)
		case history.Ledger:
			k := of(e)
			k.ledger = append(k.ledger, e)
		case history.Once, history.Locked:
			k := of(e)
			k.tried = append(k.tried, e)
		case history.Effect, history.Mark:
			k := of(e)
			k.effects = append(k.effects, e)
		case history.Pulse:
			r.pulses = append(r.pulses, e)
		case history.Reach:
			r.reach[e.Client] = append(r.reach[e.Client], e)
		case history.Fault:
			r.faults = append(r.faults, e)
		case history.Frozen:
			r.frozen = append(r.frozen, e)
		case history.Killed:
			r.killed[e.Client] = e
		}
	}
	slices.SortStableFunc(r.pulses, byBegin)
	for _, list := range r.reach {
		slices.SortStableFunc(list, byBegin)
	}
	for _, k := range r.keys {
		k.sort()
	}
	return r
}

// sort brings all into the order of time, whatever order the events came in; the
// ledger has the database's.
func (k *key) sort() {
	for _, list := range [][]history.Event{k.tries, k.commits, k.register, k.observed, k.tried, k.raised, k.terms, k.leaders} {
		slices.SortStableFunc(list, byBegin)
	}
	slices.SortStableFunc(k.holds, func(a, b *hold) int { return byBegin(a.acquire, b.acquire) })
	for _, h := range k.holds {
		slices.SortStableFunc(h.uses, byBegin)
	}
	k.grants = make(map[class]grants)
	for _, h := range k.holds {
		if _, ok := k.grants[h.class()]; !ok {
			k.grants[h.class()] = newGrants(k, h)
		}
	}
}

func byBegin(a, b history.Event) int { return cmp.Compare(a.Begin, b.Begin) }

// slack is how late the space's server may execute what it was sent.
func (k *key) slack() time.Duration {
	if k.Slack > 0 {
		return k.Slack
	}
	return k.on.TTL / 4
}

// heldUntil is the last moment of which it is known that the lease was held, and the
// call that said so; the end of the acquire if none did. Calls that an exception
// excuses say nothing.
func (k *key) heldUntil(h *hold) (last history.Event, until time.Duration) {
	last, until = h.acquire, h.acquire.End
	for _, e := range h.uses {
		if says(e) && e.Begin > until && !k.excused(e.Begin) {
			last, until = e, e.Begin
		}
		if e.Kind == history.Release {
			break // another Release has the answer of the first
		}
	}
	return last, until
}

// says reports whether e says that its lease was held when it began.
func says(e history.Event) bool {
	switch e.Kind {
	case history.Look, history.Renew, history.Release:
		return e.Result == history.OK
	}
	return false
}

// ended is the event that told the holder of the end of the lease, and the moment at
// which it knew; false if nothing did.
func (h *hold) ended() (by history.Event, at time.Duration, ok bool) {
	for _, e := range h.uses {
		when := e.End
		switch {
		case e.Kind == history.Done:
			when = e.Begin
		case e.Kind == history.Release && e.End > 0:
		case (e.Kind == history.Look || e.Kind == history.Renew) && (e.Result == history.Lost || e.Result == history.Released):
		default:
			continue
		}
		if !ok || when < at {
			by, at, ok = e, when, true
		}
	}
	return by, at, ok
}

// lastEvent is when the last thing happened in a key's history, at least.
func (k *key) lastEvent() (last time.Duration) {
	see := func(list []history.Event) {
		for _, e := range list {
			last = max(last, e.Begin, e.End)
		}
	}
	see(k.tries)
	see(k.commits)
	see(k.register)
	see(k.observed)
	see(k.tried)
	see(k.terms)
	see(k.leaders)
	for _, h := range k.holds {
		last = max(last, h.acquire.End)
		see(h.uses)
	}
	return last
}
