package check

import (
	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// reaped is P10: a hold that its holder may trust is not removed from the database. It
// was removed too early if the holder is told so just after a look that found the lease
// held: half of the margin later, at most, when the database had the hold for as long
// again.
//
// Where the exceptions to P2 may be at work, or a clock was ever set, it says nothing; nor of a session that ended in a
// failover. The fault may begin after the statement that is told of the end.
// It sees nothing of holders who look less often.
func reaped(k *key) (found []Violation) {
	for _, h := range k.holds {
		var last history.Event
		for _, e := range h.uses {
			if says(e) {
				last = e
			}
			if e.Reason != string(rowlock.ReasonRemoved) {
				continue
			}
			excused := k.excused(e.Begin) || k.excused(e.End) || k.sessionEnded(e.Begin) || k.sessionEnded(e.End) || k.clockSet(e.End)
			if last.Begin > 0 && e.Begin-last.Begin <= k.on.TTL/20 && !excused {
				found = append(found, k.violation("reaped", "P10", []history.Event{h.acquire, last, e},
					"a live hold was removed: %s, and %v later %s.", k.tell(last), e.Begin-last.Begin, k.tell(e)))
			}
			break
		}
	}
	return found
}
