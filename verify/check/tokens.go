package check

import (
	"cmp"
	"slices"

	"github.com/rowlock/rowlock/verify/history"
)

// tokens is P3: they rise with the grants of a key. Of two grants of which one had
// ended before the other began, the later has the larger token; no two are the same.
// Local holders, to whom a hold was handed on, are no exception.
//
// It does not know the order of grants that ran at once, nor of those whose reply
// nobody saw.
func tokens(k *key) (found []Violation) {
	var judged []*hold // by the time of Begin, as k.holds
	epochs := make(map[*hold]int)
	for _, h := range k.holds {
		if n, uncertain := k.epoch(h.acquire.Begin, h.acquire.End); !uncertain {
			epochs[h] = n
			judged = append(judged, h)
		}
	}
	byEnd := slices.Clone(judged)
	slices.SortStableFunc(byEnd, func(a, b *hold) int { return cmp.Compare(a.acquire.End, b.acquire.End) })
	same := make(map[int64]*hold)
	var largest *hold // of those that had ended before the one looked at began
	before := 0
	for _, h := range judged {
		for ; before < len(byEnd) && byEnd[before].acquire.End < h.acquire.Begin; before++ {
			b := byEnd[before]
			if largest == nil || epochs[b] > epochs[largest] || epochs[b] == epochs[largest] && b.acquire.Token > largest.acquire.Token {
				largest = b
			}
		}
		other := same[h.acquire.Token]
		same[h.acquire.Token] = h
		switch {
		case other != nil && epochs[other] == epochs[h]:
			found = append(found, k.violation("tokens", "P3", []history.Event{other.acquire, h.acquire},
				"two grants have one token: %s and %s.", k.tell(other.acquire), k.tell(h.acquire)))
		case largest != nil && epochs[largest] == epochs[h] && h.acquire.Token < largest.acquire.Token:
			found = append(found, k.violation("tokens", "P3", []history.Event{largest.acquire, h.acquire},
				"the token went back by %d: %s was over before %s began.",
				largest.acquire.Token-h.acquire.Token, k.tell(largest.acquire), k.tell(h.acquire)))
		}
	}
	return found
}
