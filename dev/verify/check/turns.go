package check

import (
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/driver"
)

// turns is P19: exclusive callers and those of readers and slots get their turns beside each
// other. Nobody waits in vain while others of the other kind come later and get the key, and
// nobody waits for a key that nobody has, but for a program that has died in its line.
//
// The gate of an exclusive caller keeps new readers and slots out, and readers get a phase
// beside exclusive callers that come again and again. How soon is a matter of the machine, so
// this asks only about callers who waited for seconds, in a quiet time in which their program
// reached the server: whether all that time nobody of their kind got the key, while those who
// did came in its second half. To get a key takes many trips, and an attempt that takes most of
// the TTL comes to nothing.
func turns(k *key) (found []Violation) {
	if !k.shares() {
		return nil
	}
	for _, e := range k.waited() {
		from := e.End - k.patience()
		if e.Group != 0 || !k.quiet(from, e.End) || !k.served(e.Client, from, e.End) {
			continue
		}
		if k.quiet(from-k.tail()-k.slack(), e.End) && k.faultless(from-k.deadStand()-k.tail()-k.slack(), from) && k.idle(from, e.End) && !k.groupsWait(from, e.End) {
			found = append(found, k.violation("turns", "P19", []history.Event{e}, "a caller waited for %v for a key that nobody had: %s.", k.patience(), k.tell(e)))
			continue
		}
		if by := k.passed(e, from); by != nil {
			found = append(found, k.violation("turns", "P19", []history.Event{e, by.acquire}, "a caller waited for %v, and nobody of its kind got the key, while others came later and did: %s was passed by %s.",
				k.patience(), k.tell(e), k.tell(by.acquire)))
		}
	}
	return found
}

// deadStand is how long programs that have died delay a key in whose line they stood, all together (P29).
func (k *key) deadStand() time.Duration {
	if k.on.Strategy == forUpdate {
		return 0
	}
	return 2 * driver.EntryTime // that of one that has waited for twice as long
}

// kind is what those are of who wait for each other's end, and not among themselves.
func kind(e history.Event) bool { return e.Mode == "" }

// passed is the last of those who came in the second half of e's patience, which began at from,
// and got the key, as several of the other kind did; nil: of e's kind somebody did, too.
func (k *key) passed(e history.Event, from time.Duration) (last *hold) {
	passed := 0
	for _, h := range k.holds {
		a := h.acquire
		switch {
		case a.Client == e.Client && a.ID == e.ID:
		case a.Begin > e.End:
			continue
		case kind(a) == kind(e):
			if _, until := k.endOf(h); until >= from {
				return nil
			}
		case a.Begin > from+k.patience()/2 && a.End < e.End:
			if passed++; passed >= 3 {
				last = h
			}
		}
	}
	return last
}

// groupsWait reports whether an AcquireAll waited at that time, which may have had the key
// while it waited for another one.
func (k *key) groupsWait(from, to time.Duration) bool {
	for _, t := range k.tries {
		if t.Group != 0 && t.Begin <= to && k.goneAt(t.Client, t.End) >= from {
			return true
		}
	}
	for _, h := range k.holds {
		if h.acquire.Group != 0 && h.acquire.Begin <= to && h.acquire.End >= from {
			return true
		}
	}
	return false
}
