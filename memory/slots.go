package memory

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// freeSlot chooses a slot that is not below from. If there is none it says how long all are taken at least, or that
// one of them is free but pinned.
func (s *Store) freeSlot(p *phase, q driver.Request, from int, now time.Time) (slot int, left time.Duration, pinned bool) {
	taken := make(map[int]time.Duration)
	for _, h := range p.shares {
		if rest := h.until().Sub(now); h.mode == driver.Slot && rest > 0 {
			taken[h.slot] = rest
		}
	}
	slot = -1
	for i := from; i < q.Slots; i++ {
		switch rest := taken[i]; {
		case rest > 0:
			if left == 0 || rest < left {
				left = rest
			}
		case s.slotPinned(q.Key, i):
			pinned = true
		case slot < 0 || i == q.Slot:
			slot = i
		}
	}
	return slot, left, pinned
}

// slotPinned reports whether a transaction under a hold of the slot is open.
func (s *Store) slotPinned(key string, slot int) bool {
	for t := range s.open[key] {
		for _, h := range t.holds {
			if h.Key == key && h.Mode == driver.Slot && h.Slot == slot {
				return true
			}
		}
	}
	return false
}

// endSlot ends what is left of the last hold of a slot.
func (p *phase) endSlot(slot int, now time.Time) {
	for id, h := range p.shares {
		if h.mode == driver.Slot && h.slot == slot {
			p.end(id, now)
		}
	}
}
