package check

import (
	"cmp"
	"slices"
	"time"
)

// place finds a moment for the grant of each hold, by their numbers, at which the key was free
// for it; nil if there are none, and holds that cannot be together, of which the first
// is excluded by each of the others.
//
// A hold that said that it held the key had it from the end of its acquire on, whenever it was
// granted, until it said so last. The later it was granted the more room it leaves to
// others: so it was, for all that matters, at the end of its acquire. A hold that never
// said anything needs a moment only, somewhere in its acquire, and is in nobody's way.
func place(all []span) (moments []time.Duration, bad []span) {
	moments = make([]time.Duration, len(all)+1)
	in := make(map[class][]span) // by class: those that are in its way, by their begin
	for _, s := range all {
		if _, ok := in[s.class()]; ok {
			continue
		}
		list := slices.DeleteFunc(slices.Clone(all), func(o span) bool { return o.brief() || !excludes(s.hold, o.hold) })
		slices.SortStableFunc(list, func(a, b span) int { return cmp.Compare(a.acquire.End, b.acquire.End) })
		in[s.class()] = list
	}
	blocks := make(map[class][]block)
	for c, list := range in {
		blocks[c] = merge(list)
	}
	for _, s := range all {
		if s.brief() {
			b, ok := within(blocks[s.class()], s.acquire.Begin, s.acquire.End)
			if ok {
				return nil, append([]span{s}, b.holds...)
			}
			moments[s.number] = b.until
			continue
		}
		moments[s.number] = s.acquire.End
		for _, o := range in[s.class()] {
			if o.acquire.End >= s.until {
				break
			}
			if o.number != s.number && o.until > s.acquire.End {
				return nil, []span{s, o}
			}
		}
	}
	return moments, nil
}

// block is a time in which holds, one after the other, leave no moment free.
type block struct {
	from, until time.Duration
	holds       []span
}

// merge joins holds that overlap. list is sorted by their begin.
func merge(list []span) (blocks []block) {
	for _, s := range list {
		if last := len(blocks) - 1; last >= 0 && s.acquire.End < blocks[last].until {
			b := &blocks[last]
			b.holds = append(b.holds, s)
			b.until = max(b.until, s.until)
			continue
		}
		blocks = append(blocks, block{s.acquire.End, s.until, []span{s}})
	}
	return blocks
}

// within reports whether the time from begin to end lies within a block, its first and last
// moments excepted; else until is the first moment that is free.
func within(blocks []block, begin, end time.Duration) (b block, yes bool) {
	i, _ := slices.BinarySearchFunc(blocks, begin, func(b block, t time.Duration) int {
		if b.until > t {
			return 1
		}
		return -1
	})
	if i == len(blocks) || blocks[i].from >= begin {
		return block{until: begin}, false
	}
	b = blocks[i]
	if b.until <= end {
		return block{until: b.until}, false
	}
	b.holds = slices.DeleteFunc(slices.Clone(b.holds), func(s span) bool { return s.until <= begin || s.acquire.End >= end })
	return b, true
}
