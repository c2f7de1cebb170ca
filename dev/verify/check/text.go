package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// at is a time since the begin of the round.
func (r *round) at(t time.Duration) string { return (t - r.Begin).String() }

// tell is an event for a reader.
func (r *round) tell(e history.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s's %s", e.Client, e.Kind)
	if e.ID != 0 {
		fmt.Fprintf(&b, " #%d", e.ID)
	}
	if e.Lease != 0 {
		fmt.Fprintf(&b, " of lease #%d", e.Lease)
	}
	if e.Token != 0 {
		fmt.Fprintf(&b, ", token %d", e.Token)
	}
	if e.Value != 0 {
		fmt.Fprintf(&b, ", value %d", e.Value)
	}
	if e.Run != "" {
		fmt.Fprintf(&b, ", run %s", e.Run)
	}
	if e.Owner != "" {
		fmt.Fprintf(&b, ", owner %s", e.Owner)
	}
	switch {
	case slices.Contains(afterwards, e.Kind):
		return b.String()
	case e.End == 0:
		fmt.Fprintf(&b, " (%s, no reply)", r.at(e.Begin))
	default:
		fmt.Fprintf(&b, " (%s to %s: %s)", r.at(e.Begin), r.at(e.End), e.Result)
	}
	return b.String()
}

// violation is one of a key.
func (k *key) violation(checker, promise string, events []history.Event, format string, args ...any) Violation {
	return Violation{Checker: checker, Promise: promise, Space: k.space, Key: k.name, Events: events, Text: fmt.Sprintf(format, args...)}
}
