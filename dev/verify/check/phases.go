package check

import (
	"cmp"
	"slices"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// phases is P20: readers that have the key at once are of one phase, and have its token.
// That tokens rise from phase to phase is of the checker tokens.
//
// It does not know of readers that never said that they had the key.
func phases(k *key) (found []Violation) {
	var list []span
	for _, s := range spans(k) {
		if s.acquire.Mode == history.Shared && !s.brief() && k.tokensRise(s.until) {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b span) int { return cmp.Compare(a.acquire.End, b.acquire.End) })
	longest := make(map[int64]span) // by token: of those so far the one that was there longest
	for _, s := range list {
		for token, o := range longest {
			if o.until <= s.acquire.End {
				delete(longest, token)
				continue
			}
			if token != s.acquire.Token {
				found = append(found, k.violation("phases", "P20", []history.Event{o.acquire, o.last, s.acquire, s.last},
					"two readers had the key at once and have different tokens: %s had it until %s, then came %s.",
					k.tell(o.acquire), k.tell(o.last), k.tell(s.acquire)))
				return found // the rest follows from it
			}
		}
		if o, ok := longest[s.acquire.Token]; !ok || o.until < s.until {
			longest[s.acquire.Token] = s
		}
	}
	return found
}
