package share

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// slotChoice is the choice of a slot for one request. It is no part of what makes slots
// exclusive: a join gets the slot it names or is refused. So it is made from a plain read,
// at random, and anew when another was faster.
type slotChoice struct {
	slot   int  // to be tried; -1: it is to be chosen
	guards bool // guards are to be looked for
}

// newSlotChoice tries the slot first that the request names.
func newSlotChoice(r *driver.Request) *slotChoice {
	s := &slotChoice{slot: -1}
	if 0 <= r.Slot && r.Slot < r.Slots {
		s.slot = r.Slot
	}
	return s
}

// taken is what a plain read tells of a slot.
type taken struct {
	phase   conn.Int // the token in the key's row
	inPhase bool
	slot    conn.Int // none: of the key only
	row     ShareRow
}

// choose chooses a slot for a request that has none to try. answered: none is free, or
// one is the request's own already.
func (j *joins) choose(ctx context.Context, c *conn.Conn, i int, s *slotChoice) (answered bool, err error) {
	if s.slot >= 0 {
		return false, nil
	}
	r := &j.reqs[i]
	all, err := conn.Query(ctx, c, 0, slotsText(j.Table, r), scanTaken)
	if err != nil {
		return false, err
	}
	not := make(map[int]bool)
	if among := j.among[i]; among != nil {
		for n := range min(firstSlot(among.Line(), r.ID), r.Slots) {
			not[n] = true
		}
	}
	left := time.Duration(0)
	for _, t := range all {
		if t.inPhase {
			j.phases.note(r.Key, t.phase.N)
		}
		if t.slot.Null {
			continue
		}
		if j.settleShare(i, t.row) {
			return true, nil
		}
		not[int(t.slot.N)] = true
		if left == 0 || t.row.Left < left {
			left = t.row.Left
		}
	}
	full := len(not) >= r.Slots
	if !full && (s.guards || r.Pinned || j.DB.CannotKill.Load()) {
		if err := j.addLocked(ctx, c, r, not); err != nil {
			return false, err
		}
		if len(not) >= r.Slots {
			j.results[i] = driver.Result{Status: driver.Pinned}
			return true, nil
		}
	}
	if full {
		j.results[i] = driver.Result{Status: driver.Held, Shared: true, Left: left}
		if row.LeavesHint(r) && !j.Lined {
			// Of a hint that was not left the caller need not know.
			_ = j.Remind(ctx, c, r.Client, []string{r.Key})
		}
		return true, nil
	}
	for n := rand.IntN(r.Slots - len(not)); ; n-- { // the n-th of the free ones
		for s.slot++; not[s.slot]; s.slot++ {
		}
		if n == 0 {
			return false, nil
		}
	}
}

// slotsText reads the slots of a key below the request's number that somebody has.
func slotsText(l *Table, r *driver.Request) string {
	return conn.NewText(700).Add("SELECT v.token,COALESCE(v.phase=v.hold,0),s.slot,s.hold,s.token,s.phase,TIMESTAMPDIFF(MICROSECOND,"+row.Now+",s.expires_at),COALESCE(s.released_at IS NULL,0) FROM ", l.Name,
		" AS v FORCE INDEX (PRIMARY) LEFT JOIN ", l.Share, " AS s FORCE INDEX (PRIMARY) ON s.name=v.name AND s.slot<").Int(int64(r.Slots)).
		Add(" AND s.expires_at>" + row.Now + " WHERE v.name=").Key(r.Key).String()
}

func scanTaken(rows *sql.Rows) (taken, error) {
	var t taken
	var id sql.RawBytes
	var token, phase, left conn.Int
	if err := rows.Scan(&t.phase, &t.inPhase, &t.slot, &id, &token, &phase, &left, &t.row.Live); err != nil {
		return t, err
	}
	copy(t.row.ID[:], id)
	t.row.Token, t.row.Phase, t.row.Left, t.row.Slot = token.N, phase.N, conn.Micros(left.N), uint64(t.slot.N)
	if token.Off || token.N < 0 || token.N > driver.MaxToken || phase.Off {
		t.row.Corrupt = "the token is out of range"
	}
	return t, nil
}

// addLocked adds the slots that a guarded transaction of their last hold keeps: their next
// holders would wait for its end. What is locked is skipped, so the question does not wait.
func (j *joins) addLocked(ctx context.Context, c *conn.Conn, r *driver.Request, not map[int]bool) error {
	type entry struct{ slot, token conn.Int }
	entries, err := conn.Query(ctx, c, 0,
		conn.NewText(300).Add("SELECT slot,token FROM ", j.Share, " FORCE INDEX (PRIMARY) WHERE name=").Key(r.Key).Add(" AND slot<").Int(int64(r.Slots)).String(),
		func(rows *sql.Rows) (e entry, err error) {
			err = rows.Scan(&e.slot, &e.token)
			return e, err
		})
	if err != nil || len(entries) == 0 {
		return err
	}
	t := conn.NewText(200+160*len(entries)).Add("SELECT slot FROM ", j.Share, " FORCE INDEX (guard) WHERE (token,name,slot) IN ")
	t.In(len(entries), func(n int) {
		t.Add("(").Int(entries[n].token.N).Add(",").Key(r.Key).Add(",").Int(entries[n].slot.N).Add(")")
	})
	free, err := conn.Query(ctx, c, 0, t.Add(" FOR UPDATE SKIP LOCKED").String(), conn.ScanOne[int64])
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(free, e.slot.N) {
			not[int(e.slot.N)] = true
		}
	}
	return nil
}
