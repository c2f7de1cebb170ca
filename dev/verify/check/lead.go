package check

import (
	"slices"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// lead is P24: the function of Lead runs in one program at a time as far as P2 goes, one call
// never runs it twice at a time, and the terms that a loop over Observe is told of never fall.
// A function may run beside the next term if its own was lost: then its last look must
// not find the lease held. Nor is one a term that began when its lease was lost already, because its
// program stood still meanwhile. That the key is not released under it is of the checker loss,
// which knows the acquire and the release beside each term.
func lead(k *key) (found []Violation) {
	for i, a := range k.terms {
		for _, b := range k.terms[i+1:] { // by their begin
			if b.Begin >= a.End {
				break
			}
			switch {
			case a.Client == b.Client && a.Value == b.Value:
				found = append(found, k.violation("lead", "P24", []history.Event{a, b}, "one call of Lead runs its function twice at a time: %s and %s.", k.tell(a), k.tell(b)))
			case a.Result == history.OK && a.Sent > b.Begin && k.began(b) && !k.excused(a.Sent):
				found = append(found, k.violation("lead", "P24", []history.Event{a, b}, "two lead at once: %s ran and had its lease at %s, and so did %s.", k.tell(a), k.at(a.Sent), k.tell(b)))
			}
		}
	}
	type loop struct {
		client string
		number int64
	}
	last := make(map[loop]history.Event)
	for _, e := range k.leaders {
		of := loop{e.Client, e.Value}
		if before := last[of]; e.Token < before.Token {
			found = append(found, k.violation("lead", "P24", []history.Event{before, e}, "a term fell by %d: %s, then %s.", before.Token-e.Token, k.tell(before), k.tell(e)))
		}
		last[of] = e
	}
	return found
}

// began reports whether the function of a term had its lease when it began, as far as it looked.
func (k *key) began(term history.Event) bool {
	if term.Result == history.OK {
		return true
	}
	for _, h := range k.holds {
		if h.acquire.Client == term.Client && h.acquire.ID == term.Lease {
			return slices.ContainsFunc(h.uses, func(e history.Event) bool {
				return e.Kind == history.Look && e.Result == history.OK && e.Begin >= term.Begin
			})
		}
	}
	return false
}
