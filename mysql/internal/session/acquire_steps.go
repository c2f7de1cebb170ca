package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// steps are (1) to (4). Status Unknown without an error, of one of them, means: go on.
func (a *Attempt) steps(ctx context.Context) (driver.Result, error) {
	done := false
	if a.locked && a.t0 == inAPhase { // out of the server's queue
		a.locked = false
		a.f.phases.saw(a.r.Key, true)
		if err := rollBack(ctx, a.session); err != nil {
			return driver.Result{}, err
		}
		a.hasRow = false
	}
	if _, inPhase := a.f.phases.known(a.r.Key); inPhase || a.r.Gate != (driver.HoldID{}) {
		result, met, err := a.throughPhase(ctx)
		if err != nil || result.Err != nil || met && result.Status != driver.Unknown {
			return result, err
		}
		done = met
	}
	for _, step := range []func(context.Context) (driver.Result, error){a.Lock, a.Write} {
		if done {
			break
		}
		if result, err := step(ctx); err != nil || result.Err != nil || result.Status != driver.Unknown {
			return result, err
		}
	}
	switch mine, err := a.Confirm(ctx); {
	case err != nil:
		return driver.Result{}, err
	case !mine:
		a.sent = false
		return driver.Result{}, &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: released by force in the same moment", a.r.Key)}
	}
	return driver.Result{Status: driver.Granted, Token: a.token, Stored: a.token, Wanted: a.wanted}, nil
}

// Lock is (1) and (2), unless they are done. A refusal that met a probe is tried some times more; so is
// one by a session that the lease row does not name yet, or not any more. Status
// Unknown without an error means that the session has the lock.
func (a *Attempt) Lock(ctx context.Context) (driver.Result, error) {
	if a.locked {
		return driver.Result{}, nil
	}
	refused, made := 0, 0
	for {
		sent := time.Now()
		found, err := conn.Query(ctx, a.session, 0, a.f.lockRow(a.r.Key), conn.ScanOne[conn.Int])
		switch {
		case conn.Number(err) == conn.ErNoWait, errors.Is(err, conn.ErrBlocked):
			refused++
			p, err := a.refusal(ctx)
			if err != nil {
				return driver.Result{}, err
			}
			a.wanted = p.wanted
			if left := p.remains(); left > 0 || refused == len(refusedPauses) || waitedForTable(sent) {
				return driver.Result{Status: driver.Held, Left: left, Owner: p.holder(), Shared: p.phase}, nil
			}
			if !conn.Pause(ctx, refusedPauses[refused]) {
				return driver.Result{}, ctx.Err()
			}
		case err != nil:
			return driver.Result{}, err
		case a.readToken(found):
			a.locked, a.session.Locks = true, true
			return driver.Result{}, nil
		default:
			if made++; made == 5 {
				return driver.Result{}, errVanishing(a.r.Key)
			}
			missing := []string{a.f.CreateLease(a.r.Key)}
			if len(found) == 0 {
				missing = append(missing, a.f.CreateRow(a.r.Key))
			}
			if err := a.make(ctx, missing...); err != nil {
				return driver.Result{}, err
			}
		}
	}
}

// waitedForTable reports whether a question that waits for no row was refused so late that it waited for the table: another
// one will too. The caller of Acquire asks which it was.
func waitedForTable(sent time.Time) bool { return time.Since(sent) >= conn.LockWait }

// ErrVanishing: somebody deletes the rows of a key all the time, or nothing can be written to the table: a row that could not
// be made for a lock may be there by now, so that it is looked for.
var ErrVanishing = errors.New("vanish as soon as they are made")

func errVanishing(key string) error {
	return &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire: the rows of %q %w", key, ErrVanishing)}
}

// readToken takes the token out of the answer to (1) and (2); false: a row is missing.
func (a *Attempt) readToken(found []conn.Int) (ok bool) {
	a.hasRow = a.hasRow || len(found) == 1
	a.t0, ok = tokenIn(found)
	return ok
}

func tokenIn(found []conn.Int) (token int64, ok bool) {
	if len(found) != 1 || found[0].Null {
		return 0, false
	}
	return found[0].N, true // the nearest, which leaves no room for the next
}

// refusedPauses come before the tries after a refusal, by their number.
var refusedPauses = [...]time.Duration{1: time.Millisecond, 2: 4 * time.Millisecond, 3: 8 * time.Millisecond, 4: 16 * time.Millisecond, 5: 0}

// refusal finds out, after the row was locked, who has the key. It asks on another
// connection, because the session would keep the lock by which it asks.
func (a *Attempt) refusal(ctx context.Context) (p rowState, err error) {
	err = a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) (err error) {
		p, _, err = a.f.readRow(ctx, c, a.r.Key)
		return conn.NotSent(a.f.lease.What("acquire"), err)
	})
	return p, err
}

// make creates rows. One that is there by now and locked is as good.
func (a *Attempt) make(ctx context.Context, statements ...string) error {
	return a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) error {
		if err := a.f.sameServer(a.session, c, a.r.Key); err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := c.Exec(ctx, a.f.db.Bound(0), statement); err != nil && !errors.Is(err, conn.ErrBlocked) {
				return conn.Classify(a.f.lease.What("create a row"), err)
			}
		}
		return nil
	})
}

// sameServer is nil if the session and a connection of the Store lead to one server.
// After the primary was switched one of them may be older than that: neither is used
// again, because a row that is locked on one server keeps nobody from the other's.
func (f *ForUpdate) sameServer(session, c *conn.Conn, key string) error {
	if c.Server == session.Server {
		return nil
	}
	c.Broken, session.Broken = true, true
	f.db.Moved()
	return &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: one connection leads to server %s, another to %s: the address must name one writable server", key, session.Server, c.Server)}
}

// Write is (3): Status Unknown without an error means that it is done.
func (a *Attempt) Write(ctx context.Context) (driver.Result, error) {
	look := a.r.Pinned
	changed := 0
	for try := 0; try < len(conn.Bounds) && changed < 5; {
		if why := row.TokensUsedUp(a.t0); why != "" {
			return driver.Result{}, a.f.lease.CorruptError("acquire", a.r.Key, why, true)
		}
		if on, _ := a.f.lookFirst.required(); on || look {
			look = true
			if pinned, err := a.f.lookFirst.pinned(ctx, a.r.Key, a.t0, true); err != nil || pinned {
				return driver.Result{Status: driver.Pinned}, err
			}
		}
		affected, err := a.update(ctx, a.f.db.Bound(try), look)
		switch {
		case errors.Is(err, errLookFirst):
			look = true
			continue
		case errors.Is(err, conn.ErrBlocked):
			if try++; row.Waited(err) {
				try = len(conn.Bounds) // it took a second
			}
			look = true
			continue
		case err != nil:
			return driver.Result{}, err
		case affected == 1:
			return driver.Result{}, nil
		}
		changed++
		result, done, err := a.whyUnwritten(ctx)
		if err != nil || done || result.Err != nil || result.Status != driver.Unknown {
			return result, err
		}
	}
	if changed > 0 {
		return driver.Result{}, errChanging(a.f, a.r.Key)
	}
	return driver.Result{Status: driver.Pinned}, nil
}

// errChanging: others write the lease row between all steps, or it cannot be used.
func errChanging(f *ForUpdate, key string) error {
	return &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: the lease row in table %s keeps changing, or has a kept_until that is no time: then it was changed by hand: delete the row", key, f.lease.Name)}
}

// errLookFirst: while an attempt waited for a connection another key was found blocked.
var errLookFirst = errors.New("to be looked at first")

// update sends (3) once.
func (a *Attempt) update(ctx context.Context, bound time.Duration, looked bool) (affected int64, err error) {
	run, err := a.session.Run(ctx)
	if err != nil {
		return 0, err
	}
	err = a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) error {
		if err := a.f.sameServer(a.session, c, a.r.Key); err != nil {
			return err
		}
		if on, _ := a.f.lookFirst.required(); on && !looked {
			return errLookFirst
		}
		a.sent = true
		res, err := c.ExecOne(ctx, bound, a.f.write(a.r, a.session.ID, run, a.t0, a.inQueue))
		if errors.Is(err, conn.ErrBlocked) {
			a.sent = false
			a.f.lookFirst.blocked() // before the connection is another's
			return err
		}
		if err == nil {
			affected, err = res.RowsAffected()
		}
		if err == nil && affected == 1 {
			a.token, err = res.LastInsertId()
		}
		if row.IsCorrupt(err) {
			err = a.f.lease.CorruptError("acquire", a.r.Key, err.Error(), true)
		}
		err = conn.Classify(a.f.lease.What("acquire"), err)
		if driver.IsNotApplied(err) || err == nil && affected == 0 {
			a.sent = false
		}
		return err
	})
	return affected, err
}

// whyUnwritten finds out, on the session, why (3) changed nothing: MinHold keeps the key,
// or a hold of another run does, it is in a phase, or the token is another by now. done: (3) is, in the phase.
func (a *Attempt) whyUnwritten(ctx context.Context) (result driver.Result, done bool, err error) {
	p, ok, err := a.f.readRow(ctx, a.session, a.r.Key)
	switch {
	case err != nil:
		return result, false, err
	case !ok:
		a.t0 = 0
		return result, false, a.make(ctx, a.f.CreateLease(a.r.Key))
	case p.phase:
		a.f.phases.saw(a.r.Key, true)
		result, met, err := a.throughPhase(ctx)
		if a.t0 = p.token; err != nil || met || result.Err != nil {
			return result, met && result.Status == driver.Unknown && result.Err == nil, err
		}
		return driver.Result{}, false, nil
	case p.kept > 0:
		a.wanted = p.wanted
		return driver.Result{Status: driver.Held, Left: p.kept, Owner: p.owner}, false, nil
	}
	switch held, err := elsewhere(ctx, a.session, p.run, p.left); {
	case err != nil:
		return result, false, err
	case held:
		a.wanted = p.wanted
		return driver.Result{Status: driver.Held, Left: p.left, Owner: p.owner}, false, nil
	}
	a.t0 = p.token
	return result, false, nil
}

// Confirm is (4).
func (a *Attempt) Confirm(ctx context.Context) (mine bool, err error) {
	found, err := conn.Query(ctx, a.session, 0, a.f.confirm(a.r.Key), func(rows *sql.Rows) (mine bool, err error) {
		var hold, entry sql.RawBytes
		var wanted conn.Int
		err = rows.Scan(&hold, &wanted, &entry)
		a.wanted = row.HintOf(wanted.N, a.token/driver.TokenRange) // (3) made the token of its time
		return string(hold) == string(a.r.ID[:]), err
	})
	return len(found) == 1 && found[0], err
}

func scanHold(rows *sql.Rows) (id driver.HoldID, err error) {
	var b sql.RawBytes
	err = rows.Scan(&b)
	copy(id[:], b)
	return id, err
}
