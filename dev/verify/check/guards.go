package check

import (
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// guards is P21 for readers, as the database has it: a reader's guarded transaction saw what
// exclusive holders had committed before its phase, all of it and nothing else, because
// none of them can commit until it has ended. One that was acknowledged has its row, and
// one that was refused has none. And the guards of readers do not disturb each other: where
// nobody wanted the key otherwise, none is told of a conflict.
//
// What two readers found is not compared: between them it may be the same or not.
func guards(k *key) (found []Violation) {
	if k.tokensRise(always) {
		for _, s := range k.seen {
			found = append(found, k.sawAll(s)...)
		}
	}
	known := make(map[string]bool)
	for _, e := range k.commits {
		if e.Mode != history.Shared {
			continue
		}
		known[e.Run] = true
		switch n := k.rowsSeen(e); {
		case n > 1:
			found = append(found, k.violation("guards", "P21", []history.Event{e}, "a commit took effect %d times: %s.", n, k.tell(e)))
		case n == 0 && e.Result == history.OK:
			found = append(found, k.violation("guards", "P21", []history.Event{e}, "an acknowledged commit of a reader is not there: %s.", k.tell(e)))
		case n > 0 && e.Result != history.OK && !undecided(e):
			found = append(found, k.violation("guards", "P21", []history.Event{e}, "a commit that was refused took effect: %s.", k.tell(e)))
		}
		if e.Result == history.Conflict && e.Group == 0 && !k.oldPrimary(e) && k.onlyReaders(e) {
			found = append(found, k.violation("guards", "P21", []history.Event{e}, "a reader's guarded transaction met a conflict, and nobody wanted the key but readers: %s.", k.tell(e)))
		}
	}
	for _, s := range k.seen {
		if !known[s.Run] {
			found = append(found, k.violation("guards", "P21", []history.Event{s}, "nobody wrote %s.", k.tell(s)))
		}
	}
	return found
}

// rowsSeen is how often the row of a reader's commit is there.
func (k *key) rowsSeen(e history.Event) (n int) {
	if e.Mode != history.Shared {
		return 0
	}
	for _, s := range k.seen {
		if s.Run == e.Run {
			n++
		}
	}
	return n
}

// sawAll compares what a reader found with the ledger.
func (k *key) sawAll(s history.Event) []Violation {
	for _, l := range k.ledger {
		switch {
		case l.Mode != "":
		case l.Value <= s.Value && l.Token > s.Token:
			return []Violation{k.violation("guards", "P21", []history.Event{l, s},
				"a reader committed after a newer exclusive hold: %s saw %s.", k.tell(s), k.tell(l))}
		case l.Value > s.Value && l.Token < s.Token:
			return []Violation{k.violation("guards", "P21", []history.Event{l, s},
				"a reader did not see what was committed before its phase: %s does not have %s.", k.tell(s), k.tell(l))}
		}
	}
	return nil
}

// oldPrimary reports whether a commit met a server that a failover had made read-only: a
// connection of the caller's own pool that nobody used since then may lead to it at any time later.
func (k *key) oldPrimary(e history.Event) bool {
	return strings.Contains(e.Error, "the server cannot write now") && slices.ContainsFunc(k.faults, func(f history.Event) bool {
		return effects[f.Key].failover && k.hitBy(f) && f.Begin <= e.End
	})
}

// onlyReaders reports whether a commit ran while nothing was at fault, and nobody had or
// wanted the key, or had not long before, but readers.
func (k *key) onlyReaders(e history.Event) bool {
	from := e.Begin - k.tail() - k.slack()
	if !k.quiet(from, e.End) {
		return false
	}
	for _, h := range k.holds {
		_, until := k.endOf(h)
		if h.acquire.Mode != history.Shared && h.acquire.Begin <= e.End && until >= from {
			return false
		}
	}
	for _, t := range k.tries {
		if t.Mode != history.Shared && t.Begin <= e.End && k.goneAt(t.Client, t.End) >= from {
			return false
		}
	}
	return true
}
