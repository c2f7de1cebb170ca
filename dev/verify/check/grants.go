package check

import (
	"cmp"
	"slices"
	"sort"
)

// grants answers which grant of a key came first after another one, of those that conflict
// with it.
//
// A grant is certainly newer than another if its acquire began after that of the other
// had ended, whatever the tokens say, and also if it has the larger token, as long as
// P3 and P20 are promised. In both orders the one that ended first is what counts: from then
// on a newer hold existed.
type grants struct {
	byBegin      []*hold
	firstBegin   []*hold // of byBegin[i:], the one that ended first
	byToken      []*hold // empty where tokens give no order
	firstByToken []*hold
}

// newGrants are those that conflict with the class of a hold.
func newGrants(k *key, of *hold) (g grants) {
	for _, h := range k.holds {
		if excludes(of, h) {
			g.byBegin = append(g.byBegin, h)
		}
	}
	g.firstBegin = endedFirst(g.byBegin)
	if k.tokensRise(always) {
		g.byToken = slices.Clone(g.byBegin)
		slices.SortStableFunc(g.byToken, func(a, b *hold) int { return cmp.Compare(a.acquire.Token, b.acquire.Token) })
		g.firstByToken = endedFirst(g.byToken)
	}
	return g
}

// endedFirst gives for each place in list the hold, from there on, whose acquire
// ended first.
func endedFirst(list []*hold) []*hold {
	first := make([]*hold, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		first[i] = list[i]
		if i+1 < len(list) && first[i+1].acquire.End < list[i].acquire.End {
			first[i] = first[i+1]
		}
	}
	return first
}

// after is the first grant that conflicts with h and is certainly newer; nil if there is none.
func (k *key) after(h *hold) *hold {
	g := k.grants[h.class()]
	return g.after(h)
}

func (g *grants) after(h *hold) (first *hold) {
	i := sort.Search(len(g.byBegin), func(i int) bool { return g.byBegin[i].acquire.Begin > h.acquire.End })
	if i < len(g.byBegin) {
		first = g.firstBegin[i]
	}
	i = sort.Search(len(g.byToken), func(i int) bool { return g.byToken[i].acquire.Token > h.acquire.Token })
	if i < len(g.byToken) && (first == nil || g.firstByToken[i].acquire.End < first.acquire.End) {
		first = g.firstByToken[i]
	}
	return first
}
