package mysqllock

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// holdState is what a plain read tells before a guard.
type holdState struct {
	hold     driver.Hold // of the first lease
	lost     error       // nil while each row has its hold
	database string      // in which the tables are
	marked   bool        // the run has its mark
}

// leaseRow is the row of one hold.
type leaseRow struct {
	key      string
	row      row.Row
	token    conn.Int
	database string
	marked   bool
}

// readHolds reads the rows of holds, and the mark of a run of the first if one is named, on a
// connection of the Store: no statement is sent in the caller's transaction for a
// lease that was lost.
func (s *Store) readHolds(ctx context.Context, hs storekit.Holds, run string) (holdState, error) {
	st := holdState{hold: hs.First}
	l, _ := s.strategy.Guards(hs.First)
	t := conn.NewText(500 + 100*len(hs.All)).Add("SELECT name,hold,token,released_at IS NULL,IFNULL(DATABASE(),'')")
	if run != "" {
		t.Add(",EXISTS(SELECT 1 FROM ", s.names.run, " AS r WHERE r.name=").Key(hs.First.Key).Add(" AND r.run=").Key(run).Add(")")
	} else {
		t.Add(",0")
	}
	t.Add(" FROM ", l.Name, " FORCE INDEX (PRIMARY) WHERE name")
	if len(hs.All) == 1 {
		t.Add("=").Key(hs.First.Key)
	} else {
		t.Add(" IN (")
		for i, h := range hs.All {
			if i > 0 {
				t.Add(",")
			}
			t.Key(h.Key)
		}
		t.Add(")")
	}
	text := t.String()
	found, err := conn.Detached(ctx, s.db, l.What("guard"), func(ctx context.Context) (found []leaseRow, err error) {
		err = s.db.StepAgain(ctx, s.db.Acquires, func(c *conn.Conn) (err error) {
			found, err = conn.Query(ctx, c, 0, text, func(rows *sql.Rows) (r leaseRow, err error) {
				var key, id sql.RawBytes
				err = rows.Scan(&key, &id, &r.token, &r.row.Live, &r.database, &r.marked)
				r.key = string(key)
				copy(r.row.ID[:], id)
				return r, err
			})
			return err
		})
		return found, err
	})
	if err != nil {
		return st, conn.Classify(l.What("guard"), err)
	}
	rows := make(map[string]leaseRow, len(found))
	for _, r := range found {
		rows[r.key] = r
		st.database, st.marked = r.database, r.marked
	}
	for _, h := range hs.All {
		if st.lost = storekit.Lost(h, s.statusOf(h, rows)); st.lost != nil {
			break
		}
	}
	return st, nil
}

// statusOf is what the row of a hold says of it: driver.Alive while it has the hold.
func (s *Store) statusOf(h driver.Hold, rows map[string]leaseRow) driver.Status {
	r, there := rows[h.Key]
	_, live := s.strategy.Guards(h)
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
func (s *Store) whyNot(ctx context.Context, hs storekit.Holds) error {
	st, err := s.readHolds(ctx, hs, "")
	if err == nil {
		err = st.lost
	}
	if err == nil {
		err = fmt.Errorf("%w: the transaction does not see the lease, which is there: it is on another server than the Store, or on a replica", driver.ErrInvalid)
	}
	return err
}
