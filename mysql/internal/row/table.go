package row

import (
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Table keeps each lock as a row of a lease table, under the strategies
// VersionColumn and UniqueInsert, which differ in the fields after table. The
// state of a row:
//
//	held                      released_at NULL, expires_at ahead
//	expired, untaken          released_at NULL, expires_at past: may still be renewed, nobody had the key
//	kept by MinHold           released_at set,  expires_at ahead: refuses everybody
//	released                  released_at set,  expires_at never
//	released by force         the same, and the hold is zero
//
// A release leaves the hold ID in place; what ends a hold is released_at. A key in a phase
// looks held for ever: see PhaseMicros.
type Table struct {
	DB   *conn.DB
	Name string

	// GuardColumns are the columns of the index that a guarded transaction locks.
	GuardColumns []string

	// Fenced: the row's token is provisional, the fencing token is read after the
	// grant.
	Fenced bool

	// Deletes: a release removes the row, unless a guard may be open on it or
	// MinHold keeps it.
	Deletes bool

	// Lined: its keys have lines.
	Lined bool
	lines linedKeys
}

// NewTable is for the lease rows of a strategy that does not lock them to keep a key.
func NewTable(d *conn.DB, table string) *Table {
	return &Table{DB: d, Name: table, GuardColumns: []string{"token", "name"}}
}

// batchWait is how long a statement of several rows may wait in all if it cannot be
// ended, because the network to the server is gone: LockWait for each row that a
// stranger's transaction has locked, of which there are few. No undo is final before.
const batchWait = 5 * conn.LockWait

// Limits are driver.Store's.
func (l *Table) Limits() driver.Limits {
	return driver.Limits{
		Batch: 1000, MinTTL: 20 * time.Millisecond, LockWait: batchWait, InFlight: 2, SlowBatch: time.Millisecond,
	}
}

// What names a step for an error.
func (l *Table) What(step string) string { return step + " in table " + l.Name }

// Close has nothing to end.
func (l *Table) Close() {}
