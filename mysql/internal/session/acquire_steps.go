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
func (a *acquisition) steps(ctx context.Context) (driver.Result, error) {
	for _, step := range []func(context.Context) (driver.Result, error){a.lock, a.write} {
		if result, err := step(ctx); err != nil || result.Status != driver.Unknown {
			return result, err
		}
	}
	switch mine, err := a.confirm(ctx); {
	case err != nil:
		return driver.Result{}, err
	case !mine:
		a.sent = false
		return driver.Result{}, &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: released by force in the same moment", a.r.Key)}
	}
	return driver.Result{Status: driver.Granted, Token: a.token, Stored: a.token, Wanted: a.wanted}, nil
}

// lock is (1) and (2), unless they were done in the server's queue. A refusal that met a probe is tried some times more; so is
// one by a session that the lease row does not name yet, or not any more. Status
// Unknown without an error means that the session has the lock.
func (a *acquisition) lock(ctx context.Context) (driver.Result, error) {
	if a.locked {
		return driver.Result{}, nil
	}
	refused, made := 0, 0
	for {
		found, err := conn.Query(ctx, a.session, 0, a.f.lockRow(a.r.Key), conn.ScanOne[conn.Int])
		switch {
		case conn.Number(err) == conn.ErNoWait, errors.Is(err, conn.ErrBlocked):
			refused++
			p, err := a.refusal(ctx)
			if err != nil {
				return driver.Result{}, err
			}
			a.wanted = p.wanted
			if p.left > 0 || refused == len(refusedPauses) {
				return driver.Result{Status: driver.Held, Left: p.left, Owner: p.owner}, nil
			}
			if !conn.Pause(ctx, refusedPauses[refused]) {
				return driver.Result{}, ctx.Err()
			}
		case err != nil:
			return driver.Result{}, err
		case a.readToken(found):
			return driver.Result{}, nil
		default:
			if made++; made == 5 {
				return driver.Result{}, fmt.Errorf("the rows of %q vanish as soon as they are made", a.r.Key)
			}
			missing := []string{a.f.createLease(a.r.Key)}
			if len(found) == 0 {
				missing = append(missing, a.f.createRow(a.r.Key))
			}
			if err := a.make(ctx, missing...); err != nil {
				return driver.Result{}, err
			}
		}
	}
}

// readToken takes the token out of the answer to (1) and (2); false: a row is missing.
func (a *acquisition) readToken(found []conn.Int) bool {
	if len(found) != 1 || found[0].Null {
		return false
	}
	a.t0 = found[0].N // the nearest, which leaves no room for the next
	return true
}

// refusedPauses come before the tries after a refusal, by their number.
var refusedPauses = [...]time.Duration{1: time.Millisecond, 2: 4 * time.Millisecond, 3: 8 * time.Millisecond, 4: 16 * time.Millisecond, 5: 0}

// rowState is what the lease row says.
type rowState struct {
	token      int64
	left, kept time.Duration // of the hold; of MinHold
	owner      string
	wanted     driver.Hint
	taken      bool // another session has the row's lock
}

// readRow reads the lease row.
func (f *ForUpdate) readRow(ctx context.Context, c *conn.Conn, key string) (p rowState, ok bool, err error) {
	found, err := conn.Query(ctx, c, 0, f.whose(key), func(rows *sql.Rows) (p rowState, err error) {
		var token, left, kept, wanted, now conn.Int
		err = rows.Scan(&token, &left, &kept, &p.owner, &wanted, &now, &p.taken)
		p.token, p.left, p.kept, p.wanted = token.N, conn.Micros(left.N), conn.Micros(kept.N), row.HintOf(wanted.N, now.N)
		return p, err
	})
	if err != nil || len(found) == 0 {
		return p, false, err
	}
	return found[0], true, nil
}

// refusal finds out, after the row was locked, who has the key, and in left for how
// long; 0: nobody, or one whose lease row is not written yet. It asks on another
// connection, because the session would keep the lock by which it asks.
func (a *acquisition) refusal(ctx context.Context) (p rowState, err error) {
	err = a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) (err error) {
		p, _, err = a.f.readRow(ctx, c, a.r.Key)
		return conn.NotSent(a.f.lease.What("acquire"), err)
	})
	if !p.taken {
		p.left = 0 // of a hold that was released, which leaves the lease row as it is
	}
	p.left = max(p.left, p.kept, 0)
	return p, err
}

// make creates rows. One that is there by now and locked is as good.
func (a *acquisition) make(ctx context.Context, statements ...string) error {
	return a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) error {
		if err := a.sameServer(c); err != nil {
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
func (a *acquisition) sameServer(c *conn.Conn) error {
	if c.Server == a.session.Server {
		return nil
	}
	c.Broken, a.session.Broken = true, true
	a.f.db.Moved()
	return &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: one connection leads to server %s, another to %s: the address must name one writable server", a.r.Key, a.session.Server, c.Server)}
}

// write is (3): Status Unknown without an error means that it is done.
func (a *acquisition) write(ctx context.Context) (driver.Result, error) {
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
		result, err := a.whyUnwritten(ctx)
		if err != nil || result.Status != driver.Unknown {
			return result, err
		}
	}
	if changed > 0 {
		return driver.Result{}, &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: the lease row in table %s keeps changing, or has a kept_until that is no time: then it was changed by hand: delete the row", a.r.Key, a.f.lease.Name)}
	}
	return driver.Result{Status: driver.Pinned}, nil
}

// errLookFirst: while an attempt waited for a connection another key was found blocked.
var errLookFirst = errors.New("to be looked at first")

// update sends (3) once.
func (a *acquisition) update(ctx context.Context, bound time.Duration, looked bool) (affected int64, err error) {
	err = a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) error {
		if err := a.sameServer(c); err != nil {
			return err
		}
		if on, _ := a.f.lookFirst.required(); on && !looked {
			return errLookFirst
		}
		a.sent = true
		res, err := c.ExecOne(ctx, bound, a.f.write(a.r, a.session.ID, a.t0, a.inQueue))
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
// or the token is another by now.
func (a *acquisition) whyUnwritten(ctx context.Context) (driver.Result, error) {
	p, ok, err := a.f.readRow(ctx, a.session, a.r.Key)
	switch {
	case err != nil:
		return driver.Result{}, err
	case !ok:
		a.t0 = 0
		return driver.Result{}, a.make(ctx, a.f.createLease(a.r.Key))
	case p.kept > 0:
		a.wanted = p.wanted
		return driver.Result{Status: driver.Held, Left: p.kept, Owner: p.owner}, nil
	}
	a.t0 = p.token
	return driver.Result{}, nil
}

// confirm is (4).
func (a *acquisition) confirm(ctx context.Context) (mine bool, err error) {
	found, err := conn.Query(ctx, a.session, 0, a.f.confirm(a.r.Key), func(rows *sql.Rows) (mine bool, err error) {
		var hold sql.RawBytes
		var wanted, now conn.Int
		err = rows.Scan(&hold, &wanted, &now)
		a.wanted = row.HintOf(wanted.N, now.N)
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
