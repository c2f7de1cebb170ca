package check

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/driver"
)

// entryTime is how long a caller may take until its program stands in the line.
const entryTime = 2 * time.Second

// fair is P23 and P29. Where all callers of a key use Fair, they get it in the order of the line,
// in which each waiting program stands while it waits. Its own callers stand in a line behind it.
// So who came first of its program, and waits, is passed by nobody of another program that
// asked so much later that the first stood. Without Fair that is so of the turns: a program may serve
// several of its callers in one, and the first hold of each is judged. SelectForUpdate leaves that order to the
// server, readers and slots join others, and AcquireAll stands for one key at a time.
//
// A caller that was served first, as the tokens tell, and looked later was not passed.
//
// It judges quiet times only, in which the caller that was passed reached the server: an entry
// that is not refreshed ends. When a further term of a Lead was asked for is not known.
func fair(k *key) (found []Violation) {
	all := k.acquires()
	promise, holds := "P23", k.holds
	if slices.ContainsFunc(all, func(e history.Event) bool { return !e.Fair }) {
		if promise, holds = "P29", k.firstOfTurns(); k.on.Strategy == forUpdate || k.shares() {
			return nil
		}
	}
	asked := make(map[*hold]time.Duration)
	for _, a := range all {
		if a.Try || a.Group != 0 || a.Value != 0 || a.Result == history.Failed || a.End-a.Begin < k.entry() {
			continue
		}
		since := k.front(a, all)
		if k.clockSetBetween(k.asked(a, all), since) {
			continue // since when it stands is a time of that clock
		}
		for _, h := range holds {
			b := h.acquire
			if b.Client == a.Client || b.End <= since+k.entry() || b.End >= a.End || a.Result == history.OK && a.Token < b.Token {
				continue
			}
			if _, known := asked[h]; !known {
				asked[h] = k.asked(b, all)
			}
			if asked[h] <= since+k.entry() || !k.quiet(since, b.End) || !k.served(a.Client, since, b.End) {
				continue
			}
			found = append(found, k.violation("fair", promise, []history.Event{a, b}, "a caller was passed by one of another program that came later: %s waited, alone of its program since %s, and then %s.",
				k.tell(a), k.at(since), k.tell(b)))
			break
		}
	}
	return found
}

// firstOfTurns are the holds that the database granted. One that was handed on in its program has a token of the same range as
// the one before.
func (k *key) firstOfTurns() (first []*hold) {
	turns := make(map[int64]*hold)
	for _, h := range k.holds {
		turn := h.acquire.Token / driver.TokenRange
		if f := turns[turn]; f == nil || h.acquire.Token < f.acquire.Token {
			turns[turn] = h
		}
	}
	return slices.DeleteFunc(slices.Clone(k.holds), func(h *hold) bool { return turns[h.acquire.Token/driver.TokenRange] != h })
}

// entry is entryTime, or less where time is short.
func (k *key) entry() time.Duration { return min(entryTime, k.on.TTL) }

// front is when a caller was the first of those of its program that wait for the key, and they stood for its turn: one
// that began a moment later may have stood before it, and a grant takes the entry away. While its program has the key exclusively it does
// not stand: the release adds the next entry.
func (k *key) front(a history.Event, all []history.Event) (since time.Duration) {
	since = a.Begin
	for _, e := range all {
		before := e.Begin <= a.Begin || e.Mode == a.Mode && !e.Try && e.Result == history.OK && e.End <= a.End
		if e.Client == a.Client && e.ID != a.ID && before {
			since = max(since, e.End)
		}
	}
	for _, h := range k.holds {
		if e := h.acquire; e.Client == a.Client && e.ID != a.ID && e.Mode == "" && e.End <= a.End {
			_, until := k.endOf(h)
			since = max(since, until)
		}
	}
	return since
}

// asked is the earliest time at which the program of a caller may have asked for the entry with which the
// caller got the key, or waited: one that gives up leaves it to those of its program that wait then.
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
	for _, e := range all { // a grant takes the entry away
		if e.Client == b.Client && e.Mode == b.Mode && e.ID != b.ID && e.Result == history.OK && e.End <= b.End {
			since = max(since, min(e.End, b.Begin))
		}
	}
	return since
}
