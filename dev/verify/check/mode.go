package check

import (
	"fmt"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// Holds of a key conflict unless both are readers', one is a reader's and one a slot's, or
// they are of different slots.

// class is what holds have in common that conflict with the same others: "", "shared", or
// "slot" with a number.
type class string

func (h *hold) class() class {
	if h.acquire.Mode == history.Slot {
		return class(fmt.Sprintf("%s %d", history.Slot, h.acquire.Slot))
	}
	return class(h.acquire.Mode)
}

// excludes reports whether two holds of a key can never be at once.
func excludes(a, b *hold) bool {
	x, y := a.acquire, b.acquire
	return x.Mode == "" || y.Mode == "" || x.Mode == history.Slot && y.Mode == history.Slot && x.Slot == y.Slot
}

// exclusion is the promise that two holds which conflict are not at once.
func exclusion(a, b *hold) string {
	switch {
	case a.acquire.Mode == "" && b.acquire.Mode == "":
		return "P1"
	case a.acquire.Mode == "" || b.acquire.Mode == "":
		return "P16"
	}
	return "P17"
}

// shares reports whether the key was ever wanted with Shared or Slots.
func (k *key) shares() bool {
	for _, h := range k.holds {
		if h.acquire.Mode != "" {
			return true
		}
	}
	for _, e := range k.tries {
		if e.Mode != "" {
			return true
		}
	}
	return false
}

// forced reports whether an operator ever released keys of the space by force.
func (k *key) forced() bool {
	for _, f := range k.faults {
		if effects[f.Key].forced && k.hitBy(f) {
			return true
		}
	}
	return false
}
