package call

import "github.com/rowlock/rowlock/driver"

// Entries has the keys of what goes in one call of a Store: no key twice, but holds of mode
// Shared or Slot with different IDs. The zero value is empty.
type Entries struct {
	seen map[string]bool // keys: whether the entries are such holds; and key and ID of these
}

// Add reports whether an entry of this key may go with the others, and adds it then. id is
// that of a hold of mode Shared or Slot, and empty otherwise.
func (e *Entries) Add(key, id string) bool {
	beside, found := e.seen[key]
	switch {
	case found && (id == "" || !beside || e.seen[key+id]):
		return false
	case e.seen == nil:
		e.seen = make(map[string]bool)
	}
	e.seen[key] = id != ""
	if id != "" {
		e.seen[key+id] = true
	}
	return true
}

// Entry is a hold as Entries knows it.
func Entry(h *driver.Hold) (key, id string) {
	if h.Mode == driver.Exclusive {
		return h.Key, ""
	}
	return h.Key, string(h.ID[:])
}
