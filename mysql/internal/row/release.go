package row

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// EndKeys releases exclusive holds by writing their rows, and passes on the keys that have a line.
func (b *Batch) EndKeys(ctx context.Context, c *conn.Conn, group []int, keep time.Duration) error {
	rest, lined := b.lined(group)
	if len(rest) > 0 {
		end := func(holds []driver.Hold) conn.Statement { return End(b.table.Name, holds, keep) }
		err := b.Change(ctx, c, rest, end, func(sent []int, done Changed) error {
			return b.TellReleased(ctx, c, sent, done, &lined)
		})
		if err != nil {
			return err
		}
	}
	if len(lined) == 0 {
		return nil
	}
	slices.Sort(lined)
	return b.partly(lined, len(group), b.endLined(ctx, c, lined, keep))
}

// lined parts holds into those whose keys have no line, as far as is known, and those that have one or are to have one.
func (b *Batch) lined(group []int) (rest, lined []int) {
	for n, i := range group {
		if has := b.Holds[i].Next != nil || b.table.lines.has(b.Holds[i].Key); !has {
			if lined != nil {
				rest = append(rest, i)
			}
			continue
		}
		if lined == nil {
			rest = slices.Clone(group[:n])
		}
		lined = append(lined, i)
	}
	if lined == nil {
		return group, nil
	}
	return rest, lined
}

// partly gives an error to the holds that have no answer, if others of the group have theirs.
func (b *Batch) partly(some []int, of int, err error) error {
	if err == nil || len(some) == of {
		return err
	}
	for _, i := range some {
		if b.Results[i].Status == driver.Unknown {
			b.Results[i] = driver.Result{Err: err}
		}
	}
	return nil
}

// endLined releases holds of keys with a line, without passing them on where they are to be kept.
func (b *Batch) endLined(ctx context.Context, c *conn.Conn, lined []int, keep time.Duration) error {
	var closes, passes []int
	for _, i := range lined {
		if b.Holds[i].Guarded || keep > 0 {
			closes = append(closes, i)
		} else {
			passes = append(passes, i)
		}
	}
	if len(closes) > 0 {
		err := b.Change(ctx, c, closes, func(holds []driver.Hold) conn.Statement { return Leave(b.table.Name, holds, keep) }, b.lineSettled(ctx, c, false))
		if err != nil {
			return err
		}
	}
	if len(passes) == 0 {
		return nil
	}
	return b.passKeys(ctx, c, passes)
}

// passKeys releases holds and passes their keys on.
func (b *Batch) passKeys(ctx context.Context, c *conn.Conn, group []int) error {
	return b.Change(ctx, c, group, func(holds []driver.Hold) conn.Statement { return Pass(b.table.Name, holds) }, b.lineSettled(ctx, c, true))
}

// lineSettled answers releases of keys with a line. The places that it tells count dead entries too.
func (b *Batch) lineSettled(ctx context.Context, c *conn.Conn, passes bool) func(sent []int, done Changed) error {
	return func(sent []int, done Changed) error {
		if err := b.TellReleased(ctx, c, sent, done, nil); err != nil {
			return err
		}
		left := 0 // that stand now, of a single key
		if len(sent) == 1 && passes && done.Rows == 1 && done.ID > 0 {
			if left = int(done.ID-1) & (passedAnswer - 1); done.ID >= passedAnswer {
				left--
			}
			if r := &b.Results[sent[0]]; b.Holds[sent[0]].Next != nil {
				if r.Standing = left; left < driver.MaxLine-1 { // else it may have had no room
					r.Place = left
				}
			}
		}
		for _, i := range sent {
			b.table.lines.note(b.Holds[i].Key, left > 0)
		}
		return nil
	}
}

// RemoveKeys releases exclusive holds by deleting their rows, except those with a line, which are
// written. Of a single one the DELETE itself finds out whether there is one; of several
// the rows are read first, because afterwards a deleted row and one that never was look
// the same.
func (b *Batch) RemoveKeys(ctx context.Context, c *conn.Conn, group []int) error {
	rest, lined := b.lined(group)
	if len(rest) > 1 {
		rows, err := b.Rows.ReadHolds(ctx, c, b, rest)
		if err != nil {
			return conn.NotSent(b.what(), err)
		}
		some := rest
		rest = nil
		for _, i := range b.settleAll(some, rows) {
			if rows[b.Holds[i].Key].HasLine() {
				lined = append(lined, i)
			} else {
				rest = append(rest, i)
			}
		}
	}
	if len(rest) > 0 {
		remove := func(holds []driver.Hold) conn.Statement { return Remove(b.table.Name, holds) }
		err := b.Change(ctx, c, rest, remove, func(sent []int, done Changed) error {
			if len(sent) == 1 && done.Rows == 0 {
				lined = append(lined, sent[0]) // or the hold is over: then that finds out
				return nil
			}
			return b.TellReleased(ctx, c, sent, done, &lined)
		})
		if err != nil {
			return err
		}
	}
	if len(lined) == 0 {
		return nil
	}
	slices.Sort(lined)
	return b.partly(lined, len(group), b.EndKeys(ctx, c, lined, 0))
}

// TellReleased finds out which of the holds a release ended. The row of one that was ended may be gone by now, or show another's
// hold. kept is for those whose row the statement left as it was, because of a line; nil: it leaves none.
// Requests that stand in the line of their key are taken out of it.
func (b *Batch) TellReleased(ctx context.Context, c *conn.Conn, sent []int, done Changed, kept *[]int) error {
	if done.Rows == int64(len(sent)) {
		for _, i := range sent {
			b.Results[i] = driver.Result{Status: driver.Released, Final: true}
		}
		return nil
	}
	rows, err := b.Rows.ReadHolds(ctx, c, b, sent)
	if err != nil {
		return conn.MaybeApplied(b.what(), err)
	}
	gone := int64(0) // those whose row was there a moment ago, and is not, or shows the hold of another by now
	for _, i := range sent {
		if r, ok := rows[b.Rows.RowName(&b.Holds[i])]; (!ok || !r.Mine(b.Holds[i].ID)) && !b.stands(i, rows) {
			gone++
		}
	}
	var leaving []int
	for _, i := range sent {
		r, ok := rows[b.Rows.RowName(&b.Holds[i])]
		switch {
		case b.stands(i, rows):
			leaving = append(leaving, i)
		case done.Rows > 0 && (!ok && b.table.Deletes || !r.Mine(b.Holds[i].ID) && gone == done.Rows):
			// If more are gone than were ended, somebody else ended one at the same time; only an
			// undo must not rely on it.
			b.Results[i] = driver.Result{Status: driver.Released, Final: gone == done.Rows}
		case b.SettleGone(i, rows):
		case kept != nil:
			*kept = append(*kept, i)
		default:
			b.Results[i] = driver.Result{Err: ErrStillThere(b.Holds[i].Key)}
		}
	}
	for _, i := range leaving {
		if err := b.LeaveLine(ctx, c, i, rows[b.Rows.RowName(&b.Holds[i])]); err != nil {
			b.Results[i] = driver.Result{Err: err} // the others have their answers
		}
	}
	return nil
}

// stands reports whether what a release names is a request in the line of its key.
func (b *Batch) stands(i int, rows map[string]Row) bool {
	r, ok := rows[b.Rows.RowName(&b.Holds[i])]
	return ok && b.Step == "release" && r.HasLine() && r.ID != b.Holds[i].ID && r.Line().Place(b.Holds[i].ID) > 0
}

// ErrStillThere is the error of a release after which the row shows the hold as before.
func ErrStillThere(key string) error {
	return &driver.Error{Err: fmt.Errorf("mysql: release %q: the row still shows the hold: is there a proxy that reads from a replica?", key)}
}
