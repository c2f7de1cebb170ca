package row

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Release ends holds: it writes their rows, or deletes them.
func (l *Table) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return l.write(ctx, "release", l.db.Releases, holds, func(b *batch, c *conn.Conn) error { return b.release(ctx, c) })
}

func (b *batch) release(ctx context.Context, c *conn.Conn) error {
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
		t.deleted = b.deletes && t.keep == 0 && !h.Guarded
		return t
	}
	b.told, b.gates = make([]bool, len(b.holds)), nil
	if err := b.findSlots(ctx, c); err != nil {
		return conn.NotSent(b.What("release"), err)
	}
	err := b.each(groups(b, by), func(group []int) error {
		t := by(b.holds[group[0]])
		switch {
		case t.mode == driver.Shared:
			return b.leave(ctx, c, group)
		case t.mode == driver.Slot, !t.deleted:
			return b.end(ctx, c, group, t.keep)
		}
		return b.remove(ctx, c, group)
	})
	if err == nil {
		b.ungate(ctx, c)
		b.tellWanted(ctx, c)
	}
	return err
}

// end releases holds by writing their rows.
func (b *batch) end(ctx context.Context, c *conn.Conn, group []int, keep time.Duration) error {
	return b.change(ctx, c, group,
		func(table string, holds []driver.Hold) conn.Statement { return End(table, holds, keep) },
		func(sent []int, done changed) error {
			if len(sent) == 1 && done.rows == 1 && !isShare(&b.holds[sent[0]]) {
				b.results[sent[0]].Wanted, b.told[sent[0]] = hintIn(done.id), true
			}
			return b.tellReleased(ctx, c, sent, done, nil)
		})
}

// remove releases holds by deleting their rows, except those with a hint, which are
// written. Of a single one the DELETE itself finds out whether there is one; of several
// the rows are read first, because afterwards a deleted row and one that never was look
// the same.
func (b *batch) remove(ctx context.Context, c *conn.Conn, group []int) error {
	var wanted []int
	rest := group
	if len(group) > 1 {
		rows, err := b.read(ctx, c, group)
		if err != nil {
			return conn.NotSent(b.What("release"), err)
		}
		rest = nil
		for _, i := range b.settleAll(group, rows) {
			b.results[i].Wanted, b.told[i] = rows[b.holds[i].Key].Wanted, true
			if b.results[i].Wanted.Client == 0 {
				rest = append(rest, i)
			} else {
				wanted = append(wanted, i)
			}
		}
	}
	if len(rest) > 0 {
		err := b.change(ctx, c, rest, Remove, func(sent []int, done changed) error {
			if len(sent) == 1 && done.rows == 0 {
				wanted = append(wanted, sent[0]) // or the hold is over: then that finds out
				return nil
			}
			return b.tellReleased(ctx, c, sent, done, &wanted)
		})
		if err != nil {
			return err
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	err := b.end(ctx, c, wanted, 0)
	if err == nil || len(wanted) == len(group) {
		return err
	}
	for _, i := range wanted { // the others have their answers
		if b.results[i].Status == driver.Unknown {
			b.results[i] = driver.Result{Err: err}
		}
	}
	return nil
}

// tellReleased finds out which of the holds a release ended. kept is for those whose row
// a DELETE left there because of a hint; nil: it was none.
func (b *batch) tellReleased(ctx context.Context, c *conn.Conn, sent []int, done changed, kept *[]int) error {
	if done.rows == int64(len(sent)) {
		for _, i := range sent {
			b.results[i] = driver.Result{Status: driver.Released, Final: true, Wanted: b.results[i].Wanted}
		}
		return nil
	}
	rows, err := b.read(ctx, c, sent)
	if err != nil {
		return conn.MaybeApplied(b.What("release"), err)
	}
	gone := int64(0) // those whose row was there a moment ago, and is not, or shows the hold of another by now
	for _, i := range sent {
		if r, ok := rows[b.at(i)]; !ok || !r.Mine(b.holds[i].ID) {
			gone++
		}
	}
	for _, i := range sent {
		r, ok := rows[b.at(i)]
		switch {
		case kept != nil && done.rows > 0 && (!ok || !r.Mine(b.holds[i].ID) && gone == done.rows):
			// If more are gone than were deleted, somebody else ended one at the same time; only an
			// undo must not rely on it.
			b.results[i] = driver.Result{Status: driver.Released, Final: gone == done.rows}
		case b.settleGone(i, rows):
		case kept != nil:
			*kept = append(*kept, i)
		default:
			b.results[i] = driver.Result{Err: errStillThere(b.holds[i].Key)}
		}
	}
	return nil
}

func errStillThere(key string) error {
	return &driver.Error{Err: fmt.Errorf("mysql: release %q: the row still shows the hold: is there a proxy that reads from a replica?", key)}
}

// tellWanted reads the hints of keys that were released with others, and of keys of which
// slots were released, where somebody asks: one plain read for all. Where it is not answered
// nobody wants them, as far as is known.
func (b *batch) tellWanted(ctx context.Context, c *conn.Conn) {
	var some []int
	for i, h := range b.holds {
		if h.Asks && !b.told[i] && b.results[i].Status == driver.Released && (isShare(&h) || len(b.holds) > 1) {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return
	}
	rows, err := b.Rows(ctx, c, len(some), func(n int) string { return b.holds[some[n]].Key })
	if err != nil {
		return
	}
	for _, i := range some {
		b.results[i].Wanted = rows[b.holds[i].Key].Wanted
	}
}
