package share

import (
	"context"
	"database/sql"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Release ends holds: it writes their rows, or deletes them.
func (l *Table) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return l.Write(ctx, "release", l.DB.ReleaseStep, holds, func(b *row.Batch, c *conn.Conn) error { return l.release(ctx, c, b) })
}

func (l *Table) release(ctx context.Context, c *conn.Conn, b *row.Batch) error {
	type terms struct {
		keep    time.Duration
		deleted bool
		mode    driver.Mode
	}
	by := func(h driver.Hold) terms {
		t := terms{mode: h.Mode}
		if !h.Undo && h.Mode != driver.Shared {
			t.keep = h.Keep
		}
		t.deleted = l.Deletes && t.keep == 0 && !h.Guarded
		return t
	}
	if err := l.findSlots(ctx, c, b); err != nil {
		return conn.NotSent(l.What("release"), err)
	}
	err := b.Each(row.Groups(b, by), func(group []int) error {
		t := by(b.Holds[group[0]])
		switch {
		case t.mode == driver.Shared:
			return l.leave(ctx, c, b.With(shares{l}), group)
		case t.mode == driver.Slot:
			return l.endSlots(ctx, c, b.With(shares{l}), group, t.keep)
		case !t.deleted:
			return b.EndKeys(ctx, c, group, t.keep)
		}
		return b.RemoveKeys(ctx, c, group)
	})
	if err == nil {
		l.leaveLines(ctx, c, b)
		if !l.Lined {
			l.tellWanted(ctx, c, b)
		}
	}
	return err
}

// leaveLines takes readers and slots out of the lines of their keys that were released before they had joined, and has those
// stand that are to come next.
func (l *Table) leaveLines(ctx context.Context, c *conn.Conn, b *row.Batch) {
	var some []int
	for i, h := range b.Holds {
		ended := b.Results[i].Status == driver.Released
		if l.Lined && isShare(&h) && ended {
			l.departLate(ctx, c, &h)
		}
		if l.Lined && isShare(&h) && (ended && h.Next != nil || !ended && h.Undo && b.Results[i].Err == nil) {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return
	}
	next := row.Attempt{Table: l.Table, Reqs: make([]driver.Request, len(b.Holds)), Results: make([]driver.Result, len(b.Holds))}
	for _, i := range some {
		if h := &b.Holds[i]; b.Results[i].Status == driver.Released {
			next.Reqs[i] = *h.Next
			next.Reqs[i].Stand = true
		} else {
			next.Reqs[i].Key = h.Key
		}
	}
	rows, err := l.stand(ctx, c, next.Reqs, some)
	for _, i := range some {
		h := &b.Holds[i]
		r, ok := rows[h.Key]
		switch {
		case err != nil:
		case b.Results[i].Status != driver.Released:
			if ok && r.Line().Place(h.ID) > 0 {
				err = b.LeaveLine(ctx, c, i, r)
			}
		case ok:
			err = next.Refused(ctx, c, i, r)
			to, from := &b.Results[i], &next.Results[i]
			to.Place, to.Standing, to.First = from.Place, from.Standing, from.First
		}
		if err != nil && b.Results[i].Status != driver.Released {
			b.Results[i] = driver.Result{Err: conn.MaybeApplied(l.What("release"), err)}
		}
	}
}

// endSlots releases slots by writing their rows.
func (l *Table) endSlots(ctx context.Context, c *conn.Conn, b *row.Batch, group []int, keep time.Duration) error {
	return b.Change(ctx, c, group,
		func(holds []driver.Hold) conn.Statement { return l.end(holds, keep) },
		func(sent []int, done row.Changed) error { return b.TellReleased(ctx, c, sent, done, nil) })
}

// end releases slots of equal Keep.
func (l *Table) end(holds []driver.Hold, keep time.Duration) conn.Statement {
	return func(t *conn.Text) { t.Part(row.Ending(l.Share, keep)).Part(whereShare(holds)) }
}

// leave releases readers, by deleting their rows.
func (l *Table) leave(ctx context.Context, c *conn.Conn, b *row.Batch, group []int) error {
	return b.Change(ctx, c, group, l.remove, func(sent []int, done row.Changed) error {
		if done.Rows == int64(len(sent)) {
			for _, i := range sent {
				b.Results[i] = driver.Result{Status: driver.Released, Final: true}
			}
			return nil
		}
		rows, err := b.Rows.ReadHolds(ctx, c, b, sent)
		if err != nil {
			return conn.MaybeApplied(l.What("release"), err)
		}
		for _, i := range sent {
			if _, ok := rows[b.Rows.RowName(&b.Holds[i])]; !ok && done.Rows > 0 {
				// It is over; which of those that are gone were there nobody can tell.
				b.Results[i] = driver.Result{Status: driver.Released}
			} else if !b.SettleGone(i, rows) {
				b.Results[i] = driver.Result{Err: row.ErrStillThere(b.Holds[i].Key)}
			}
		}
		return nil
	})
}

// remove deletes live holds. The multi-table form, because the other takes no FORCE INDEX.
func (l *Table) remove(holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		t.Add("DELETE t FROM ", l.Share, " AS t FORCE INDEX (PRIMARY)").Part(whereShare(holds))
	}
}

// findSlots finds the numbers of slots that are to be undone and are not known. Where there
// is none of an attempt's, none has arrived yet.
func (l *Table) findSlots(ctx context.Context, c *conn.Conn, b *row.Batch) error {
	var some []int
	for i := range b.Holds {
		if h := &b.Holds[i]; h.Mode == driver.Slot && h.Slot < 0 {
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
	t := conn.NewText(200+120*len(some)).Add("SELECT name,hold,slot FROM ", l.Share, " FORCE INDEX (PRIMARY) WHERE name IN ")
	t.In(len(some), func(n int) { t.Key(b.Holds[some[n]].Key) }).Add(" AND (name,hold) IN ")
	t.In(len(some), func(n int) {
		h := &b.Holds[some[n]]
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
		h := &b.Holds[i]
		for _, f := range rows {
			if f.key == h.Key && f.id == h.ID {
				h.Slot = int(f.slot.N)
			}
		}
		if h.Slot < 0 {
			b.Results[i] = driver.Result{Status: driver.Removed}
		}
	}
	return nil
}

// tellWanted reads the hints of keys of which readers and slots were released, where somebody asks: one plain read for all. Where it
// is not answered nobody wants them, as far as is known.
func (l *Table) tellWanted(ctx context.Context, c *conn.Conn, b *row.Batch) {
	var some []int
	for i, h := range b.Holds {
		if h.Asks && b.Results[i].Status == driver.Released {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return
	}
	rows, err := l.Rows(ctx, c, len(some), func(n int) string { return b.Holds[some[n]].Key })
	if err != nil {
		return
	}
	for _, i := range some {
		b.Results[i].Wanted = rows[b.Holds[i].Key].Wanted
	}
}
