package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// back is P27: once its database serves again, a program gets locks again by itself. It looks at the keys that a client has
// for itself, which are free, or will be within a TTL: whoever wants them, and got none of any kind for a TTL and two
// seconds, while both the server's pulses and the client's own were answered in time, has not come back.
//
// Of the faults only failovers may be under way meanwhile: others may block what pulses do not ask for.
func back(r *round) (found []Violation) {
	type program struct{ space, client string }
	type try struct {
		*key
		history.Event
	}
	var programs []program
	got, tried := make(map[program][]time.Duration), make(map[program][]try)
	for _, k := range r.keys {
		for _, e := range k.acquires() {
			p := program{k.space, e.Client}
			switch {
			case e.End == 0:
			case e.Result == history.OK:
				got[p] = append(got[p], e.End)
			case strings.Contains(k.name, "/"+e.Client+"/"):
				if tried[p] == nil {
					programs = append(programs, p)
				}
				tried[p] = append(tried[p], try{k, e})
			}
		}
	}
	for _, p := range programs {
		slices.Sort(got[p])
		slices.SortStableFunc(tried[p], func(a, b try) int { return cmp.Compare(a.End, b.End) })
		for _, e := range tried[p] {
			k := e.key
			patience := k.on.TTL + cmp.Or(k.Back, 2*time.Second) + k.slack()
			from := e.End - patience
			n, _ := slices.BinarySearch(got[p], from)
			asked := slices.ContainsFunc(tried[p], func(o try) bool { return o.Begin <= from+patience/4 && o.End >= from })
			if n < len(got[p]) && got[p][n] <= e.End || !asked || !k.serves(p.client, from, e.End) {
				continue
			}
			found = append(found, k.violation("back", "P27", []history.Event{e.Event},
				"a program got nothing for %v, while its database and the way there were well: %s.", patience, k.tell(e.Event)))
			break
		}
	}
	return found
}

// serves reports whether the database did its work all the time, the client ran and reached it, and nothing but failovers was at
// fault.
func (k *key) serves(client string, from, to time.Duration) bool {
	if len(k.reach[client]) == 0 || k.reach[client][0].Begin > from || k.clockSet(to) ||
		!k.healthy(from, to, k.on.TTL/4, k.on.TTL/6) || !k.served(client, from, to) {
		return false
	}
	return !slices.ContainsFunc(k.faults, func(f history.Event) bool { return k.hitBy(f) && overlaps(f, from, to) && !effects[f.Key].failover }) &&
		!slices.ContainsFunc(k.frozen, func(f history.Event) bool { return f.Client == client && overlaps(f, from, to) }) &&
		(k.killed[client].Begin == 0 || k.killed[client].Begin > to)
}
