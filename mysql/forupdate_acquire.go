package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
)

// seizure is one attempt to take one key.
type seizure struct {
	f       *forUpdate
	r       driver.Request
	n       *session
	started time.Duration // before anything was sent
	t0      int64         // the token of the lease row before the grant
	token   int64         // the one that (3) wrote

	sent bool // (3) was sent, and is not known to have changed nothing
}

func (f *forUpdate) acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	results := make([]driver.Result, len(reqs))
	if len(reqs) == 1 {
		results[0] = f.seize(ctx, reqs[0])
		return results, nil
	}
	var wg sync.WaitGroup
	for i, r := range reqs {
		wg.Go(func() { results[i] = f.seize(ctx, r) })
	}
	wg.Wait()
	return results, nil
}

// seize takes one key. A session at rest that turns out to be dead is not the
// attempt's fault: it goes on with another.
func (f *forUpdate) seize(ctx context.Context, r driver.Request) driver.Result {
	if h := f.get(r.Key, r.ID); h != nil {
		return f.again(ctx, h)
	}
	a := &seizure{f: f, r: r, started: clock.Now()}
	for try := 1; ; try++ {
		n, done, err := f.sessions.get(ctx, r.TTL)
		if err != nil {
			return driver.Result{Err: err}
		}
		a.n = n
		result, err := a.run(ctx)
		done()
		if err == nil && result.Status == driver.Granted {
			return result
		}
		lost := n.c.broken
		f.sessions.put(n)
		switch {
		case err == nil:
			return result
		case lost && !a.sent && try < 3 && ctx.Err() == nil && f.life.Err() == nil:
			continue
		}
		return driver.Result{Err: a.fail(lost, err)}
	}
}

// again answers an acquire that finds its own hold: with the stored token, if the
// session still lives.
func (f *forUpdate) again(ctx context.Context, h *hold) driver.Result {
	stale, err := f.startBeat(h, h.ttl, 0).wait(ctx.Done())
	switch {
	case err != nil:
		return driver.Result{Err: maybeApplied(f.lease.what("acquire"), err)}
	case stale:
		return driver.Result{Err: maybeApplied(f.lease.what("acquire"), fmt.Errorf("the hold of %q has ended", h.key))}
	}
	return driver.Result{Status: driver.Granted, Token: h.token, Stored: h.token}
}

// run makes the steps. Unless it was granted, or the session is broken, the
// session has no lock afterwards.
func (a *seizure) run(ctx context.Context) (driver.Result, error) {
	result, err := a.steps(ctx)
	if err == nil && result.Status == driver.Granted {
		h := &hold{key: a.r.Key, id: a.r.ID, ttl: a.r.TTL, keeps: a.r.Keep > 0, token: a.token, session: a.n, turn: make(chan struct{}, 1)}
		h.heard, h.rowUntil = a.started, a.started+a.r.TTL
		if a.f.put(h) {
			return result, nil
		}
		a.n.c.broken = true
		return driver.Result{}, errClosed()
	}
	if a.n.c.broken {
		return result, err
	}
	if rolled := a.n.exec(ctx, "ROLLBACK"); rolled != nil {
		a.n.c.broken = true
		if err == nil {
			err = rolled // the answer stands, but the lock may too
		}
	}
	return result, err
}

func (a *seizure) steps(ctx context.Context) (driver.Result, error) {
	switch locked, err := a.lock(ctx); {
	case err != nil:
		return driver.Result{}, err
	case !locked:
		return driver.Result{Status: driver.Held}, nil
	}
	if result, err := a.write(ctx); err != nil || result.Status != driver.Unknown {
		return result, err
	}
	switch mine, err := a.confirm(ctx); {
	case err != nil:
		return driver.Result{}, err
	case !mine:
		a.sent = false
		return driver.Result{}, &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: released by force in the same moment", a.r.Key)}
	}
	return driver.Result{Status: driver.Granted, Token: a.token, Stored: a.token}, nil
}

// lock is (1) and (2). A refusal is tried once more, because it may have met a probe.
func (a *seizure) lock(ctx context.Context) (locked bool, err error) {
	refused := false
	for try := 1; ; try++ {
		found, err := ask(ctx, a.n, a.f.lockRow(a.r.Key), func(rows *sql.Rows) (t0 sql.NullInt64, err error) { return t0, rows.Scan(&t0) })
		switch {
		case number(err) == erNoWait, errors.Is(err, errBlocked):
			if refused {
				return false, nil
			}
			refused = true
			if !pause(ctx, 2*time.Millisecond) {
				return false, ctx.Err()
			}
		case err != nil:
			return false, err
		case len(found) == 1 && found[0].Valid:
			a.t0 = found[0].Int64
			return true, nil
		case try == 5:
			return false, fmt.Errorf("the rows of %q vanish as soon as they are made", a.r.Key)
		case len(found) == 1:
			if err := a.f.make(ctx, a.f.createLease(a.r.Key)); err != nil {
				return false, err
			}
		default:
			if err := a.f.make(ctx, a.f.createLease(a.r.Key), a.f.createRow(a.r.Key)); err != nil {
				return false, err
			}
		}
	}
}

// make creates rows. One that is there by now and locked is as good.
func (f *forUpdate) make(ctx context.Context, statements ...string) error {
	return f.s.step(ctx, f.s.acquires, func(c *conn) error {
		for _, statement := range statements {
			if _, err := c.exec(ctx, bounds[0], statement); err != nil && !errors.Is(err, errBlocked) {
				return classify(f.lease.what("create a row"), err)
			}
		}
		return nil
	})
}

// write is (3): Status Unknown without an error means that it is done.
func (a *seizure) write(ctx context.Context) (driver.Result, error) {
	look := a.r.Pinned || a.f.s.cannotKill.Load()
	changed := 0
	for try := 0; try < len(bounds) && changed < 5; {
		if look {
			if pinned, err := a.pinned(ctx); err != nil || pinned {
				return driver.Result{Status: driver.Pinned}, err
			}
		}
		affected, err := a.update(ctx, bounds[try])
		switch {
		case errors.Is(err, errBlocked):
			if try++; a.f.s.cannotKill.Load() {
				try = len(bounds) // it took a second
			}
			look = true
			continue
		case err != nil:
			return driver.Result{}, err
		case affected == 1:
			return driver.Result{}, nil
		}
		changed++
		result, err := a.look(ctx)
		if err != nil || result.Status != driver.Unknown {
			return result, err
		}
	}
	if changed > 0 {
		return driver.Result{}, &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: acquire %q: the lease row keeps changing", a.r.Key)}
	}
	return driver.Result{Status: driver.Pinned}, nil
}

// update sends (3) once.
func (a *seizure) update(ctx context.Context, bound time.Duration) (affected int64, err error) {
	err = a.f.s.step(ctx, a.f.s.acquires, func(c *conn) error {
		a.sent = true
		res, err := c.exec(ctx, bound, a.f.write(a.r, a.n.c.id, a.t0))
		if errors.Is(err, errBlocked) {
			a.sent = false
			return err
		}
		if err == nil {
			affected, err = res.RowsAffected()
		}
		if err == nil && affected == 1 {
			a.token, err = res.LastInsertId()
		}
		err = classify(a.f.lease.what("acquire"), err)
		if driver.IsNotApplied(err) || err == nil && affected == 0 {
			a.sent = false
		}
		return err
	})
	return affected, err
}

// pinned asks without waiting whether a transaction has locked the guard entry.
func (a *seizure) pinned(ctx context.Context) (pinned bool, err error) {
	err = a.f.s.slow(ctx, func(c *conn) error {
		unlocked, err := a.f.lease.unlocked(ctx, c, []row{{key: a.r.Key, token: a.t0}})
		pinned = !unlocked[a.r.Key]
		return notSent(a.f.lease.what("acquire"), err)
	})
	return pinned, err
}

// look finds out, on the session, why (3) changed nothing: MinHold keeps the key,
// or the token is another by now.
func (a *seizure) look(ctx context.Context) (driver.Result, error) {
	type state struct {
		token, kept int64
		owner       string
	}
	found, err := ask(ctx, a.n, a.f.present(a.r.Key), func(rows *sql.Rows) (s state, err error) { return s, rows.Scan(&s.token, &s.kept, &s.owner) })
	switch {
	case err != nil:
		return driver.Result{}, err
	case len(found) == 0:
		a.t0 = 0
		return driver.Result{}, a.f.make(ctx, a.f.createLease(a.r.Key))
	case found[0].kept > 0:
		return driver.Result{Status: driver.Held, Left: time.Duration(found[0].kept) * time.Microsecond, Owner: found[0].owner}, nil
	}
	a.t0 = found[0].token
	return driver.Result{}, nil
}

// confirm is (4).
func (a *seizure) confirm(ctx context.Context) (mine bool, err error) {
	found, err := ask(ctx, a.n, a.f.beat(a.r.Key), scanHold)
	return len(found) == 1 && found[0] == a.r.ID, err
}

func scanHold(rows *sql.Rows) (id driver.HoldID, err error) {
	var b sql.RawBytes
	err = rows.Scan(&b)
	copy(id[:], b)
	return id, err
}
