package share

import (
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// shareCorrupt is CorruptError for a key whose readers and slots may be what is corrupt.
func (l *Table) shareCorrupt(step, key, why string, notApplied bool) error {
	name := conn.NewText(0).Key(key).String()
	return &driver.Error{Lasting: true, NotApplied: notApplied,
		Err: fmt.Errorf("mysql: %s %q: its row, or that of a reader or slot, was changed by hand: %s: delete the rows, which ends all holds: DELETE FROM %s WHERE name=%s; DELETE FROM %s WHERE name=%s",
			step, key, why, l.Name, name, l.Share, name)}
}
