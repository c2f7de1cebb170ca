package round

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// life is from when until when a lease was held.
type life struct {
	from, until time.Duration
	lost        bool // it ended by itself
	early       bool // while it was trusted: not because its time was over
}

type lives []life

// livesOf are those of all leases in a history. One of which no end is seen lasted to its last use.
func livesOf(events []history.Event) lives {
	type name struct {
		client string
		id     int64
	}
	at := map[name]int{}
	var all lives
	for _, e := range events {
		if e.Kind == history.Acquire && e.Result == history.OK {
			at[name{e.Client, e.ID}] = len(all)
			all = append(all, life{from: e.End, until: e.End})
		}
	}
	ended := map[int]bool{}
	for _, e := range events {
		i, ok := at[name{e.Client, e.Lease}]
		if !ok || e.Lease == 0 {
			continue
		}
		l := &all[i]
		over := e.Kind == history.Done || e.Kind == history.Release || e.Result == history.Lost || e.Result == history.Released
		switch {
		case !over && !ended[i]:
			l.until = max(l.until, e.Begin)
		case over && (!ended[i] || e.Begin < l.until):
			ended[i] = true
			l.until, l.lost = e.Begin, e.Kind == history.Done || e.Result == history.Lost
			l.early = l.lost && slices.Contains([]rowlock.Reason{rowlock.ReasonTaken, rowlock.ReasonRemoved, rowlock.ReasonForced}, rowlock.Reason(e.Reason))
		}
	}
	return all
}

// during counts the leases that were held when a fault began, those of them that ended by themselves before its end, and of these those
// that were still trusted.
func (all lives) during(fault history.Event) (held, lost, early int) {
	for _, l := range all {
		if l.from < fault.Begin && l.until >= fault.Begin {
			held++
			if l.lost && l.until <= fault.End {
				lost++
				if l.early {
					early++
				}
			}
		}
	}
	return held, lost, early
}
