package mysqllock

import (
	"context"
	"database/sql"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// leases keeps each lock as a row of a lease table, under the strategies
// VersionColumn and UniqueInsert, which differ in the fields after table. The
// state of a row:
//
//	held                      released_at NULL, expires_at ahead
//	expired, untaken          released_at NULL, expires_at past: may still be renewed, nobody had the key
//	kept by MinHold           released_at set,  expires_at ahead: refuses everybody
//	released                  released_at set,  expires_at never
//	released by force         the same, and the hold is zero
//
// A release leaves the hold ID in place; what ends a hold is released_at.
type leases struct {
	s     *Store
	table string

	// guard are the columns of the index that a guarded transaction locks.
	guard []string

	// fenced: the row's token is provisional, the fencing token is read after the
	// grant.
	fenced bool

	// deletes: a release removes the row, unless a guard may be open on it or
	// MinHold keeps it.
	deletes bool

	locks *namedLocks // nil: waiters probe
}

func newLeases(l leases) *leases {
	made := &l
	if most := l.s.options.WakeupConns; most > 0 {
		made.locks = newNamedLocks(made, most)
	}
	return made
}

// row is what the winners' SELECT tells of a key.
type row struct {
	key, owner  string
	id          driver.HoldID
	token       int64         // the nearest, where that of the row is no int64
	absurd      string        // what in the row only a person can have written; see absurd.go
	left        time.Duration // until it expires; not above zero: the key is free
	live        bool          // not released
	fence       int64         // a token later than everything that was committed before
	sinceMicros int64
	wanted      driver.Hint
}

func scanRow(rows *sql.Rows) (row, error) {
	var s scanned
	if err := rows.Scan(s.columns()...); err != nil {
		return row{}, err
	}
	return s.row(), nil
}

// mine reports whether the row holds the ID and was not released.
func (r row) mine(id driver.HoldID) bool { return r.live && r.id == id }

// gone says why the hold is not the row's live one.
func (r row) gone(id driver.HoldID) driver.Status {
	switch r.id {
	case id:
		return driver.Released
	case driver.HoldID{}:
		return driver.Forced
	}
	return driver.Taken
}

// rows reads the rows of n keys. A plain read: it waits for no transaction.
func (l *leases) rows(ctx context.Context, c *conn, n int, key func(int) string) (map[string]row, error) {
	return inParts(0, n, func(from, to int) (map[string]row, error) {
		found, err := query(ctx, c, 0, winners(l.table, to-from, func(i int) string { return key(from + i) }), scanRow)
		if err != nil {
			return nil, err
		}
		byKey := make(map[string]row, len(found))
		for _, r := range found {
			byKey[r.key] = r
		}
		return byKey, nil
	})
}

// batchWait is how long a statement of several rows may wait in all if it cannot be
// ended, because the network to the server is gone: lockWait for each row that a
// stranger's transaction has locked, of which there are few. No undo is final before.
const batchWait = 5 * lockWait

func (l *leases) limits() driver.Limits {
	return driver.Limits{Batch: 1000, MinTTL: 20 * time.Millisecond, LockWait: batchWait, Flights: 2, SlowFlight: time.Millisecond, Turns: l.locks != nil}
}

func (l *leases) what(step string) string { return step + " in table " + l.table }

func (l *leases) close() {
	if l.locks != nil {
		l.locks.close()
	}
}
