package check

import (
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// counted is P18: each reader and each slot ends alone, within a TTL of its end, whatever others
// do that have the key too. It counts: an observer sees no more of them than there are
// callers who have such a hold, or had one or asked for one at most a TTL before.
//
// It judges quiet times only, in which all clients reached the server: an acquire whose grant comes too late is sent
// again under another ID while the one before it is undone, and leaves a hold for each of them until the undo is
// answered. It judges none after the clock of the server was set: who was granted a
// hold while it was ahead, and died, has it until that time comes. A caller's hold that stays is
// not seen as long as fewer are there than there may be: callers of one client often share one.
func counted(k *key) (found []Violation) {
	for _, e := range k.observed {
		from := e.Begin - 2*k.tail() - k.slack()
		if e.Mode != history.InPhase || k.clockSet(e.End) || !k.quiet(from, e.End) || !k.allServed(from, e.End) {
			continue
		}
		for _, c := range []struct {
			mode history.Mode
			n    int
			what string
		}{{history.Shared, int(e.Value), "readers"}, {history.Slot, e.Slot, "slots"}} {
			if may := k.may(c.mode, e); c.n > may {
				return append(found, k.violation("counted", "P18", []history.Event{e},
					"%d %s have the key, and there are %d at most who can: %s.", c.n, c.what, may, k.tell(e)))
			}
		}
	}
	return found
}

// may is how many can have a hold of a mode when e saw the key.
func (k *key) may(mode history.Mode, e history.Event) (n int) {
	oldest := e.Begin - k.tail() - k.slack()
	count := func(a history.Event, until time.Duration) {
		if a.Mode == mode && a.Begin <= e.End && until >= oldest {
			n++
		}
	}
	for _, h := range k.holds {
		_, until := k.endOf(h)
		count(h.acquire, until)
	}
	for _, t := range k.tries {
		count(t, k.goneAt(t.Client, t.End))
	}
	return n
}
