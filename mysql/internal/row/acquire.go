package row

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Waited reports whether the statement was ended by LockWait, not by KILL.
func Waited(err error) bool { return conn.Number(err) == conn.ErLockWait }

// Attempt is one Acquire, as far as it takes keys by the statement for those that are free.
type Attempt struct {
	*Table
	Reqs    []driver.Request // sorted by key: all batches lock rows in one order
	Results []driver.Result  // of Reqs

	// Joins says that a key in a phase is not a held one: Look gives it back.
	Joins bool

	asked  int           // how many keys Run is for
	before time.Duration // between the sending of the last upsert and that of the read after it
	due    []int         // held, as a look found, and to be asked for all the same: it is to stand
}

// Run takes the keys of some requests: one upsert for all, and a second look at what it left
// open. Its error says that none has an answer. It overwrites the list.
func (a *Attempt) Run(ctx context.Context, c *conn.Conn, some []int) error {
	open := some[:0] // without an answer yet
	var look []int
	a.due, a.asked = nil, len(some)
	for _, i := range some {
		// Where no statement can be ended, none is sent that is seen to wait.
		if a.Reqs[i].Pinned || a.DB.CannotKill.Load() {
			look = append(look, i)
		} else {
			open = append(open, i)
		}
	}
	sent := false
	var blocked, late bool
	var err error
	if len(look) > 0 {
		if look, err = a.Look(ctx, c, look); errors.Is(err, conn.ErrBlocked) {
			a.tableLocked(look, conn.Unsure(err))
			look, a.due, err = nil, nil, nil
		}
		switch {
		case conn.Unsure(err):
			return err
		case err != nil:
			return conn.NotSent(a.What("acquire"), err)
		}
		due, err := a.writableOf(ctx, c, a.due)
		if err != nil && !errors.Is(err, conn.ErrBlocked) { // they have their answers
			return conn.NotSent(a.What("acquire"), err)
		}
		open = slices.Concat(open, look, due)
		slices.Sort(open)
	}
	for n := range conn.Bounds {
		if len(open) == 0 {
			return nil
		}
		blocked = false
		before := len(open)
		bound := a.DB.Bound(n)
		open, err = a.take(ctx, c, open, bound)
		sent = sent || conn.Unsure(err)
		if errors.Is(err, conn.ErrBlocked) {
			blocked, late, a.due = true, Waited(err), nil
			if open, err = a.Look(ctx, c, open); errors.Is(err, conn.ErrBlocked) {
				a.tableLocked(open, sent)
				return nil
			}
		} else if err == nil {
			sent = true
		}
		if err != nil {
			return a.fail(open, before, sent, err)
		}
		if blocked && len(open) == before { // no lock was found
			if late {
				break // it took a second
			}
			a.DB.NoteAnswer(bound)
		}
		if blocked && !late && n+1 < len(conn.Bounds) {
			if open, err = a.againDue(ctx, c, open); err != nil {
				return a.fail(open, before, sent, err)
			}
		}
	}
	for _, i := range open {
		var err error
		alone := []int{i}
		if !blocked {
			// It was refused, and let go before it was looked at. The answer to the upsert
			// of a single key says which.
			if alone, err = a.take(ctx, c, alone, a.DB.Bound(len(conn.Bounds)-1)); len(alone) == 0 && err == nil {
				continue
			}
		}
		switch {
		case blocked, errors.Is(err, conn.ErrBlocked) && !conn.Unsure(err):
			a.Results[i] = driver.Result{Status: driver.Pinned}
		case err != nil:
			a.Results[i] = driver.Result{Err: conn.MaybeApplied(a.What("acquire"), err)}
		default:
			a.Results[i] = driver.Result{Err: &driver.Error{Err: fmt.Errorf("mysql: %s: the row of %q shows neither this hold nor another one: is there a proxy that reads from a replica?", a.What("acquire"), a.Reqs[i].Key)}}
		}
	}
	return nil
}

// againDue adds the requests to the open ones that are due all the same, where nobody has locked their rows by now or in a moment.
// They have their answers, if that is not so later.
func (a *Attempt) againDue(ctx context.Context, c *conn.Conn, open []int) ([]int, error) {
	due, err := a.writableOf(ctx, c, a.due)
	if err == nil && len(due) < len(a.due) && conn.Pause(ctx, BusyPause) {
		due, err = a.writableOf(ctx, c, a.due)
	}
	if errors.Is(err, conn.ErrBlocked) {
		return open, nil
	}
	return slices.Sorted(slices.Values(slices.Concat(open, due))), err
}

// tableLocked answers those of the requests that have no answer, where not even a question that skips locked rows was
// answered. That is no sign of a holder: the keys may be free.
func (a *Attempt) tableLocked(open []int, sent bool) {
	for _, i := range open {
		if a.Results[i].Status == driver.Unknown && a.Results[i].Err == nil {
			a.Results[i] = driver.Result{Err: TableLocked(a.What("acquire"), sent)}
		}
	}
}

// TableLocked is the error of an attempt that waited for a lock on the whole table. sent: something of it may be applied.
func TableLocked(what string, sent bool) error {
	return &driver.Error{NotApplied: !sent, Err: fmt.Errorf("mysql: %s: nothing could be written to the table for a second: "+
		"LOCK TABLES, FLUSH TABLES WITH READ LOCK, a backup or a change of the primary stands in the way, not a holder of the key", what)}
}

// fail gives the keys without an answer the error. It is the whole call's if no
// key has one.
func (a *Attempt) fail(open []int, before int, sent bool, err error) error {
	wrap := conn.Classify
	if sent {
		wrap = conn.MaybeApplied
	}
	err = wrap(a.What("acquire"), err)
	if before == a.asked {
		return err
	}
	for _, i := range open {
		a.Results[i] = driver.Result{Err: err}
	}
	return nil
}

// take is send, in halves where the statement would be too large, or the server
// stumbles over a row: that one is answered with the reason, and the others do not
// suffer.
func (a *Attempt) take(ctx context.Context, c *conn.Conn, open []int, bound time.Duration) ([]int, error) {
	half := func(half []int) ([]int, error) { return a.take(ctx, c, half, bound) }
	if first, second := a.alike(open); len(second) > 0 {
		rest, err := split.InTwo(first, second, half, a.AfterPart)
		slices.Sort(rest)
		return rest, err
	}
	rest, err := a.send(ctx, c, open, bound)
	switch {
	case !IsCorrupt(err) && !errors.Is(err, conn.ErrTooLarge), errors.Is(err, conn.ErrTooLarge) && len(open) == 1:
		return rest, err
	case len(open) == 1:
		a.Results[open[0]] = driver.Result{Err: a.CorruptError("acquire", a.Reqs[open[0]].Key, err.Error(), true)}
		return nil, nil
	}
	return split.Halves(open, half, a.AfterPart)
}

// AfterPart is what an error of an acquire becomes, of which a part was sent before.
func (l *Table) AfterPart(err error) error { return conn.MaybeApplied(l.What("acquire"), err) }

// alike parts the requests into those that one upsert can send with the first, and the others: all have Stand, or none.
func (a *Attempt) alike(open []int) (same, others []int) {
	for _, i := range open {
		if a.Reqs[i].Stand == a.Reqs[open[0]].Stand {
			same = append(same, i)
		} else {
			others = append(others, i)
		}
	}
	return same, others
}

// send sends the upsert for the open keys and reads who has them. It returns the
// keys that still have no answer, all of them with an error.
func (a *Attempt) send(ctx context.Context, c *conn.Conn, open []int, bound time.Duration) ([]int, error) {
	reqs := make([]driver.Request, len(open))
	for i, o := range open {
		reqs[i] = a.Reqs[o]
	}
	sent := time.Now()
	if len(open) > 1 {
		if _, err := c.Exec(ctx, bound, Upsert(a.Name, reqs).Literal()); err != nil {
			return open, err
		}
	} else {
		res, err := c.ExecOne(ctx, bound, Upsert(a.Name, reqs))
		if err != nil {
			return open, err
		}
		id, err := res.LastInsertId()
		if err != nil {
			return open, err
		}
		if 0 < id && id < GrantedFrom {
			a.Results[open[0]] = driver.Result{Status: driver.Held, Left: conn.Micros(max(id-1, 1)), Shared: id > PhaseMicros}
			return nil, nil
		}
		switch {
		case id <= 0, id > driver.MaxToken: // the row tells
		case !a.Fenced:
			a.Results[open[0]] = driver.Result{Status: driver.Granted, Token: id, Stored: id}
			return nil, nil
		default:
			fences, err := c.QueryOne(ctx, Fence(a.Name, reqs[0].Key, &reqs[0].ID))
			if err != nil {
				return open, conn.MaybeApplied(a.What("acquire"), err)
			}
			if len(fences) == 1 {
				a.Results[open[0]] = driver.Result{Status: driver.Granted, Token: fences[0], Stored: id}
				return nil, nil
			}
		}
	}
	a.before = time.Since(sent)
	// On the same connection, so that what reads is what wrote.
	rows, err := a.Rows(ctx, c, len(open), func(i int) string { return reqs[i].Key })
	if err != nil {
		return open, conn.MaybeApplied(a.What("acquire"), err)
	}
	rest := open[:0:0]
	for _, i := range open {
		if a.settle(i, rows) {
			continue
		}
		answered := false
		if r, ok := rows[a.Reqs[i].Key]; ok && (r.HasLine() || a.Reqs[i].Stand) && err == nil {
			answered, err = a.byHand(ctx, c, i, r, bound)
		}
		if !answered {
			rest = append(rest, i)
		}
	}
	return rest, err
}

// settle answers a request from the rows: false if they do not tell.
func (a *Attempt) settle(i int, rows map[string]Row) bool {
	r, ok := rows[a.Reqs[i].Key]
	mine := ok && r.Mine(a.Reqs[i].ID)
	switch {
	case mine && r.Corrupt != "":
		a.Results[i] = driver.Result{Err: a.CorruptError("acquire", r.Key, r.Corrupt, false)}
	case mine && r.Left <= 0:
		return false // it ran out: others may have the key by now
	case mine:
		a.Results[i] = driver.Result{Status: driver.Granted, Token: a.TokenOf(&r), Stored: r.Token, Left: max(r.Left, 0)}
		if a.Reqs[i].Stand && r.Owner == a.Reqs[i].Owner && r.now-r.SinceMicros <= a.before.Microseconds() {
			a.Results[i].Left = 0 // it was granted after the upsert was sent, so for all of its TTL
		}
	case ok && r.Left > 0:
		if a.Reqs[i].Stand && r.Line().Place(a.Reqs[i].ID) == 0 {
			return false // it is to be added
		}
		a.Results[i] = driver.Result{Status: driver.Held, Left: r.Left, Owner: r.Owner, Shared: r.InPhase}
	case ok && r.Ungrantable() != "":
		a.Results[i] = driver.Result{Err: a.CorruptError("acquire", r.Key, r.Ungrantable(), true)}
	default:
		return false
	}
	if r.HasLine() {
		r.Line().tell(&a.Results[i], a.Reqs[i].ID, r.now)
	}
	return true
}

// TokenOf is the fencing token of the hold that the row shows. One that is read is later than everything before; that of a pass
// was made of the row of the hold before.
func (l *Table) TokenOf(r *Row) int64 {
	if l.Fenced && !r.passed {
		return r.fence
	}
	return r.Token
}
