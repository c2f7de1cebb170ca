package row

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// batch is one Renew or Release.
type batch struct {
	*Table
	name    string
	holds   []driver.Hold // sorted by key
	results []driver.Result
	told    []bool // Release: the hint on the key is known
	gates   []int  // undone exclusive attempts that may have left a gate in the phase of their key
}

// changed is what a statement says that it did.
type changed struct {
	rows int64
	id   int64 // LAST_INSERT_ID
}

// Renew extends holds.
func (l *Table) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return l.write(ctx, "renew", l.db.Renewals, holds, func(b *batch, c *conn.Conn) error { return b.renew(ctx, c) })
}

// write runs f on a connection of the pool, over the holds in the order of their keys.
func (l *Table) write(ctx context.Context, name string, on *conn.Pool, holds []driver.Hold, f func(*batch, *conn.Conn) error) ([]driver.Result, error) {
	sorted := storekit.Sort(holds, func(h driver.Hold) string { return h.Key }, storekit.ByBytes)
	b := &batch{Table: l, name: name, holds: sorted.Items, results: make([]driver.Result, len(holds))}
	err := l.db.Step(ctx, on, func(c *conn.Conn) error {
		if err := f(b, c); err != nil {
			return err
		}
		return b.doubt(c)
	})
	if err != nil {
		if err = conn.Classify(b.What(name), err); !b.answered() {
			return nil, err
		}
	}
	for i, r := range b.results {
		if r.Status == driver.Unknown && r.Err == nil {
			b.results[i].Err = err
		}
	}
	return sorted.Unsort(b.results), nil
}

// answered reports whether one of the holds has an answer.
func (b *batch) answered() bool {
	return slices.ContainsFunc(b.results, func(r driver.Result) bool { return r.Status != driver.Unknown })
}

// doubt takes back what a server that the address may have left does not know of, for another to answer.
func (b *batch) doubt(c *conn.Conn) (err error) {
	for i := range b.results {
		if Doubtful(c, b.results[i].Status) {
			b.results[i], err = driver.Result{}, conn.ErrLeft
		}
	}
	return err
}

// Doubtful reports whether s, found on c, says no more than that the hold is not on a server that the address may have
// left. That a hold was released is on no server which did not have it.
func Doubtful(c *conn.Conn, s driver.Status) bool {
	return (s == driver.Removed || s == driver.Taken || s == driver.Forced) && c.Left()
}

// groups splits the holds by what one statement can say only once. The order of
// keys stays within each group.
func groups[K comparable](b *batch, by func(driver.Hold) K) [][]int {
	var list [][]int
	at := make(map[K]int)
	for i, h := range b.holds {
		if b.results[i].Status != driver.Unknown {
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

func (b *batch) renew(ctx context.Context, c *conn.Conn) error {
	type terms struct {
		ttl, maxHold time.Duration
		share        bool
	}
	list := groups(b, func(h driver.Hold) terms { return terms{h.TTL, h.MaxHold, isShare(&h)} })
	return b.each(list, func(group []int) error {
		free, rest, err := b.unlocked(ctx, c, group)
		if err == nil && len(free) > 0 {
			err = b.extend(ctx, c, free)
		}
		if err != nil {
			return err
		}
		return b.settleLocked(ctx, c, rest)
	})
}

// extend sends the renewal of holds.
func (b *batch) extend(ctx context.Context, c *conn.Conn, group []int) error {
	return b.change(ctx, c, group, Extend, func(sent []int, done changed) error {
		if !isShare(&b.holds[group[0]]) && done.rows == int64(len(sent)) {
			for _, i := range sent {
				b.results[i] = driver.Result{Status: driver.Alive}
			}
			return nil
		}
		return b.tellRenewed(ctx, c, sent)
	})
}

// unlocked finds the holds that can be renewed now, where the answers take so long that these could not be sent again in time, when one
// locked row has kept all waiting. They would wait for that row until their time is over, which costs the connection too,
// and so on until the leases are lost. The price is one more answer, and that a row which is locked now and again is missed, where a
// renewal would have been served in its turn. So a renewal that no other waits for is sent at once; so is one that has no time for the
// question, or that goes to a distant server, where the time is needed to open connections and the server ends the waits.
func (b *batch) unlocked(ctx context.Context, c *conn.Conn, group []int) (free, rest []int, err error) {
	deadline, ends := ctx.Deadline()
	bound := b.db.Bound(0)
	if !ends || len(b.holds) == 1 || bound <= conn.Bounds[0] {
		return group, nil, nil
	}
	answer := bound / 4
	if left := time.Until(deadline); c.Distant() || left < 2*answer || left >= bound+4*answer { // to KILL, to ask twice, and to send again
		return group, nil, nil
	}
	writable, err := b.writable(ctx, c, group)
	if err != nil {
		return nil, nil, b.notEvenSkipping(err)
	}
	for _, i := range group {
		if writable[b.at(i)] {
			free = append(free, i)
		} else {
			rest = append(rest, i)
		}
	}
	return free, rest, nil
}

// settleLocked answers holds that could not be renewed: they are over, or somebody keeps their rows locked.
func (b *batch) settleLocked(ctx context.Context, c *conn.Conn, some []int) error {
	if len(some) == 0 {
		return nil
	}
	rows, err := b.read(ctx, c, some)
	if err == nil {
		b.blocked(b.settleAll(some, rows))
		return nil
	}
	for _, i := range some { // the others have their answers
		b.results[i] = driver.Result{Err: conn.Classify(b.What(b.name), err)}
	}
	return nil
}

// tellRenewed finds out which of the holds live. Fewer rows than holds does not
// mean lost: a renewal that could not extend changes nothing.
func (b *batch) tellRenewed(ctx context.Context, c *conn.Conn, sent []int) error {
	rows, err := b.read(ctx, c, sent)
	if err != nil {
		return conn.MaybeApplied(b.What("renew"), err)
	}
	for _, i := range sent {
		if b.settleGone(i, rows) {
			continue
		}
		if r := rows[b.at(i)]; r.Corrupt != "" && isShare(&b.holds[i]) {
			b.results[i] = driver.Result{Err: b.shareCorrupt("renew", b.holds[i].Key, r.Corrupt, false)}
		} else if left := r.Left; left > 0 {
			b.results[i] = driver.Result{Status: driver.Alive, Left: left}
		} else if why := r.Corrupt; why != "" {
			b.results[i] = driver.Result{Err: b.CorruptError("renew", b.holds[i].Key, why, true)}
		} else { // Alive without Left would say: for the whole TTL
			b.results[i] = driver.Result{Err: &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: renew %q: the hold has run out and cannot be extended (MaxHold)", b.holds[i].Key)}}
		}
	}
	return nil
}

// read reads the rows of some of the holds, all exclusive or none.
func (b *batch) read(ctx context.Context, c *conn.Conn, some []int) (map[string]Row, error) {
	if isShare(&b.holds[some[0]]) {
		return b.readShares(ctx, c, some)
	}
	return b.Rows(ctx, c, len(some), func(i int) string { return b.holds[some[i]].Key })
}

// settleGone answers a hold that the rows show to be over; false: it is live. A row
// that shows this hold as released proves that the attempt came, so it cannot come
// again: that is final for an undo.
func (b *batch) settleGone(i int, rows map[string]Row) bool {
	r, ok := rows[b.at(i)]
	if h := &b.holds[i]; ok && r.InPhase && h.Undo && !isShare(h) {
		b.gates = append(b.gates, i)
	}
	switch {
	case !ok:
		b.results[i] = driver.Result{Status: driver.Removed}
	case !r.Mine(b.holds[i].ID):
		status := r.Gone(b.holds[i].ID)
		b.results[i] = driver.Result{Status: status, Final: status == driver.Released}
	default:
		return false
	}
	return true
}

// settleAll answers the holds that are over and returns the live ones.
func (b *batch) settleAll(some []int, rows map[string]Row) (live []int) {
	for _, i := range some {
		if !b.settleGone(i, rows) {
			live = append(live, i)
		}
	}
	return live
}

// change sends one statement for the holds of a group and hands what it changed to
// settle. None of the statements touches a guard index entry that a guard may have
// locked (a DELETE is sent only for leases without a guard), so what they can wait
// for is a row lock: of another client's statement, which is over soon, or of a
// stranger's transaction. Behind one such row the others must not wait, so an
// unanswered statement is ended, and sent again for the rows that nobody has
// locked; then the locked ones have another try, and are unknown if that fails too.
// So a call occupies its connection for about 100 ms at most.
func (b *batch) change(ctx context.Context, c *conn.Conn, group []int, of func(string, []driver.Hold) conn.Statement, settle func(sent []int, done changed) error) error {
	start := time.Now()
	var locked []int
	pending, again, late := group, false, false // again: pending was locked; late: LockWait was waited for
	for n := 0; n < len(conn.Bounds); {
		bound := b.db.Bound(n)
		if again {
			if bound = min(bound, time.Until(start.Add(2*b.db.Bound(0)))); bound <= 0 || late {
				break
			}
		} else {
			n++
		}
		res, err := b.send(ctx, c, bound, of, pending)
		switch {
		case err == nil:
			var done changed
			if done.rows, err = res.RowsAffected(); err == nil {
				done.id, err = res.LastInsertId()
			}
			if err == nil {
				err = settle(pending, done)
			}
			if err != nil {
				return conn.MaybeApplied(b.What(b.name), err)
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
				b.db.NoteAnswer(bound)
			}
		case IsCorrupt(err) && len(pending) == 1:
			corrupt := b.CorruptError
			if isShare(&b.holds[pending[0]]) {
				corrupt = b.shareCorrupt
			}
			b.results[pending[0]] = driver.Result{Err: corrupt(b.name, b.holds[pending[0]].Key, err.Error(), true)}
			pending = nil
		case IsCorrupt(err), errors.Is(err, conn.ErrTooLarge) && len(pending) > 1: // the others do not suffer
			half := len(pending) / 2
			if err := b.change(ctx, c, pending[:half], of, settle); err != nil {
				return err
			}
			if err := b.change(ctx, c, pending[half:], of, settle); err != nil {
				for _, i := range pending[half:] { // the first half has its answers
					if b.results[i].Status == driver.Unknown {
						b.results[i] = driver.Result{Err: err}
					}
				}
			}
			pending = nil
		default:
			return conn.Classify(b.What(b.name), err)
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
func (b *batch) notEvenSkipping(err error) error {
	if errors.Is(err, conn.ErrBlocked) {
		return TableLocked(b.What(b.name), false)
	}
	return conn.Classify(b.What(b.name), err)
}

// blocked answers holds whose rows somebody keeps locked.
func (b *batch) blocked(some []int) {
	for _, i := range some {
		b.results[i] = driver.Result{Err: conn.Classify(fmt.Sprintf("%s of %q", b.What(b.name), b.holds[i].Key), conn.ErrBlocked)}
	}
}

func (b *batch) send(ctx context.Context, c *conn.Conn, bound time.Duration, of func(string, []driver.Hold) conn.Statement, pending []int) (sqldriver.Result, error) {
	s := of(b.tableOf(pending), b.some(pending))
	if len(pending) == 1 {
		return c.ExecOne(ctx, bound, s)
	}
	return c.Exec(ctx, bound, s.Literal())
}

func (b *batch) some(which []int) []driver.Hold {
	holds := make([]driver.Hold, len(which))
	for i, o := range which {
		holds[i] = b.holds[o]
	}
	return holds
}

// part answers the holds that are over, and parts the others into those that can
// be written and those whose rows are locked.
func (b *batch) part(ctx context.Context, c *conn.Conn, pending []int) (free, locked []int, err error) {
	rows, err := b.read(ctx, c, pending)
	if err != nil {
		return nil, nil, err
	}
	live := b.settleAll(pending, rows)
	if len(live) == 0 {
		return nil, nil, nil
	}
	writable, err := b.writable(ctx, c, live)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range live {
		if writable[b.at(i)] {
			free = append(free, i)
		} else {
			locked = append(locked, i)
		}
	}
	return free, locked, nil
}
