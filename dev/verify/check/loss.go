package check

import (
	"github.com/rowlock/rowlock/dev/verify/history"
)

// loss is P2: from the moment at which the database may grant the key to another, no
// look finds the lease held. Seen from outside: once an acquire that got a newer lease
// had returned, no Look and no Renew that began later was OK; and a lease that had
// ended stays so, whether it was released or lost.
//
// And while a holder believes in its lease no observer is told that the key is free:
// then the database would have given it to another.
//
// It does not see a holder that is late with its loss while nobody has the key or
// asks for its state, or one that does not look.
func loss(k *key) (found []Violation) {
	found = free(k)
	for _, h := range k.holds {
		next := k.after(h)
		by, ended, over := h.ended()
		for _, e := range h.uses {
			if !says(e) || e.Kind == history.Release {
				continue
			}
			if next != nil && e.Begin > next.acquire.End && !k.excused(e.Begin) {
				found = append(found, k.violation("loss", "P2", []history.Event{h.acquire, next.acquire, e},
					"%s believed in its lease %v after another had the key: %s came after %s.",
					e.Client, e.Begin-next.acquire.End, k.tell(e), k.tell(next.acquire)))
				break
			}
			if over && e.Begin > ended {
				found = append(found, k.violation("loss", "P2", []history.Event{h.acquire, by, e},
					"a lease that was over came back: %s, then %s.", k.tell(by), k.tell(e)))
				break
			}
		}
	}
	return found
}

// free is for observers. What they are told during a fault counts for nothing: the
// node that they ask may not be the one that decides.
func free(k *key) (found []Violation) {
	for _, h := range k.holds {
		last, until := k.heldUntil(h)
		for _, e := range k.observed {
			if e.Result != history.Free || e.Begin < h.acquire.End || e.End > until || k.excused(e.Begin) || k.disturbed(e) {
				continue
			}
			found = append(found, k.violation("loss", "P2", []history.Event{h.acquire, e, last},
				"the key was free while its holder believed in its lease: %s, and later %s.", k.tell(e), k.tell(last)))
			break
		}
	}
	return found
}
