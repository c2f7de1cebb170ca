package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/rowlock/rowlock/verify/history"
)

// tokens is P3: they rise with the grants of a key; no two are the same. Local
// holders, to whom a hold was handed off, are no exception. Of two grants one was the
// earlier if its acquire had ended before that of the other began, or if both said
// later that they held the key, and one had said so for the last time before the
// other's acquire returned: then it cannot have been granted last, unless two had the
// key at once.
//
// It does not know the order of grants that ran at once and never said anything, nor
// of grants whose reply no client saw.
func tokens(k *key) (found []Violation) {
	var all, held []span // held: those that said so
	for _, s := range spans(k) {
		if !k.tokensRise(s.acquire.End) {
			continue
		}
		all = append(all, s)
		if !s.brief() {
			held = append(held, s)
		}
	}
	told := make(map[*hold]bool)
	tell := func(a, b *hold, format string, args ...any) {
		if !told[b] {
			told[b] = true
			found = append(found, k.violation("tokens", "P3", []history.Event{a.acquire, b.acquire}, format, args...))
		}
	}
	same := make(map[int64]*hold)
	for _, s := range all {
		if other := same[s.acquire.Token]; other != nil {
			tell(other, s.hold, "two grants have one token: %s and %s.", k.tell(other.acquire), k.tell(s.acquire))
		}
		same[s.acquire.Token] = s.hold
	}
	began := func(s span) time.Duration { return s.acquire.Begin }
	ended := func(s span) time.Duration { return s.acquire.End + 1 }
	steps(all, ended, all, began, func(a, b *hold) {
		tell(a, b, "the token went back by %d: %s was over before %s began.", a.acquire.Token-b.acquire.Token, k.tell(a.acquire), k.tell(b.acquire))
	})
	until := func(s span) time.Duration { return s.until }
	returned := func(s span) time.Duration { return s.acquire.End }
	steps(held, until, held, returned, func(a, b *hold) {
		last, _ := k.heldUntil(a)
		tell(a, b, "the token went back by %d: %s held the key until %s, then came %s.",
			a.acquire.Token-b.acquire.Token, k.tell(a.acquire), k.tell(last), k.tell(b.acquire))
	})
	return found
}

// steps finds holds with a smaller token than one that was over at their time: over
// gives the time for those before, at for those after.
func steps(before []span, over func(span) time.Duration, after []span, at func(span) time.Duration, back func(a, b *hold)) {
	before, after = slices.Clone(before), slices.Clone(after)
	slices.SortStableFunc(before, func(a, b span) int { return cmp.Compare(over(a), over(b)) })
	slices.SortStableFunc(after, func(a, b span) int { return cmp.Compare(at(a), at(b)) })
	var largest *hold
	i := 0
	for _, b := range after {
		for ; i < len(before) && over(before[i]) <= at(b); i++ {
			a := before[i].hold
			if largest == nil || a.acquire.Token > largest.acquire.Token {
				largest = a
			}
		}
		if largest != nil && b.acquire.Token < largest.acquire.Token {
			back(largest, b.hold)
		}
	}
}
