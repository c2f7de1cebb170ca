package guarded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// State is what a plain read tells before a guard.
type State struct {
	hold     driver.Hold // of the first lease
	Lost     error       // nil while each row has its hold
	Database string      // in which the tables are
	in       string      // what stands before their names in the caller's session
	at       string      // when it was read, as a number that is a DATETIME(6)
	marked   bool        // the run has its mark
}

// leaseRow is the row of one hold.
type leaseRow struct {
	at       rowOf
	row      row.Row
	token    conn.Int
	database string
	marked   bool
	now      int64 // in microseconds
}

// rowOf names the row of a hold: that of its key, or of the key's reader or slot.
type rowOf struct{ key, slot string }

// ReadHolds reads the rows of holds, and the mark of a run of the first if one is named, on a
// connection of the Store: no statement is sent in the caller's transaction for a
// lease that was lost.
func (g *Transactions) ReadHolds(ctx context.Context, hs guards.Holds, run string) (State, error) {
	st := State{hold: hs.First}
	l, _ := g.strategy.Guards(hs.First)
	text := g.readText(l, hs, run)
	found, err := conn.Detached(ctx, g.db, l.What("guard"), func(ctx context.Context) (found []leaseRow, err error) {
		err = g.db.StepAgain(ctx, g.db.Acquires, func(c *conn.Conn) (err error) {
			found, err = conn.Query(ctx, c, 0, text, func(rows *sql.Rows) (r leaseRow, err error) {
				var id sql.RawBytes
				err = rows.Scan(&r.at.key, &r.at.slot, &id, &r.token, &r.row.Live, &r.database, &r.marked, &r.now)
				copy(r.row.ID[:], id)
				return r, err
			})
			if err != nil || !c.Left() {
				return err
			}
			rows := byRow(found)
			if slices.ContainsFunc(hs.All, func(h driver.Hold) bool { return row.Doubtful(c, g.statusOf(h, rows)) }) {
				return conn.ErrLeft
			}
			return nil
		})
		return found, err
	})
	switch {
	case errors.Is(err, conn.ErrBlocked):
		// It waits for a lock on the table. An ALTER TABLE may have that, or wait for it, until the caller's
		// transaction ends.
		return st, fmt.Errorf("%w: another session has locked the table, roll back and begin again: %w", driver.ErrConflict, conn.Classify(l.What("guard"), err))
	case err != nil:
		return st, conn.Classify(l.What("guard"), err)
	}
	for _, r := range found {
		st.Database, st.marked, st.at = r.database, r.marked, dateTime(r.now)
	}
	rows := byRow(found)
	for _, h := range hs.All {
		if st.Lost = guards.Lost(h, g.statusOf(h, rows)); st.Lost != nil {
			break
		}
	}
	return st, nil
}

func byRow(found []leaseRow) map[rowOf]leaseRow {
	rows := make(map[rowOf]leaseRow, len(found))
	for _, r := range found {
		rows[r.at] = r
	}
	return rows
}

// readText is one read of the rows of the exclusive holds, and one of those of readers and slots.
func (g *Transactions) readText(l *share.Table, hs guards.Holds, run string) string {
	var parts [2][]driver.Hold
	for _, h := range hs.All {
		if h.Mode == driver.Exclusive {
			parts[0] = append(parts[0], h)
		} else {
			parts[1] = append(parts[1], h)
		}
	}
	t := conn.NewText(600 + 100*len(hs.All))
	for i, holds := range parts {
		if len(holds) == 0 {
			continue
		}
		if i > 0 && len(parts[0]) > 0 {
			t.Add(" UNION ALL ")
		}
		t.Add("SELECT ", l.HoldColumns(holds[0]), ","+callertx.Database)
		if run != "" {
			t.Add(",EXISTS(SELECT 1 FROM ", g.runs, " AS r WHERE r.name=").Key(hs.First.Key).Add(" AND r.run=").Key(run).Add(")")
		} else {
			t.Add(",0")
		}
		t.Add("," + row.NowMicros)
		t.Part(l.HoldRows(holds))
	}
	return t.String()
}

// dateTime is a time, in microseconds since 1970, as a number: 20261127090405.123456.
func dateTime(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("20060102150405.000000")
}

// statusOf is what the row of a hold says of it: driver.Alive while it has the hold.
func (g *Transactions) statusOf(h driver.Hold, rows map[rowOf]leaseRow) driver.Status {
	l, live := g.strategy.Guards(h)
	r, there := rows[rowOf{h.Key, l.SlotColumn(h)}]
	switch {
	case !there:
		return driver.Removed
	case !r.row.Mine(h.ID):
		return r.row.Gone(h.ID)
	case r.token.Off, r.token.N != h.Stored:
		return driver.Taken
	case !live: // its session has ended
		return driver.Removed
	}
	return driver.Alive
}

// whyNot says why the transaction did not find the entry of a hold.
func (g *Transactions) whyNot(ctx context.Context, hs guards.Holds) error {
	st, err := g.ReadHolds(ctx, hs, "")
	if err == nil {
		err = st.Lost
	}
	if err == nil {
		err = fmt.Errorf("%w: the transaction does not see the lease, which is there: it is on another server than the Store, or on a replica", driver.ErrInvalid)
	}
	return err
}
