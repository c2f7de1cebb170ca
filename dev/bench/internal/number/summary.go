package number

import (
	"cmp"
	"slices"
	"time"
)

// summary is what the processes of a contest found together.
type summary struct {
	handovers  []float64 // ms from before the Unlock in one process to after the Lock in another
	holds      int
	statements uint64
	counts     bool
	share      float64 // of the process with the most holds to that with the fewest
	longest    time.Duration
	fewest     int       // turns of a waiter
	starved    int       // waiters without a turn
	waits      []float64 // ms
	overlaps   int       // times that two processes had one key
}

func summarize(found []contested) (s summary) {
	type owned struct {
		stint
		process int
	}
	var all []owned
	s.fewest = -1
	least, most := -1, 0
	for i, c := range found {
		holds := 0
		for _, st := range c.Stints {
			all = append(all, owned{st, i})
		}
		for _, n := range c.Turns {
			holds += n
		}
		if least < 0 || holds < least {
			least = holds
		}
		most = max(most, holds)
		s.holds += holds
		s.statements += c.Statements
		s.counts = c.Counts
		s.longest = max(s.longest, c.Longest)
		s.waits = append(s.waits, c.Waits...)
		for _, n := range c.Turns {
			if s.fewest < 0 || n < s.fewest {
				s.fewest = n
			}
			if n == 0 {
				s.starved++
			}
		}
	}
	s.share = float64(most) / max(float64(least), 0.5)
	slices.SortFunc(all, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Got, b.Got))
	})
	for i := 1; i < len(all); i++ {
		before, now := all[i-1], all[i]
		if before.process == now.process || before.Key != now.Key {
			continue
		}
		if now.Got < before.End {
			s.overlaps++
		}
		s.handovers = append(s.handovers, float64(now.Got-before.End)/1e6)
	}
	return s
}
