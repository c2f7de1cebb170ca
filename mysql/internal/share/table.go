package share

import (
	"crypto/rand"
	"sync"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Table keeps the locks of all modes: exclusive holds in the keys' rows, which are a row.Table's,
// readers and slots in the table Share.
type Table struct {
	*row.Table
	Share  string
	phases phaseTokens
	self   driver.HoldID // of Touch

	departing sync.Map // the keys of readers and slots by their hold IDs, whose entries are to be taken out of the line
}

// New adds the table of readers and slots to that of the keys.
func New(keys *row.Table, share string) *Table {
	l := &Table{Table: keys, Share: share}
	_, _ = rand.Read(l.self[:]) // never fails
	return l
}

// Limits are driver.Store's.
func (l *Table) Limits() driver.Limits {
	limits := l.Table.Limits()
	limits.Modes = driver.ModesOf(driver.Shared, driver.Slot)
	return limits
}

// Layout is what the strategy needs of its tables, that of the keys first.
func (l *Table) Layout() []row.Layout {
	keys := l.Table.Layout()
	keys.Columns = append(keys.Columns, "phase")
	if l.gated() {
		keys.Columns = append(keys.Columns, "gate", "gate_until", "gate_after")
	}
	return []row.Layout{keys, {
		Table:   l.Share,
		Columns: []string{"name", "slot", "hold", "owner", "token", "phase", "acquired_at", "expires_at", "released_at"},
		Guard:   []string{"token", "name", "slot"},
	}}
}

// Guards gives the tables whose indexes a guard of the hold locks.
func (l *Table) Guards(driver.Hold) (*Table, bool) { return l, true }

// isShare reports whether the hold is a row of the table of readers and slots.
func isShare(h *driver.Hold) bool { return h.Mode != driver.Exclusive }
