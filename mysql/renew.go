package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// batch is one Renew or Release.
type batch struct {
	*leases
	name    string
	holds   []driver.Hold // sorted by key
	results []driver.Result
}

func (l *leases) renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return l.write(ctx, "renew", holds, func(b *batch, c *conn) error { return b.renew(ctx, c) })
}

func (l *leases) release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return l.write(ctx, "release", holds, func(b *batch, c *conn) error { return b.release(ctx, c) })
}

// write runs f on a connection of the write lane, over the holds in the order of
// their keys.
func (l *leases) write(ctx context.Context, name string, holds []driver.Hold, f func(*batch, *conn) error) ([]driver.Result, error) {
	order := make([]int, len(holds))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(holds[a].Key, holds[b].Key) })
	b := &batch{leases: l, name: name, holds: make([]driver.Hold, len(holds)), results: make([]driver.Result, len(holds))}
	for i, o := range order {
		b.holds[i] = holds[o]
	}
	if err := l.s.step(ctx, l.s.writes, func(c *conn) error { return f(b, c) }); err != nil {
		return nil, err
	}
	results := make([]driver.Result, len(holds))
	for i, o := range order {
		results[o] = b.results[i]
	}
	return results, nil
}

// groups splits the holds by what one statement can say only once. The order of
// keys stays within each group.
func groups[K comparable](b *batch, by func(driver.Hold) K) [][]int {
	var list [][]int
	at := make(map[K]int)
	for i, h := range b.holds {
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

// each runs f on each group. A group that fails is unknown and does not keep the
// next from its try; the error is the whole call's if the first group failed, for
// then the connection is at fault.
func (b *batch) each(list [][]int, f func([]int) error) error {
	for n, group := range list {
		err := f(group)
		if err == nil {
			continue
		}
		if n == 0 {
			return err
		}
		for _, i := range group {
			b.results[i] = driver.Result{Err: err}
		}
	}
	return nil
}

func (b *batch) renew(ctx context.Context, c *conn) error {
	type terms struct{ ttl, maxHold time.Duration }
	list := groups(b, func(h driver.Hold) terms { return terms{h.TTL, h.MaxHold} })
	return b.each(list, func(group []int) error {
		sent, affected, err := b.change(ctx, c, group, extend)
		if err != nil || len(sent) == 0 {
			return err
		}
		if affected == int64(len(sent)) {
			for _, i := range sent {
				b.results[i] = driver.Result{Status: driver.Alive}
			}
			return nil
		}
		// Fewer rows does not mean lost: a renewal that could not extend changes nothing.
		rows, err := b.rows(ctx, c, len(sent), func(i int) string { return b.holds[sent[i]].Key })
		if err != nil {
			return maybeApplied(b.what("renew"), err)
		}
		for _, i := range sent {
			if !b.settleGone(i, rows) {
				r := rows[b.holds[i].Key]
				if r.left > 0 {
					b.results[i] = driver.Result{Status: driver.Alive, Left: r.left}
				} else { // no Left would say: for the whole TTL
					b.results[i] = driver.Result{Err: &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: renew %q: the hold has run out and cannot be extended (MaxHold)", b.holds[i].Key)}}
				}
			}
		}
		return nil
	})
}

func (b *batch) release(ctx context.Context, c *conn) error {
	type terms struct {
		keep   time.Duration
		delete bool
	}
	list := groups(b, func(h driver.Hold) terms {
		t := terms{keep: h.Keep}
		if h.Undo {
			t.keep = 0
		}
		t.delete = b.deletes && t.keep == 0 && !h.Guarded
		return t
	})
	return b.each(list, func(group []int) error {
		h := b.holds[group[0]]
		keep := h.Keep
		if h.Undo {
			keep = 0
		}
		deleted := b.deletes && keep == 0 && !h.Guarded
		sent, affected, err := b.change(ctx, c, group, func(table string, holds []driver.Hold) string {
			if deleted {
				return remove(table, holds)
			}
			return end(table, holds, keep)
		})
		if err != nil || len(sent) == 0 {
			return err
		}
		if affected == int64(len(sent)) {
			for _, i := range sent {
				b.results[i] = driver.Result{Status: driver.Released, Final: true}
			}
			return nil
		}
		return b.tell(ctx, c, sent, affected, deleted)
	})
}

// tell finds out which of the holds a release ended, where it did not end all.
func (b *batch) tell(ctx context.Context, c *conn, sent []int, affected int64, deleted bool) error {
	rows, err := b.rows(ctx, c, len(sent), func(i int) string { return b.holds[sent[i]].Key })
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
			// More rows absent than deleted: some were gone before, and nothing tells which.
			// All that were there are released now; only an undo must not rely on it.
			b.results[i] = driver.Result{Status: driver.Released, Final: absent == affected}
		case b.settleGone(i, rows):
			// A row that shows this hold as released proves that the attempt came: it
			// cannot come again.
			b.results[i].Final = b.results[i].Status == driver.Released
		default:
			b.results[i] = driver.Result{Err: &driver.Error{Err: fmt.Errorf("mysql: release %q: the row still shows the hold: is there a proxy that reads from a replica?", b.holds[i].Key)}}
		}
	}
	return nil
}

// settleGone answers a hold that the rows show to be over; false: it is live.
func (b *batch) settleGone(i int, rows map[string]row) bool {
	r, ok := rows[b.holds[i].Key]
	switch {
	case !ok:
		b.results[i] = driver.Result{Status: driver.Removed}
	case !r.mine(b.holds[i].ID):
		b.results[i] = driver.Result{Status: r.gone(b.holds[i].ID)}
	default:
		return false
	}
	return true
}

// change sends one statement for the holds of a group. None of the statements
// touches a guard index entry that a guard may have locked (a DELETE is sent only
// for leases without a guard), so what they can wait for is a row lock: of a
// takeover, which is ended after 50 ms, or of a stranger's transaction. Behind one
// such row the others must not wait, so an unanswered statement is ended, and sent
// again for the rows that nobody has locked; the locked ones are unknown. So a call
// occupies its connection for about 100 ms at most.
//
// It returns the holds that the last statement was sent for and how many rows it
// changed.
func (b *batch) change(ctx context.Context, c *conn, group []int, statement func(string, []driver.Hold) string) (sent []int, affected int64, err error) {
	sent = group
	for _, bound := range bounds {
		holds := make([]driver.Hold, len(sent))
		for i, o := range sent {
			holds[i] = b.holds[o]
		}
		res, err := c.exec(ctx, bound, statement(b.table, holds))
		if err == nil {
			affected, err = res.RowsAffected()
			return sent, affected, maybeApplied(b.what(b.name), err)
		}
		if !errors.Is(err, errBlocked) {
			return nil, 0, classify(b.what(b.name), err)
		}
		blocked := err
		if sent, err = b.unblocked(ctx, c, sent, blocked); err != nil {
			return nil, 0, classify(b.what(b.name), err)
		}
		if len(sent) == 0 {
			return nil, 0, nil
		}
		err = blocked
		if b.s.cannotKill.Load() {
			break
		}
	}
	for _, i := range sent {
		b.results[i] = driver.Result{Err: classify(b.what(b.name), errBlocked)}
	}
	return nil, 0, nil
}

// unblocked answers the holds that are over and those whose rows are locked, and
// returns the others.
func (b *batch) unblocked(ctx context.Context, c *conn, sent []int, blocked error) ([]int, error) {
	rows, err := b.rows(ctx, c, len(sent), func(i int) string { return b.holds[sent[i]].Key })
	if err != nil {
		return nil, err
	}
	var live []int
	var holds []driver.Hold
	for _, i := range sent {
		if !b.settleGone(i, rows) {
			live = append(live, i)
			holds = append(holds, b.holds[i])
		}
	}
	if len(live) == 0 {
		return nil, nil
	}
	writable, err := b.writable(ctx, c, holds)
	if err != nil {
		return nil, err
	}
	free := live[:0]
	for _, i := range live {
		if writable[b.holds[i].Key] {
			free = append(free, i)
		} else {
			b.results[i] = driver.Result{Err: classify(fmt.Sprintf("%s %q", b.name, b.holds[i].Key), blocked)}
		}
	}
	return free, nil
}
