package row

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/order"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Batch is one Renew or Release of holds whose rows are of one kind. The steps of one are made
// of its methods, by the package that knows which kinds there are.
type Batch struct {
	Rows    Rows
	Step    string          // "renew" or "release"
	Holds   []driver.Hold   // sorted by key
	Results []driver.Result // of Holds

	table *Table
}

// With is the same batch for holds of another kind.
func (b *Batch) With(r Rows) *Batch {
	other := *b
	other.Rows = r
	return &other
}

// Changed is what a statement says that it did.
type Changed struct {
	Rows int64
	ID   int64 // LAST_INSERT_ID
}

// Write runs f on a connection of the pool, over the holds in the order of their keys. Their rows
// are the Table's.
func (l *Table) Write(ctx context.Context, name string, step conn.StepFunc, holds []driver.Hold, f func(*Batch, *conn.Conn) error) ([]driver.Result, error) {
	sorted := order.Sort(holds, func(h driver.Hold) string { return h.Key }, order.ByBytes)
	b := &Batch{Rows: l, table: l, Step: name, Holds: sorted.Items, Results: make([]driver.Result, len(holds))}
	err := step(ctx, func(c *conn.Conn) error {
		if err := f(b, c); err != nil {
			return err
		}
		return b.doubt(c)
	})
	if err != nil {
		if err = conn.Classify(b.what(), err); !b.answered() {
			return nil, err
		}
	}
	for i, r := range b.Results {
		if r.Status == driver.Unknown && r.Err == nil {
			b.Results[i].Err = err
		}
	}
	return order.Unsort(sorted, b.Results), nil
}

// what names the batch for an error.
func (b *Batch) what() string { return b.table.What(b.Step) }

// answered reports whether one of the holds has an answer.
func (b *Batch) answered() bool {
	return slices.ContainsFunc(b.Results, func(r driver.Result) bool { return r.Status != driver.Unknown })
}

// doubt takes back what a server that the address may have left does not know of, for another to answer.
func (b *Batch) doubt(c *conn.Conn) (err error) {
	for i := range b.Results {
		if Doubtful(c, b.Results[i].Status) {
			b.Results[i], err = driver.Result{}, conn.ErrLeft
		}
	}
	return err
}

// Doubtful reports whether s, found on c, says no more than that the hold is not on a server that the address may have
// left. That a hold was released is on no server which did not have it.
func Doubtful(c *conn.Conn, s driver.Status) bool {
	return (s == driver.Removed || s == driver.Taken || s == driver.Forced) && c.Left()
}

// Groups splits the holds by what one statement can say only once. The order of
// keys stays within each group.
func Groups[K comparable](b *Batch, by func(driver.Hold) K) [][]int {
	var list [][]int
	at := make(map[K]int)
	for i, h := range b.Holds {
		if b.Results[i].Status != driver.Unknown {
			continue // answered
		}
		k := by(h)
		n, ok := at[k]
		if !ok {
			n = len(list)
			at[k] = n
			list = append(list, nil)
		}
		list[n] = append(list[n], i)
	}
	return list
}

// Each runs f on each group. A group that fails is unknown and does not keep the
// next from its try; the error is the whole call's if the first group failed, for
// then the connection is at fault.
func (b *Batch) Each(list [][]int, f func([]int) error) error {
	for n, group := range list {
		err := f(group)
		if err == nil {
			continue
		}
		if n == 0 {
			return err
		}
		for _, i := range group {
			b.Results[i] = driver.Result{Err: err}
		}
	}
	return nil
}

// SettleGone answers a hold that the rows show to be over; false: it is live. A row
// that shows this hold as released proves that the attempt came, so it cannot come
// again: that is final for an undo.
func (b *Batch) SettleGone(i int, rows map[string]Row) bool {
	r, ok := rows[b.Rows.RowName(&b.Holds[i])]
	switch {
	case !ok:
		b.Results[i] = driver.Result{Status: driver.Removed}
	case !r.Mine(b.Holds[i].ID):
		status := r.Gone(b.Holds[i].ID)
		b.Results[i] = driver.Result{Status: status, Final: status == driver.Released}
	default:
		return false
	}
	return true
}

// settleAll answers the holds that are over and returns the live ones, and what a release is to take out of a line.
func (b *Batch) settleAll(some []int, rows map[string]Row) (live []int) {
	for _, i := range some {
		if b.stands(i, rows) || !b.SettleGone(i, rows) {
			live = append(live, i)
		}
	}
	return live
}

// Change sends one statement for the holds of a group and hands what it changed to
// settle. None of the statements touches a guard index entry that a guard may have
// locked (a DELETE is sent only for leases without a guard), so what they can wait
// for is a row lock: of another client's statement, which is over soon, or of a
// stranger's transaction. Behind one such row the others must not wait, so an
// unanswered statement is ended, and sent again for the rows that nobody has
// locked; then the locked ones have another try, and are unknown if that fails too.
// So a call occupies its connection for about 100 ms at most.
func (b *Batch) Change(ctx context.Context, c *conn.Conn, group []int, of func([]driver.Hold) conn.Statement, settle func(sent []int, done Changed) error) error {
	start := time.Now()
	var locked []int
	pending, again, late := group, false, false // again: pending was locked; late: LockWait was waited for
	for n := 0; n < len(conn.Bounds); {
		bound := b.table.DB.Bound(n)
		if again {
			if bound = min(bound, time.Until(start.Add(2*b.table.DB.Bound(0)))); bound <= 0 || late {
				break
			}
		} else {
			n++
		}
		res, err := b.send(ctx, c, bound, of, pending)
		switch {
		case err == nil:
			var done Changed
			if done.Rows, err = res.RowsAffected(); err == nil {
				done.ID, err = res.LastInsertId()
			}
			if err == nil {
				err = settle(pending, done)
			}
			if err != nil {
				return conn.MaybeApplied(b.what(), err)
			}
			pending = nil
		case errors.Is(err, conn.ErrBlocked):
			var more []int
			late = late || Waited(err)
			before := len(pending)
			if pending, more, err = b.part(ctx, c, pending); err != nil {
				return b.notEvenSkipping(err)
			}
			locked = append(locked, more...)
			switch {
			case late && len(pending) == 0:
				n = len(conn.Bounds) // it took a second
			case !late && len(pending) == before: // no lock was found: the server is slow
				b.table.DB.NoteAnswer(bound)
			}
		case IsCorrupt(err) && len(pending) == 1:
			b.Results[pending[0]] = driver.Result{Err: b.Rows.CorruptError(b.Step, b.Holds[pending[0]].Key, err.Error(), true)}
			pending = nil
		case IsCorrupt(err), errors.Is(err, conn.ErrTooLarge) && len(pending) > 1: // the others do not suffer
			open, err := split.Halves(pending, func(half []int) ([]int, error) {
				err := b.Change(ctx, c, half, of, settle)
				if err != nil {
					return half, err
				}
				return nil, nil
			}, func(err error) error { return err })
			if len(open) == len(pending) {
				return err
			}
			for _, i := range open { // the first half has its answers
				if b.Results[i].Status == driver.Unknown {
					b.Results[i] = driver.Result{Err: err}
				}
			}
			pending = nil
		default:
			return conn.Classify(b.what(), err)
		}
		again = false
		if len(pending) == 0 {
			if len(locked) == 0 {
				return nil
			}
			pending, locked, again = locked, nil, true
		}
	}
	b.blocked(append(pending, locked...))
	return nil
}

// notEvenSkipping is the error of a question that skips locked rows: what it waits for is no row.
func (b *Batch) notEvenSkipping(err error) error {
	if errors.Is(err, conn.ErrBlocked) {
		return TableLocked(b.what(), false)
	}
	return conn.Classify(b.what(), err)
}

// blocked answers holds whose rows somebody keeps locked.
func (b *Batch) blocked(some []int) {
	for _, i := range some {
		b.Results[i] = driver.Result{Err: conn.Classify(fmt.Sprintf("%s of %q", b.what(), b.Holds[i].Key), conn.ErrBlocked)}
	}
}

func (b *Batch) send(ctx context.Context, c *conn.Conn, bound time.Duration, of func([]driver.Hold) conn.Statement, pending []int) (sqldriver.Result, error) {
	s := of(b.some(pending))
	if len(pending) == 1 {
		return c.ExecOne(ctx, bound, s)
	}
	return c.Exec(ctx, bound, s.Literal())
}

func (b *Batch) some(which []int) []driver.Hold {
	holds := make([]driver.Hold, len(which))
	for i, o := range which {
		holds[i] = b.Holds[o]
	}
	return holds
}

// part answers the holds that are over, and parts the others into those that can
// be written and those whose rows are locked.
func (b *Batch) part(ctx context.Context, c *conn.Conn, pending []int) (free, locked []int, err error) {
	rows, err := b.Rows.ReadHolds(ctx, c, b, pending)
	if err != nil {
		return nil, nil, err
	}
	live := b.settleAll(pending, rows)
	if len(live) == 0 {
		return nil, nil, nil
	}
	writable, err := b.Rows.WritableHolds(ctx, c, b, live)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range live {
		if writable[b.Rows.RowName(&b.Holds[i])] {
			free = append(free, i)
		} else {
			locked = append(locked, i)
		}
	}
	return free, locked, nil
}
