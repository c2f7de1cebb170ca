package ui

import (
	"cmp"
	"context"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// Observer is for Options.Observers of the program's own clients: the page then lists each of their
// losses, with its reason, also those that nobody was looking at, under the client's Options.Name. It may serve several clients.
func (h *Handler) Observer() *rowlock.Observer {
	return &rowlock.Observer{
		LeaseEnd: func(_ context.Context, e rowlock.LeaseEnd) {
			if how := reasons[rowlock.Reason(e.End())]; how != "" {
				h.pollers.losses.add(loss{At: e.At, Key: e.Key, Owner: cmp.Or(e.Client, "this program"), Token: e.Token, How: how})
			}
		},
	}
}

// reasons are those that are listed, as the rest of a sentence about the lease.
var reasons = map[rowlock.Reason]string{
	rowlock.ReasonExpired: "could not be renewed in time",
	rowlock.ReasonTaken:   "was lost: another has had the key since",
	rowlock.ReasonRemoved: "was lost: the database has no such hold any more",
	rowlock.ReasonForced:  "was ended by force",
	rowlock.ReasonMaxHold: "has ended: its MaxHold is over",
}

// sameHold reports whether two losses are of one hold. The token of a lease may be above that in the
// database: its hold was handed off inside the program.
func (x loss) sameHold(y loss) bool {
	return x.Key == y.Key && x.Token-y.Token < driver.TokenRange && y.Token-x.Token < driver.TokenRange
}
