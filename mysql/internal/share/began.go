package share

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// begin begins phases for requests that could not join, where their keys are free. It
// answers those whose keys are held, or pinned, and returns the others.
func (j *joins) begin(ctx context.Context, c *conn.Conn, open []int) ([]int, error) {
	if j.begins != nil {
		return j.beginEach(ctx, c, open)
	}
	var look []int
	for _, i := range open {
		if j.reqs[i].Pinned || j.DB.CannotKill.Load() {
			look = append(look, i)
		}
	}
	if len(look) > 0 {
		unlocked, err := j.look(ctx, c, look)
		if err != nil {
			return open, err
		}
		open = slices.DeleteFunc(slices.Clone(open), func(i int) bool { return slices.Contains(look, i) && !slices.Contains(unlocked, i) })
	}
	for n := range conn.Bounds {
		if len(open) == 0 {
			return nil, nil
		}
		bound := j.DB.Bound(n)
		rest, err := j.sendBegin(ctx, c, open, bound)
		if !errors.Is(err, conn.ErrBlocked) {
			return rest, err
		}
		late := row.Waited(err)
		before := len(rest)
		if open, err = j.look(ctx, c, rest); err != nil {
			return open, err
		}
		if len(open) == before { // no lock was found
			if late {
				break
			}
			j.DB.NoteAnswer(bound)
		}
	}
	for _, i := range open {
		j.results[i] = driver.Result{Status: driver.Pinned}
	}
	return nil, nil
}

// look finds out without waiting which of the open keys another transaction blocks. It answers
// those that are held or pinned, and returns the others, also those in a phase.
func (j *joins) look(ctx context.Context, c *conn.Conn, open []int) ([]int, error) {
	a := row.Attempt{Table: j.Table.Table, Reqs: j.reqs, Results: j.results, Joins: true}
	return a.Look(ctx, c, open)
}

// beginEach is begin where another decides whether a key is free.
func (j *joins) beginEach(ctx context.Context, c *conn.Conn, open []int) (rest []int, err error) {
	for n, i := range open {
		r, found, err := j.begins(ctx, c, &j.reqs[i])
		if err != nil {
			return append(rest, open[n:]...), err
		}
		if j.results[i] = r; !j.answered(i) {
			rest = append(rest, i)
		}
		j.obstructed = j.obstructed || found
	}
	return rest, nil
}

// sendBegin sends begin, in halves where it is too large or the server stumbles over a row,
// and confirms what it may have begun.
func (j *joins) sendBegin(ctx context.Context, c *conn.Conn, open []int, bound time.Duration) ([]int, error) {
	reqs := make([]driver.Request, len(open))
	for n, i := range open {
		reqs[n] = j.reqs[i]
	}
	if len(open) == 1 {
		return j.beginOne(ctx, c, open[0], bound)
	}
	_, err := c.Exec(ctx, bound, begin(j.Table, reqs).Literal())
	switch {
	case row.IsCorrupt(err), errors.Is(err, conn.ErrTooLarge):
		return split.Halves(open, func(half []int) ([]int, error) { return j.sendBegin(ctx, c, half, bound) }, j.AfterPart)
	case err != nil:
		return open, err
	}
	if j.Fenced {
		for n := range reqs {
			if err := j.confirm(ctx, c, reqs[n].Key, PhaseOf(reqs[n].ID)); err != nil {
				return open, err
			}
		}
	}
	return open, nil
}

func (j *joins) beginOne(ctx context.Context, c *conn.Conn, i int, bound time.Duration) ([]int, error) {
	r, open := &j.reqs[i], []int{i}
	res, err := c.ExecOne(ctx, bound, begin(j.Table, j.reqs[i:i+1]))
	if row.IsCorrupt(err) {
		j.results[i] = driver.Result{Err: j.CorruptError("acquire", r.Key, err.Error(), true)}
		return nil, nil
	}
	if err != nil {
		return open, err
	}
	id, err := res.LastInsertId()
	switch {
	case err != nil:
		return open, err
	case 0 <= id && id < phaseAnswer:
		j.results[i] = driver.Result{Status: driver.Held, Left: conn.Micros(max(id-1, 1))}
		return nil, nil
	case id == phaseAnswer+phaseOpen:
		return open, nil
	case phaseAnswer < id && id < row.GrantedFrom:
		j.obstructed = true
		return open, nil
	case j.Fenced:
		return open, j.confirm(ctx, c, r.Key, PhaseOf(r.ID))
	}
	return open, nil
}

// confirm sends confirm. Somebody else may be faster, so that it waits for nobody.
func (j *joins) confirm(ctx context.Context, c *conn.Conn, key string, phase driver.HoldID) error {
	_, err := c.ExecOne(ctx, j.DB.Bound(0), confirm(j.Table, key, &phase))
	if errors.Is(err, conn.ErrBlocked) {
		return nil // the next look tells
	}
	return err
}

// makeWay finds out what keeps requests out that could not join, and clears it away where that
// can be done. It answers those that are refused, and returns the others.
func (j *joins) makeWay(ctx context.Context, c *conn.Conn, open []int) ([]int, error) {
	states, err := j.keyStates(ctx, c, len(open), func(n int) string { return j.reqs[open[n]].Key })
	if err != nil {
		return open, err
	}
	var rest, free, gated []int
	for n, i := range open {
		key := j.reqs[i].Key
		st, ok := states[key]
		if ok && st.row.HasLine() && st.row.Ungrantable() == "" {
			on, err := j.lined(ctx, c, i, st)
			if err != nil {
				return slices.Concat(rest, free, gated, open[n:]), err
			}
			if on {
				rest = append(rest, i)
			} else if !j.answered(i) {
				gated = append(gated, i)
			}
			continue
		}
		delete(j.among, i)
		switch {
		case ok && st.row.Ungrantable() != "":
			j.results[i] = driver.Result{Err: j.CorruptError("acquire", key, st.row.Ungrantable(), true)}
		case st.state == phaseGated:
			gated = append(gated, i)
		case st.state == phaseOpen:
			rest = append(rest, i)
		case st.state == phaseNew:
			err = j.confirm(ctx, c, key, st.row.ID)
			rest = append(rest, i)
		case st.state == phaseGateOver:
			if _, err = c.ExecOne(ctx, j.DB.Bound(0), clearGate(j.Table, key)); errors.Is(err, conn.ErrBlocked) {
				err = nil
			}
			rest = append(rest, i)
		case ok && st.row.Left > 0 && j.begins == nil:
			j.results[i] = driver.Result{Status: driver.Held, Left: st.row.Left, Owner: st.row.Owner}
		default:
			free = append(free, i)
		}
		if err != nil {
			return slices.Concat(rest, free, gated, open[n+1:]), err
		}
	}
	if err := j.refuse(ctx, c, gated); err != nil {
		return slices.Concat(rest, free, gated), err
	}
	if len(free) > 0 {
		if free, err = j.begin(ctx, c, free); err != nil {
			return slices.Concat(rest, free), err
		}
	}
	return slices.Sorted(slices.Values(slices.Concat(rest, free))), nil
}

// refuse answers requests behind a gate: granted are those that find their own hold.
func (j *joins) refuse(ctx context.Context, c *conn.Conn, gated []int) error {
	var readers []int
	for _, i := range gated {
		s := j.slots[i]
		if s == nil {
			readers = append(readers, i)
			continue
		}
		s.slot = -1
		if answered, err := j.choose(ctx, c, i, s); err != nil {
			return err
		} else if !answered {
			j.results[i] = driver.Result{Status: driver.Held, Shared: true}
		}
	}
	if len(readers) == 0 {
		return nil
	}
	at := func(n int) place { return place{j.reqs[readers[n]].Key, readerSlot(&j.reqs[readers[n]].ID)} }
	rows, err := j.shareRows(ctx, c, len(readers), at)
	if err != nil {
		return err
	}
	for n, i := range readers {
		if r, ok := rows[at(n).name()]; !ok || !j.settleShare(i, r) {
			j.results[i] = driver.Result{Status: driver.Held, Shared: true}
		}
	}
	return nil
}
