package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// tokens is P3 and P20: they rise with the grants of a key that exclude each other, and no two
// of those have one. Those of readers never fall. Local holders, to whom a hold was handed
// off, are no exception. Of two grants one was the earlier if its acquire had ended before
// that of the other began, or if both said later that they held the key, and one had said so
// for the last time before the other's acquire returned: then it cannot have been granted
// last, unless two had the key at once.
//
// It does not know the order of grants that ran at once and never said anything, nor
// of grants whose reply no client saw.
func tokens(k *key) (found []Violation) {
	var all []span
	classes := make(map[class]*hold)
	for _, s := range spans(k) {
		if k.tokensRise(s.acquire.End) {
			all = append(all, s)
			classes[s.class()] = s.hold
		}
	}
	told := make(map[*hold]bool)
	tell := func(a, b *hold, format string, args ...any) {
		if !told[b] {
			told[b] = true
			promise := "P20"
			if a.acquire.Mode == "" && b.acquire.Mode == "" {
				promise = "P3"
			}
			found = append(found, k.violation("tokens", promise, []history.Event{a.acquire, b.acquire}, format, args...))
		}
	}
	same := make(map[int64][]*hold)
	for _, s := range all {
		token := s.acquire.Token
		if i := slices.IndexFunc(same[token], func(o *hold) bool { return excludes(s.hold, o) }); i >= 0 {
			tell(same[token][i], s.hold, "two grants have one token: %s and %s.", k.tell(same[token][i].acquire), k.tell(s.acquire))
		}
		same[token] = append(same[token], s.hold)
	}
	for _, c := range slices.Sorted(maps.Keys(classes)) {
		before := slices.DeleteFunc(slices.Clone(all), func(s span) bool { return s.class() != c && !excludes(s.hold, classes[c]) })
		after := slices.DeleteFunc(slices.Clone(all), func(s span) bool { return s.class() != c })
		k.rise(before, after, tell)
	}
	return found
}

// rise finds those of after whose token is smaller than one of before that was earlier.
func (k *key) rise(before, after []span, tell func(a, b *hold, format string, args ...any)) {
	from, latest := make(map[*hold]time.Duration), k.acquires()
	slices.SortStableFunc(latest, func(a, b history.Event) int { return cmp.Compare(b.Begin, a.Begin) })
	for _, s := range after {
		from[s.hold] = s.acquire.Begin
		if k.excused(s.acquire.Begin) || k.excused(s.acquire.End) {
			from[s.hold] = min(s.acquire.Begin, max(sentFrom(latest, s.acquire), s.acquire.End-k.on.TTL))
		}
	}
	began := func(s span) time.Duration { return from[s.hold] }
	ended := func(s span) time.Duration { return s.acquire.End + 1 }
	steps(before, ended, after, began, func(a, b *hold) {
		tell(a, b, "the token went back by %d: %s was over before %s began.", a.acquire.Token-b.acquire.Token, k.tell(a.acquire), k.tell(b.acquire))
	})
	until := func(s span) time.Duration { return s.until }
	returned := func(s span) time.Duration { return s.acquire.End }
	spoke := func(list []span) []span {
		return slices.DeleteFunc(slices.Clone(list), func(s span) bool { return s.brief() })
	}
	steps(spoke(before), until, spoke(after), returned, func(a, b *hold) {
		last, _ := k.heldUntil(a)
		tell(a, b, "the token went back by %d: %s held the key until %s, then came %s.",
			a.acquire.Token-b.acquire.Token, k.tell(a.acquire), k.tell(last), k.tell(b.acquire))
	})
}

// sentFrom is the earliest time at which the program of a caller may have sent the attempt whose grant the caller has, if that was within a TTL:
// the grant of one that came before it may have been on its way, and go to whoever waits then. Where a hold can end before its time another may
// have had the key meanwhile. latest are the acquires of the key, the latest first.
func sentFrom(latest []history.Event, b history.Event) time.Duration {
	since := b.Begin
	for _, e := range latest {
		if e.Client == b.Client && e.Mode == b.Mode && e.Begin < since && (e.End == 0 || e.End >= since) {
			since = e.Begin
		}
	}
	return since
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
