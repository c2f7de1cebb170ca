package row

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Waited reports whether the statement was ended by LockWait, not by KILL.
func Waited(err error) bool { return conn.Number(err) == conn.ErLockWait }

// attempt is one Acquire.
type attempt struct {
	*Table
	reqs    []driver.Request // sorted by key: all batches lock rows in one order
	results []driver.Result  // of reqs
	due     []int            // held, as a look found, and to be asked for all the same: see HintDue
	shares  []int            // of Mode Shared and Slot: see join.go
	begins  Begin            // of a strategy whose rows do not tell whether a key is free; nil: they do
}

// Begin begins the phase of a key for a request of Mode Shared or Slot, if the key is free, on
// the connection. An answer that is Unknown without an error says that there is a phase;
// found, that it was not this call that began it.
type Begin func(ctx context.Context, c *conn.Conn, r *driver.Request) (answer driver.Result, found bool, err error)

// Join answers requests of Mode Shared and Slot, where phases begin by begins.
func (l *Table) Join(ctx context.Context, reqs []driver.Request, begins Begin) ([]driver.Result, error) {
	return l.acquire(ctx, reqs, begins)
}

// Acquire is one upsert for all exclusive requests, and a second look at what it left open;
// then the joins of the others, and the takes of keys that are in a phase.
func (l *Table) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	return l.acquire(ctx, reqs, nil)
}

func (l *Table) acquire(ctx context.Context, reqs []driver.Request, begins Begin) ([]driver.Result, error) {
	sorted := storekit.Sort(reqs, func(r driver.Request) string { return r.Key }, storekit.ByBytes)
	a := attempt{Table: l, reqs: sorted.Items, results: make([]driver.Result, len(reqs)), begins: begins}
	hinted := true
	for _, r := range reqs {
		hinted = hinted && r.Pinned
	}
	if hinted {
		// Pinned keys share one connection, so that however many there are they leave
		// the others to the rest.
		if err := l.db.TakeSlow(ctx); err != nil {
			return nil, err
		}
		defer l.db.GiveSlow()
	}
	if err := l.db.Step(ctx, l.db.Acquires, func(c *conn.Conn) error { return a.all(ctx, c) }); err != nil {
		return nil, err
	}
	return sorted.Unsort(a.results), nil
}

// all answers all requests on one connection. Its error says that no key has an answer.
func (a *attempt) all(ctx context.Context, c *conn.Conn) error {
	if err := a.run(ctx, c); err != nil {
		return err
	}
	if len(a.shares) > 0 {
		if err := a.join(ctx, c, a.shares); err != nil {
			return err
		}
	}
	a.takeAll(ctx, c)
	return nil
}

// run takes the keys of exclusive requests. Its error says that none has an answer.
func (a *attempt) run(ctx context.Context, c *conn.Conn) error {
	open := make([]int, 0, len(a.reqs)) // without an answer yet
	var look []int
	a.due, a.shares = nil, nil
	for i, r := range a.reqs {
		// Where no statement can be ended, none is sent that is seen to wait.
		if r.Mode != driver.Exclusive {
			a.shares = append(a.shares, i)
		} else if r.Pinned || a.db.CannotKill.Load() {
			look = append(look, i)
		} else {
			open = append(open, i)
		}
	}
	sent := false
	var blocked, late bool
	var err error
	if len(look) > 0 {
		if look, err = a.look(ctx, c, look); errors.Is(err, conn.ErrBlocked) {
			a.tableLocked(look, sent)
			look, a.due, err = nil, nil, nil
		}
		if err != nil {
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
		bound := a.db.Bound(n)
		open, err = a.take(ctx, c, open, bound)
		if errors.Is(err, conn.ErrBlocked) {
			blocked, late = true, Waited(err)
			if open, err = a.look(ctx, c, open); errors.Is(err, conn.ErrBlocked) {
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
			a.db.NoteAnswer(bound)
		}
	}
	for _, i := range open {
		var err error
		alone := []int{i}
		if !blocked {
			// It was refused, and let go before it was looked at. The answer to the upsert
			// of a single key says which.
			if alone, err = a.take(ctx, c, alone, a.db.Bound(len(conn.Bounds)-1)); len(alone) == 0 && err == nil {
				continue
			}
		}
		switch {
		case blocked, errors.Is(err, conn.ErrBlocked):
			a.results[i] = driver.Result{Status: driver.Pinned}
		case err != nil:
			a.results[i] = driver.Result{Err: conn.MaybeApplied(a.What("acquire"), err)}
		default:
			a.results[i] = driver.Result{Err: &driver.Error{Err: fmt.Errorf("mysql: %s: the row of %q shows neither this hold nor another one: is there a proxy that reads from a replica?", a.What("acquire"), a.reqs[i].Key)}}
		}
	}
	return nil
}

// tableLocked answers those of the requests that have no answer, where not even a question that skips locked rows was
// answered. That is no sign of a holder: the keys may be free.
func (a *attempt) tableLocked(open []int, sent bool) {
	for _, i := range open {
		if a.results[i].Status == driver.Unknown && a.results[i].Err == nil {
			a.results[i] = driver.Result{Err: TableLocked(a.What("acquire"), sent)}
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
func (a *attempt) fail(open []int, before int, sent bool, err error) error {
	wrap := conn.Classify
	if sent {
		wrap = conn.MaybeApplied
	}
	err = wrap(a.What("acquire"), err)
	if before == len(a.reqs)-len(a.shares) {
		return err
	}
	for _, i := range open {
		a.results[i] = driver.Result{Err: err}
	}
	return nil
}

// take is send, in halves where the statement would be too large, or the server
// stumbles over a row: that one is answered with the reason, and the others do not
// suffer.
func (a *attempt) take(ctx context.Context, c *conn.Conn, open []int, bound time.Duration) ([]int, error) {
	rest, err := a.send(ctx, c, open, bound)
	switch {
	case !IsCorrupt(err) && !errors.Is(err, conn.ErrTooLarge), errors.Is(err, conn.ErrTooLarge) && len(open) == 1:
		return rest, err
	case len(open) == 1:
		a.results[open[0]] = driver.Result{Err: a.CorruptError("acquire", a.reqs[open[0]].Key, err.Error(), true)}
		return nil, nil
	}
	half := len(open) / 2
	rest, err = a.take(ctx, c, open[:half], bound)
	if err != nil {
		return slices.Concat(rest, open[half:]), err
	}
	more, err := a.take(ctx, c, open[half:], bound)
	if err != nil && !errors.Is(err, conn.ErrBlocked) {
		err = conn.MaybeApplied(a.What("acquire"), err) // of the first half
	}
	return slices.Concat(rest, more), err
}

// send sends the upsert for the open keys and reads who has them. It returns the
// keys that still have no answer, all of them with an error.
func (a *attempt) send(ctx context.Context, c *conn.Conn, open []int, bound time.Duration) ([]int, error) {
	reqs := make([]driver.Request, len(open))
	for i, o := range open {
		reqs[i] = a.reqs[o]
	}
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
		if 0 <= id && id < GrantedFrom {
			a.results[open[0]] = driver.Result{Status: driver.Held, Left: conn.Micros(max(id-1, 1)), Shared: id > PhaseMicros}
			return nil, nil
		}
		switch {
		case id < 0, id > driver.MaxToken: // the row tells
		case !a.fenced:
			a.results[open[0]] = driver.Result{Status: driver.Granted, Token: id, Stored: id}
			return nil, nil
		default:
			fences, err := c.QueryOne(ctx, Fence(a.Name, reqs[0].Key, &reqs[0].ID))
			if err != nil {
				return open, conn.MaybeApplied(a.What("acquire"), err)
			}
			if len(fences) == 1 {
				a.results[open[0]] = driver.Result{Status: driver.Granted, Token: fences[0], Stored: id}
				return nil, nil
			}
		}
	}
	// On the same connection, so that what reads is what wrote.
	rows, err := a.Rows(ctx, c, len(open), func(i int) string { return reqs[i].Key })
	if err != nil {
		return open, conn.MaybeApplied(a.What("acquire"), err)
	}
	rest := open[:0:0]
	for _, i := range open {
		if !a.settle(i, rows) {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// settle answers a request from the rows: false if they do not tell.
func (a *attempt) settle(i int, rows map[string]Row) bool {
	r, ok := rows[a.reqs[i].Key]
	mine := ok && r.Mine(a.reqs[i].ID)
	switch {
	case mine && r.Corrupt != "":
		a.results[i] = driver.Result{Err: a.CorruptError("acquire", r.Key, r.Corrupt, false)}
	case mine:
		token := r.Token
		if a.fenced {
			token = r.fence
		}
		a.results[i] = driver.Result{Status: driver.Granted, Token: token, Stored: r.Token, Left: max(r.Left, 0), Wanted: r.Wanted}
	case ok && r.Left > 0:
		a.results[i] = driver.Result{Status: driver.Held, Left: r.Left, Owner: r.Owner, Shared: r.InPhase}
	case ok && r.Ungrantable() != "":
		a.results[i] = driver.Result{Err: a.CorruptError("acquire", r.Key, r.Ungrantable(), true)}
	default:
		return false
	}
	return true
}
