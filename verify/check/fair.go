package check

import (
	"time"

	"github.com/rowlock/rowlock/verify/history"
)

// ticketTime is how long a caller may take to get its ticket. It is also about the life
// of one that nobody renews.
const ticketTime = 2 * time.Second

// fair is P23: where all callers of a key use Fair, they get it in the order of their tickets,
// and each waiting program has one while it waits. Its own callers stand in a line behind it.
// So who came first of its program, and waits, is passed by nobody of another program that
// asked for its ticket so much later that the first had one.
//
// It judges quiet times only, in which the caller that was passed reached the server: a ticket
// that is not renewed ends.
func fair(k *key) (found []Violation) {
	all := k.acquires()
	for _, e := range all {
		if !e.Fair {
			return nil
		}
	}
	for _, a := range all {
		if a.Try || a.Result == history.Failed || a.End-a.Begin < k.ticket() {
			continue
		}
		since := k.front(a, all)
		if k.clockSetBetween(k.asked(a, all), since) {
			continue // its ticket's place is a time of that clock
		}
		for _, h := range k.holds {
			b := h.acquire
			if b.Client == a.Client || k.asked(b, all) <= since+k.ticket() || b.End >= a.End || !k.quiet(since, b.End) || !k.served(a.Client, since, b.End) {
				continue
			}
			found = append(found, k.violation("fair", "P23", []history.Event{a, b}, "a caller was passed by one of another program that came later: %s waited, alone of its program since %s, and then %s.",
				k.tell(a), k.at(since), k.tell(b)))
			break
		}
	}
	return found
}

// ticket is ticketTime, or less where time is short.
func (k *key) ticket() time.Duration { return min(ticketTime, k.on.TTL) }

// front is when a caller was the first of those of its program that wait for the key, and they had the ticket of its turn: one
// that began a moment later may have stood before it, and a grant uses the ticket up.
func (k *key) front(a history.Event, all []history.Event) (since time.Duration) {
	since = a.Begin
	for _, e := range all {
		before := e.Begin <= a.Begin || e.Mode == a.Mode && !e.Try && e.Result == history.OK && e.End <= a.End
		if e.Client == a.Client && e.ID != a.ID && before {
			since = max(since, e.End)
		}
	}
	return since
}

// asked is the earliest time at which the program of a caller may have asked for the ticket that the
// caller got the key with, or waited with: one that gives up leaves it to those of its program that wait then.
func (k *key) asked(b history.Event, all []history.Event) (since time.Duration) {
	since = b.Begin
	for earlier := true; earlier; {
		earlier = false
		for _, e := range all {
			if e.Client == b.Client && e.Mode == b.Mode && !e.Try && e.Result != history.OK && e.Begin < since && e.End > since {
				since, earlier = e.Begin, true
			}
		}
	}
	for _, e := range all { // a grant uses the ticket up
		if e.Client == b.Client && e.Mode == b.Mode && e.ID != b.ID && e.Result == history.OK && e.End <= b.End {
			since = max(since, min(e.End, b.Begin))
		}
	}
	return since
}
