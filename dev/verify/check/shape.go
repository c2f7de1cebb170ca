package check

import (
	"fmt"
	"slices"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// results are what can come of each kind of event; a kind that is not here is not known.
var results = map[history.Kind][]history.Result{
	history.Acquire: {history.OK, history.Refused, history.Failed},
	history.Renew:   {history.OK, history.Lost, history.Released, history.Failed},
	history.Look:    {history.OK, history.Lost, history.Released, history.Failed},
	history.Done:    {""},
	history.Release: {history.OK, history.Lost, history.Failed},
	history.Commit:  {history.OK, history.Lost, history.Conflict, history.Failed, history.Unknown},
	history.Write:   {history.OK, history.Stale, history.Failed, history.Unknown},
	history.Read:    {history.OK, history.Failed},
	history.Observe: {history.Held, history.Free, history.Failed},
	history.Once:    {history.OK, history.Ran, history.Lost, history.Conflict, history.Failed, history.Unknown},
	history.Locked:  {history.OK, history.Conflict, history.Failed, history.Unknown},
	history.Term:    {history.OK, history.Lost, history.Released},
	history.Leader:  {history.Held, history.Free, history.Failed},
	history.Seen:    {""},
	history.Pulse:   {history.OK, history.Failed},
	history.Reach:   {history.OK, history.Failed},
	history.Killed:  {""},
	history.Frozen:  {""},
	history.Fault:   {""},
	history.Ledger:  {""},
	history.Effect:  {""},
	history.Mark:    {""},
}

// mayBePending are the kinds of which the reply may be missing: they were sent, and
// then their process was killed. Done and what is read from
// the database afterwards have no end at all.
var mayBePending = []history.Kind{history.Acquire, history.Commit, history.Write, history.Read, history.Once, history.Locked, history.Done, history.Ledger, history.Seen, history.Effect, history.Mark}

// needsLease are the kinds that are about a lease.
var needsLease = []history.Kind{history.Renew, history.Look, history.Done, history.Release, history.Commit, history.Once, history.Term}

// afterwards are the kinds of what the database has after the round.
var afterwards = []history.Kind{history.Ledger, history.Seen, history.Effect, history.Mark}

// system are the kinds that are about no key.
var system = []history.Kind{history.Killed, history.Frozen, history.Fault, history.Pulse, history.Reach}

// shape finds what cannot be in a history that was recorded well: then the recording
// is wrong, or the clock, or this package does not know enough to judge.
func shape(r *round) (found []Violation) {
	leases := make(map[leaseID]history.Event)
	values := make(map[string]history.Event)
	for _, e := range r.events {
		if e.Kind == history.Acquire {
			leases[leaseID{e.Client, e.ID}] = e
		}
	}
	seen := make(map[leaseID]bool)
	for _, e := range r.events {
		others, text := r.misshapen(e, leases)
		if text == "" && e.Kind == history.Acquire {
			if seen[leaseID{e.Client, e.ID}] {
				text = "it has the ID of another acquire"
			}
			seen[leaseID{e.Client, e.ID}] = true
		}
		if text == "" && e.Kind == history.Write {
			name := fmt.Sprintf("%d %s %s", e.Value, e.Space, e.Key)
			if other, ok := values[name]; ok {
				others, text = []history.Event{other}, "another write has its value"
			}
			values[name] = e
		}
		if text != "" {
			found = append(found, Violation{
				Checker: "shape", Promise: "history", Space: e.Space, Key: e.Key, Events: append(others, e),
				Text: fmt.Sprintf("%s: %s.", r.tell(e), text),
			})
		}
	}
	return found
}

// misshapen says what is wrong with e, and which event it contradicts.
func (r *round) misshapen(e history.Event, leases map[leaseID]history.Event) (other []history.Event, text string) {
	possible, known := results[e.Kind]
	_, space := r.Spaces[e.Space]
	pending := e.End == 0
	switch {
	case !known:
		return nil, fmt.Sprintf("there is no kind %q", e.Kind)
	case pending && !slices.Contains(mayBePending, e.Kind):
		return nil, "it has no end"
	case pending && e.Result != "":
		return nil, "it has a result and no end"
	case !pending && !slices.Contains(possible, e.Result):
		return nil, fmt.Sprintf("%q is no result of it", e.Result)
	case !pending && e.End < e.Begin:
		return nil, "it ends before it begins"
	case e.Sent != 0 && (e.Sent < e.Begin || !pending && e.Sent > e.End):
		return nil, "it was sent before it began or after it ended"
	case e.Kind == history.Fault:
		if _, ok := effects[e.Key]; !ok {
			return nil, fmt.Sprintf("the fault %q is not in the table of exceptions.go", e.Key)
		}
	}
	if slices.Contains(system, e.Kind) {
		return nil, ""
	}
	if !space || r.Spaces[e.Space].TTL <= 0 {
		return nil, fmt.Sprintf("nothing is known of space %q: its TTL is missing in the options", e.Space)
	}
	if dead, ok := r.killed[e.Client]; ok && e.Begin > dead.End && !slices.Contains(afterwards, e.Kind) {
		return []history.Event{dead}, "its process was gone"
	}
	if a, ok := leases[leaseID{e.Client, e.Lease}]; ok && e.Lease != 0 {
		return []history.Event{a}, wrongLease(e, a)
	}
	if e.Lease != 0 || slices.Contains(needsLease, e.Kind) {
		return nil, fmt.Sprintf("there is no lease #%d of %s", e.Lease, e.Client)
	}
	return nil, wrongNumbers(e)
}

// wrongLease says what is wrong between an event and the acquire of its lease.
func wrongLease(e, a history.Event) string {
	switch {
	case a.Result != history.OK:
		return "its lease was not granted"
	case e.Kind == history.Commit && (e.Mode != a.Mode || e.Slot != a.Slot):
		return "its lease has another mode"
	case a.Space != e.Space || a.Key != e.Key:
		return "its lease is of another key"
	case e.Begin < a.End:
		return "it began before its lease was granted"
	case e.Kind != history.Read && e.Token != 0 && e.Token != a.Token:
		return "its lease has another token"
	}
	return wrongNumbers(e)
}

// wrongNumbers says which number an event lacks.
func wrongNumbers(e history.Event) string {
	switch {
	case e.Token < 0 || e.Value < 0:
		return "a number is negative"
	case e.Token == 0 && (e.Kind == history.Acquire && e.Result == history.OK || e.Kind == history.Commit || e.Kind == history.Write || e.Kind == history.Ledger || e.Kind == history.Seen || e.Kind == history.Term):
		return "it has no token"
	case e.Kind == history.Acquire && (e.Mode != "" && e.Mode != history.Shared && e.Mode != history.Slot):
		return "there is no such mode"
	case e.Slot < 0 || e.Kind != history.Observe && e.Slot >= mostSlots:
		return "there is no such slot, or this package cannot count so far"
	case e.Mode == history.Slot && e.Kind == history.Acquire && e.Slots <= 0:
		return "it does not say of how many slots"
	case e.Run == "" && (e.Kind == history.Seen || e.Kind == history.Commit && e.Mode == history.Shared && e.Sent != 0):
		return "it does not name its commit"
	case e.Kind == history.Commit && e.Result == history.OK && e.Sent == 0:
		return "it was never sent"
	case e.Value == 0 && (e.Kind == history.Write || e.Kind == history.Ledger || e.Kind == history.Commit && e.Mode != history.Shared && (e.Result == history.OK || e.Sent != 0)):
		return "it has no value"
	case e.Run == "" && (e.Kind == history.Once || e.Kind == history.Locked && e.Result == history.OK || e.Kind == history.Effect || e.Kind == history.Mark):
		return "it does not name its run"
	case e.Kind == history.Effect && (e.Value == 0 || e.Owner == ""):
		return "it does not say who wrote it"
	}
	return ""
}
