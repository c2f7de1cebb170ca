package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// Count is what was done in a space, so that a reader sees that a clean round was not an
// idle one.
type Count struct {
	Space     string
	Kinds     map[history.Kind]map[history.Result]int // no result: "pending"
	Grants    int                                     // acquires that got a lease
	HandedOff int                                     // of these: local holders, to whom a hold was handed off
	Refused   int                                     // acquires that were told that the key is held
	Losses    int                                     // leases that were lost
	Unknown   int                                     // commits, runs and writes of unknown outcome
}

// Pending stands in Count.Kinds for a call without a reply.
const Pending history.Result = "pending"

// Counts counts events, a Count for each space, by their names. What is about no space (faults,
// kills, freezes) stands under the empty name.
func Counts(events []history.Event) []Count {
	counts := make(map[string]*Count)
	type grant struct {
		space, key, client string
		token              int64
	}
	granted := make(map[grant]bool)
	lost := make(map[leaseID]bool)
	for _, e := range events {
		c := counts[e.Space]
		if c == nil {
			c = &Count{Space: e.Space, Kinds: make(map[history.Kind]map[history.Result]int)}
			counts[e.Space] = c
		}
		if c.Kinds[e.Kind] == nil {
			c.Kinds[e.Kind] = make(map[history.Result]int)
		}
		result := e.Result
		if result == "" && slices.Contains([]history.Kind{history.Acquire, history.Commit, history.Write, history.Read, history.Once, history.Locked}, e.Kind) {
			result = Pending
		}
		c.Kinds[e.Kind][result]++
		switch {
		case e.Kind == history.Acquire && result == history.OK:
			c.Grants++
			granted[grant{e.Space, e.Key, e.Client, e.Token}] = true
		case e.Kind == history.Acquire && result == history.Refused:
			c.Refused++
		case slices.Contains([]history.Kind{history.Commit, history.Write, history.Once, history.Locked}, e.Kind) && undecided(e):
			c.Unknown++
		}
		if e.Lease != 0 && e.Kind != history.Commit && e.Kind != history.Once && (result == history.Lost || e.Kind == history.Done) && !lost[leaseID{e.Client, e.Lease}] {
			lost[leaseID{e.Client, e.Lease}] = true
			c.Losses++
		}
	}
	for g := range granted {
		before := g
		before.token--
		if granted[before] {
			counts[g.space].HandedOff++
		}
	}
	var list []Count
	for _, space := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, *counts[space])
	}
	return list
}

// String is the count in two lines.
func (c Count) String() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(c.Kinds)) {
		var results []string
		for _, result := range slices.Sorted(maps.Keys(c.Kinds[kind])) {
			results = append(results, strings.TrimSpace(fmt.Sprintf("%d %s", c.Kinds[kind][result], result)))
		}
		kinds = append(kinds, fmt.Sprintf("%s %s", kind, strings.Join(results, ", ")))
	}
	return fmt.Sprintf("%s: %d grants, %d of them handed off, %d refused; %d losses, %d unknown\n  %s",
		cmp.Or(c.Space, "all spaces"), c.Grants, c.HandedOff, c.Refused, c.Losses, c.Unknown, strings.Join(kinds, "; "))
}
