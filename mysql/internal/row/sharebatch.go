package row

import (
	"context"
	"database/sql"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Renew and Release of readers and slots: the same steps as for exclusive holds, on the
// rows of the share table. A statement is for holds of one of the two tables.

// isShare reports whether the hold is a row of the share table.
func isShare(h *driver.Hold) bool { return h.Mode != driver.Exclusive }

// at names the row of a hold in a map of rows.
func (b *batch) at(i int) string {
	if h := &b.holds[i]; isShare(h) {
		return place{h.Key, slotOf(h)}.name()
	}
	return b.holds[i].Key
}

// tableOf is the table of some holds, all exclusive or none.
func (b *batch) tableOf(some []int) string {
	if isShare(&b.holds[some[0]]) {
		return b.Share
	}
	return b.Name
}

// readShares reads rows of the share table, as rows of exclusive holds would say it: what
// ended a hold is in ID and Live.
func (b *batch) readShares(ctx context.Context, c *conn.Conn, some []int) (map[string]Row, error) {
	shares, err := b.shareRows(ctx, c, len(some), func(n int) place {
		h := &b.holds[some[n]]
		return place{h.Key, slotOf(h)}
	})
	if err != nil {
		return nil, err
	}
	rows := make(map[string]Row, len(shares))
	for name, r := range shares {
		switch {
		case r.Live && !r.Stands && b.name == "renew":
			// The phase was ended by force, or by hand, and this hold was left there.
			r.ID, r.Live = driver.HoldID{}, false
		case !r.Live && r.Phase == 0 && r.ID != (driver.HoldID{}):
			r.ID = buried
		}
		rows[name] = r.Row
	}
	return rows, nil
}

// buried is no hold: whoever has a row whose hold it is was ended by an exclusive attempt.
var buried = driver.HoldID{0: 0xff, 15: 0xfe}

// writable tells which of the holds' rows no transaction has locked.
func (b *batch) writable(ctx context.Context, c *conn.Conn, some []int) (map[string]bool, error) {
	if !isShare(&b.holds[some[0]]) {
		return b.Writable(ctx, c, len(some), func(i int) string { return b.holds[some[i]].Key })
	}
	return conn.InParts(0, len(some), func(from, to int) (map[string]bool, error) {
		t := conn.NewText(100+100*(to-from)).Add("SELECT name,slot FROM ", b.Share, " FORCE INDEX (PRIMARY) WHERE (name,slot) IN ")
		t.In(to-from, func(i int) {
			h := &b.holds[some[from+i]]
			t.Part(place{h.Key, slotOf(h)}.add)
		})
		return b.placeSet(ctx, c, t.Add(" FOR UPDATE SKIP LOCKED").String())
	})
}

// placeSet asks a question whose answer is places.
func (b *batch) placeSet(ctx context.Context, c *conn.Conn, question string) (map[string]bool, error) {
	found, err := conn.Query(ctx, c, 0, question, scanPlace)
	set := make(map[string]bool, len(found))
	for _, p := range found {
		set[p.name()] = true
	}
	return set, err
}

// leave releases readers, by deleting their rows.
func (b *batch) leave(ctx context.Context, c *conn.Conn, group []int) error {
	return b.change(ctx, c, group,
		func(table string, holds []driver.Hold) conn.Statement { return remove(table, holds) },
		func(sent []int, done changed) error {
			if done.rows == int64(len(sent)) {
				for _, i := range sent {
					b.results[i] = driver.Result{Status: driver.Released, Final: true}
				}
				return nil
			}
			rows, err := b.read(ctx, c, sent)
			if err != nil {
				return conn.MaybeApplied(b.What("release"), err)
			}
			for _, i := range sent {
				if _, ok := rows[b.at(i)]; !ok && done.rows > 0 {
					// It is over; which of those that are gone were there nobody can tell.
					b.results[i] = driver.Result{Status: driver.Released}
				} else if !b.settleGone(i, rows) {
					b.results[i] = driver.Result{Err: errStillThere(b.holds[i].Key)}
				}
			}
			return nil
		})
}

// remove deletes live holds. The multi-table form, because the other takes no FORCE INDEX.
func remove(table string, holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) { t.Add("DELETE t FROM ", table, " AS t FORCE INDEX (PRIMARY)").Part(Where(holds)) }
}

// findSlots finds the numbers of slots that are to be undone and are not known. Where there
// is none of an attempt's, none has arrived yet.
func (b *batch) findSlots(ctx context.Context, c *conn.Conn) error {
	var some []int
	for i := range b.holds {
		if h := &b.holds[i]; h.Mode == driver.Slot && h.Slot < 0 {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return nil
	}
	type found struct {
		key  string
		id   driver.HoldID
		slot conn.Int
	}
	t := conn.NewText(200+120*len(some)).Add("SELECT name,hold,slot FROM ", b.Share, " FORCE INDEX (PRIMARY) WHERE name IN ")
	t.In(len(some), func(n int) { t.Key(b.holds[some[n]].Key) }).Add(" AND (name,hold) IN ")
	t.In(len(some), func(n int) {
		h := &b.holds[some[n]]
		t.Add("(").Key(h.Key).Add(",").Bytes(h.ID[:]).Add(")")
	})
	rows, err := conn.Query(ctx, c, 0, t.Add(" AND "+aSlot).String(), func(rows *sql.Rows) (f found, err error) {
		var key, id sql.RawBytes
		err = rows.Scan(&key, &id, &f.slot)
		f.key = string(key)
		copy(f.id[:], id)
		return f, err
	})
	if err != nil {
		return err
	}
	for _, i := range some {
		h := &b.holds[i]
		for _, f := range rows {
			if f.key == h.Key && f.id == h.ID {
				h.Slot = int(f.slot.N)
			}
		}
		if h.Slot < 0 {
			b.results[i] = driver.Result{Status: driver.Removed}
		}
	}
	return nil
}

// ungate clears the gates of undone attempts.
func (b *batch) ungate(ctx context.Context, c *conn.Conn) {
	for _, i := range b.gates {
		h := &b.holds[i]
		_, err := c.ExecOne(ctx, b.db.Bound(0), Ungate(b.Table, h.Key, &h.ID))
		if err != nil && !errors.Is(err, conn.ErrBlocked) { // then it is asked for again, or ends by itself
			b.results[i] = driver.Result{Err: conn.MaybeApplied(b.What("release"), err)}
		}
	}
}
