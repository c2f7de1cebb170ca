package row

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// phasePatience is how long the keys of a call that are in a phase may keep the others
// waiting for their answers: each costs statements of its own.
const phasePatience = 50 * time.Millisecond

// takeAll goes on with the exclusive requests that met a phase.
func (a *attempt) takeAll(ctx context.Context, c *conn.Conn) {
	start := time.Now()
	l := a.Table
	for i := range a.reqs {
		r := &a.reqs[i]
		if r.Mode != driver.Exclusive || a.results[i].Status != driver.Held || !a.results[i].Shared {
			continue
		}
		if len(a.reqs) > 1 && !r.Apart && time.Since(start) > phasePatience {
			a.results[i] = driver.Result{Status: driver.Pinned, Apart: true}
			continue
		}
		a.results[i] = l.Passage(r, take(l, r)).All(ctx, c)
	}
}

// Passage is one exclusive request for a key in a phase.
type Passage struct {
	*Table
	c       *conn.Conn
	r       *driver.Request
	takes   conn.Statement
	holders holders // as it was seen last
	gated   bool    // the request's gate stands, or may
}

// Passage begins the way of an exclusive request through a phase. takes gives it the key if
// its gate stands and no hold is left that was not ended; it changes one row then, or none, and
// LAST_INSERT_ID is the token.
func (l *Table) Passage(r *driver.Request, takes conn.Statement) *Passage {
	return &Passage{Table: l, r: r, takes: takes}
}

// Waits reports whether the gate stays when the request is refused.
func (p *Passage) Waits() bool { return p.r.Wants || p.r.Gate != driver.HoldID{} }

// Gated reports whether the request's gate stands, or may.
func (p *Passage) Gated() bool { return p.gated }

// InPhase reports whether the key was in a phase when it was looked at.
func (p *Passage) InPhase() bool { return p.holders.inPhase }

// All makes all steps on one connection.
func (p *Passage) All(ctx context.Context, c *conn.Conn) driver.Result {
	res, err := p.Enter(ctx, c)
	if err == nil && res.Status == driver.Unknown {
		res, err = p.Take(ctx, c)
	}
	res = p.Answer(res, err)
	if p.gated && !p.Waits() && res.Status != driver.Granted {
		_ = p.Clear(ctx, c) // one that cannot be cleared ends by itself; the undo clears it too
		res.Gated = false
	}
	return res
}

// Clear clears the request's gate.
func (p *Passage) Clear(ctx context.Context, c *conn.Conn) error {
	_, err := c.ExecOne(ctx, p.db.Bound(0), Ungate(p.Table, p.r.Key, &p.r.ID))
	return err
}

// Answer is what a step came to.
func (p *Passage) Answer(res driver.Result, err error) driver.Result {
	switch {
	case errors.Is(err, conn.ErrBlocked):
		return driver.Result{Status: driver.Pinned, Gated: p.gated}
	case IsCorrupt(err):
		return driver.Result{Err: p.shareCorrupt("acquire", p.r.Key, err.Error(), true)}
	case err != nil && !p.gated: // nothing was written before
		return driver.Result{Err: conn.Classify(p.What("acquire"), err)}
	case err != nil:
		return driver.Result{Err: conn.MaybeApplied(p.What("acquire"), err)}
	}
	return res
}

// Enter leaves the gate. A request that does not wait looks first, and leaves none where
// somebody has the key. Unknown without an error means: go on, by Take.
func (p *Passage) Enter(ctx context.Context, c *conn.Conn) (driver.Result, error) {
	p.c = c
	if !p.Waits() {
		if err := p.look(ctx); err != nil || p.holders.live() > 0 || !p.holders.inPhase {
			return p.refused(), err
		}
	}
	rows, err := p.exec(ctx, gate(p.Table, p.r))
	if err != nil {
		return driver.Result{}, err
	}
	if rows == 0 { // another's stands
		if p.Waits() {
			err = p.look(ctx)
		}
		return p.refused(), err
	}
	p.gated = true
	if p.r.Pinned || p.db.CannotKill.Load() {
		if err := p.look(ctx); err != nil || p.holders.live() > 0 {
			return p.refused(), err
		}
		if pinned, err := p.pinned(ctx); err != nil || pinned {
			return driver.Result{Status: driver.Pinned, Gated: true}, err
		}
	}
	return driver.Result{}, nil
}

// Take takes the key, and ends the holds that have expired.
func (p *Passage) Take(ctx context.Context, c *conn.Conn) (driver.Result, error) {
	p.c = c
	if p.holders.expired == 0 {
		if res, ok, err := p.take(ctx); ok || err != nil {
			return res, err
		}
		if err := p.look(ctx); err != nil || p.holders.live() > 0 {
			return p.refused(), err
		}
	}
	if p.holders.expired > 0 {
		if _, err := p.exec(ctx, bury(p.Table, p.r.Key)); err != nil {
			return driver.Result{}, err
		}
	}
	if res, ok, err := p.take(ctx); ok || err != nil {
		return res, err
	}
	err := p.look(ctx) // somebody was renewed meanwhile, or the gate is another's
	return p.refused(), err
}

// refused is the answer to a request that does not have the key.
func (p *Passage) refused() driver.Result {
	return driver.Result{Status: driver.Held, Shared: p.holders.inPhase, Gated: p.gated && p.holders.inPhase, Left: p.holders.left, Owner: p.holders.owner}
}

// look sees who has the key.
func (p *Passage) look(ctx context.Context) error {
	found, err := p.holdersOf(ctx, p.c, 1, func(int) string { return p.r.Key })
	p.holders = found[p.r.Key]
	return err
}

// pinned reports whether a guard keeps the take waiting: one under a hold of the phase.
func (p *Passage) pinned(ctx context.Context) (bool, error) {
	unlocked, err := p.Unlocked(ctx, p.c, []Row{p.holders.row})
	return !unlocked[p.r.Key], err
}

// exec sends a statement that waits for no guard, again where another client was just
// writing the key's row, or nothing but a slow server kept it waiting.
func (p *Passage) exec(ctx context.Context, s conn.Statement) (rows int64, err error) {
	for n := range conn.Bounds {
		bound := p.db.Bound(n)
		res, sent := p.c.ExecOne(ctx, bound, s)
		if err = sent; err == nil {
			return res.RowsAffected()
		}
		if !errors.Is(err, conn.ErrBlocked) || Waited(err) {
			return 0, err
		}
		writable, failed := p.Writable(ctx, p.c, 1, func(int) string { return p.r.Key })
		if failed != nil {
			return 0, failed
		}
		if writable[p.r.Key] {
			p.db.NoteAnswer(bound)
		} else if n > 0 || !conn.Pause(ctx, BusyPause) {
			return 0, err
		}
	}
	return 0, err
}

// take sends take, again where nothing but a slow server kept it waiting. ok: the key was
// granted.
func (p *Passage) take(ctx context.Context) (r driver.Result, ok bool, err error) {
	for n := 0; ; n++ {
		bound := p.db.Bound(n)
		res, err := p.c.ExecOne(ctx, bound, p.takes)
		if errors.Is(err, conn.ErrBlocked) && n+1 < len(conn.Bounds) && !Waited(err) {
			if err := p.look(ctx); err != nil {
				return r, false, err
			}
			if !p.holders.inPhase {
				return p.refused(), false, nil
			}
			if pinned, err := p.pinned(ctx); err != nil || pinned {
				return driver.Result{Status: driver.Pinned, Gated: true}, true, err
			}
			p.db.NoteAnswer(bound)
			continue
		}
		if err != nil {
			return r, false, err
		}
		rows, err := res.RowsAffected()
		if err != nil || rows == 0 {
			return r, false, err
		}
		id, err := res.LastInsertId()
		if err != nil {
			return r, false, err
		}
		r, err = p.granted(ctx, id)
		return r, err == nil, err
	}
}

// granted is the answer to a request that has the key, with that token in its row.
func (p *Passage) granted(ctx context.Context, stored int64) (driver.Result, error) {
	if stored < 0 || stored > driver.MaxToken {
		return driver.Result{Err: p.shareCorrupt("acquire", p.r.Key, "the token is out of range", false)}, nil
	}
	r := driver.Result{Status: driver.Granted, Token: stored, Stored: stored}
	if p.fenced {
		fences, err := p.c.QueryOne(ctx, Fence(p.Name, p.r.Key, &p.r.ID))
		if err != nil {
			return r, conn.MaybeApplied(p.What("acquire"), err)
		}
		if len(fences) == 0 {
			return driver.Result{Status: driver.Held}, nil // it is over already
		}
		r.Token = fences[0]
	}
	return r, nil
}
