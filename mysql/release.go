package mysqllock

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
)

func (l *leases) release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return l.write(ctx, "release", holds, func(b *batch, c *conn) error { return b.release(ctx, c) })
}

func (b *batch) release(ctx context.Context, c *conn) error {
	type terms struct {
		keep    time.Duration
		deleted bool
	}
	by := func(h driver.Hold) terms {
		var t terms
		if !h.Undo {
			t.keep = h.Keep
		}
		t.deleted = b.deletes && t.keep == 0 && !h.Guarded
		return t
	}
	return b.each(groups(b, by), func(group []int) error {
		t := by(b.holds[group[0]])
		if !t.deleted {
			return b.change(ctx, c, group,
				func(table string, holds []driver.Hold) statement { return end(table, holds, t.keep) },
				func(sent []int, affected int64) error { return b.tellReleased(ctx, c, sent, affected, false) })
		}
		if len(group) > 1 {
			// Afterwards a deleted row and one that never was look the same.
			rows, err := b.read(ctx, c, group)
			if err != nil {
				return notSent(b.what("release"), err)
			}
			if group = b.settleAll(group, rows); len(group) == 0 {
				return nil
			}
		}
		return b.change(ctx, c, group, remove,
			func(sent []int, affected int64) error { return b.tellReleased(ctx, c, sent, affected, true) })
	})
}

// tellReleased finds out which of the holds a release ended.
func (b *batch) tellReleased(ctx context.Context, c *conn, sent []int, affected int64, deleted bool) error {
	if affected == int64(len(sent)) {
		for _, i := range sent {
			b.results[i] = driver.Result{Status: driver.Released, Final: true}
		}
		return nil
	}
	rows, err := b.read(ctx, c, sent)
	if err != nil {
		return maybeApplied(b.what("release"), err)
	}
	absent := int64(0)
	for _, i := range sent {
		if _, ok := rows[b.holds[i].Key]; !ok {
			absent++
		}
	}
	for _, i := range sent {
		_, ok := rows[b.holds[i].Key]
		switch {
		case !ok && deleted && affected > 0:
			// All were there a moment ago. If more are absent than were deleted, somebody
			// else ended one at the same time; only an undo must not rely on it.
			b.results[i] = driver.Result{Status: driver.Released, Final: absent == affected}
		case b.settleGone(i, rows):
		default:
			b.results[i] = driver.Result{Err: &driver.Error{Err: fmt.Errorf("mysql: release %q: the row still shows the hold: is there a proxy that reads from a replica?", b.holds[i].Key)}}
		}
	}
	return nil
}
