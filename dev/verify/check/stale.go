package check

import (
	"github.com/rowlock/rowlock/dev/verify/history"
)

// stale is P4 and P21: a guarded transaction never commits after a newer hold of the key was
// granted that excludes its own. Seen from outside: the COMMIT of a transaction that took effect had been
// sent when the first acquire of a newer lease returned. A commit without an answer
// took effect if its row is in the ledger and nobody else's can be meant.
//
// There is no exception: P4 holds whatever is done to clocks and sessions. Only that of a slot
// ends where an operator releases the key by force.
//
// It does not see a stale commit that was sent before the newer grant returned; the
// order of tokens in the ledger does.
func stale(k *key) (found []Violation) {
	owner := make(map[leaseID]*hold)
	for _, h := range k.holds {
		owner[leaseID{h.acquire.Client, h.acquire.ID}] = h
	}
	rows := newRows(k)
	for _, e := range k.commits {
		if e.Mode == history.Slot && k.forced() {
			continue
		}
		if e.Sent == 0 || e.Result != history.OK && !(undecided(e) && (rows.tookEffect(e) || k.rowsSeen(e) > 0)) {
			continue
		}
		h := owner[leaseID{e.Client, e.Lease}]
		next := k.after(h)
		if next == nil || e.Sent <= next.acquire.End {
			continue
		}
		found = append(found, k.violation("stale", guarding(e), []history.Event{h.acquire, next.acquire, e},
			"a commit of an old holder took effect: %s sent it at %s, %v after %s.",
			k.tell(e), k.at(e.Sent), e.Sent-next.acquire.End, k.tell(next.acquire)))
	}
	return found
}

// guarding is the promise of a guarded transaction, or of what it wrote.
func guarding(e history.Event) string {
	if e.Mode != "" {
		return "P21"
	}
	return "P4"
}

// undecided reports whether a commit or write may have taken effect or not.
func undecided(e history.Event) bool { return e.End == 0 || e.Result == history.Unknown }
