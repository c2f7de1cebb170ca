package check

import "github.com/rowlock/rowlock/dev/verify/history"

// slots is P17: whoever asks for one of n places gets a number below its own n, and no
// observer sees more slots held than the largest n that anybody asked for. That no
// two have one number is of the checker lock.
func slots(k *key) (found []Violation) {
	most := 0
	see := func(e history.Event) {
		if e.Mode == history.Slot {
			most = max(most, e.Slots)
		}
	}
	for _, h := range k.holds {
		see(h.acquire)
		if e := h.acquire; e.Mode == history.Slot && e.Slot >= e.Slots {
			found = append(found, k.violation("slots", "P17", []history.Event{e}, "one of %d places has the number %d: %s.", e.Slots, e.Slot, k.tell(e)))
		}
	}
	for _, t := range k.tries {
		see(t)
	}
	if most == 0 || len(k.killed) > 0 { // of what a process that was killed had asked for nothing is known
		return found
	}
	for _, e := range k.observed {
		if e.Mode == history.InPhase && e.Slot > most {
			found = append(found, k.violation("slots", "P17", []history.Event{e}, "%d slots are held, and nobody asked for more than one of %d: %s.", e.Slot, most, k.tell(e)))
		}
	}
	return found
}
