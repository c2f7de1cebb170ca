package round

import (
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// addressCut is a fault that nobody injected: the address of a cluster ended connections to a member that took writes
// again at once, because the members did not agree for a moment that it did.
const addressCut = "address-cut"

// cuts are the events of what an address ended since a round began. Those of a failover or a switch are none: the
// fault that made it is recorded, and promises more.
func cuts(all []testenv.Cut, began time.Time) (events []history.Event) {
	now, clock := time.Now(), history.Now()
	at := func(t time.Time) time.Duration { return clock - now.Sub(t) }
	for _, c := range all {
		if !c.Stayed() || !c.End.IsZero() && c.End.Before(began) {
			continue
		}
		e := history.Event{Kind: history.Fault, Key: addressCut, Begin: at(c.Begin), End: clock}
		e.Error = fmt.Sprintf("%d connections to member %d ended, which takes writes again: %s", c.Connections, c.From, c.Why)
		if !c.End.IsZero() {
			e.End = at(c.End)
		}
		events = append(events, e)
	}
	return events
}
