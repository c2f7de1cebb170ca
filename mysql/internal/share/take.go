package share

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Passage is one exclusive request for a key in a phase.
type Passage struct {
	*Table
	c       *conn.Conn
	r       *driver.Request
	takes   conn.Statement
	holders holders // as it was seen last
	gated   bool    // the request's gate stands, or may; see gate.go
}

// Passage begins the way of an exclusive request through a phase with a gate. takes gives it the key
// on the terms of Takeable; it changes one row then, or none, and LAST_INSERT_ID is the token.
func (l *Table) Passage(r *driver.Request, takes conn.Statement) *Passage {
	return &Passage{Table: l, r: r, takes: takes}
}

// InPhase reports whether the key was in a phase when it was looked at.
func (p *Passage) InPhase() bool { return p.holders.inPhase }

// Answer is what a step came to.
func (p *Passage) Answer(res driver.Result, err error) driver.Result {
	switch {
	case errors.Is(err, conn.ErrBlocked) && !conn.Unsure(err):
		return driver.Result{Status: driver.Pinned, Gated: p.gated}
	case row.IsCorrupt(err):
		return driver.Result{Err: p.shareCorrupt("acquire", p.r.Key, err.Error(), true)}
	case err != nil && !p.gated: // nothing was written before
		return driver.Result{Err: conn.Classify(p.What("acquire"), err)}
	case err != nil:
		return driver.Result{Err: conn.MaybeApplied(p.What("acquire"), err)}
	}
	return res
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
	unlocked, err := p.Unlocked(ctx, p.c, []row.Row{p.holders.row})
	return !unlocked[p.r.Key], err
}

// exec sends a statement that waits for no guard, again where another client was just
// writing the key's row, or nothing but a slow server kept it waiting.
func (p *Passage) exec(ctx context.Context, s conn.Statement) (rows int64, err error) {
	for n := range conn.Bounds {
		bound := p.DB.Bound(n)
		res, sent := p.c.ExecOne(ctx, bound, s)
		if err = sent; err == nil {
			return res.RowsAffected()
		}
		if !errors.Is(err, conn.ErrBlocked) || row.Waited(err) {
			return 0, err
		}
		writable, failed := p.Writable(ctx, p.c, 1, func(int) string { return p.r.Key })
		if failed != nil {
			return 0, failed
		}
		if writable[p.r.Key] {
			p.DB.NoteAnswer(bound)
		} else if n > 0 || !conn.Pause(ctx, row.BusyPause) {
			return 0, err
		}
	}
	return 0, err
}

// take sends take, again where nothing but a slow server kept it waiting. ok: the key was
// granted.
func (p *Passage) take(ctx context.Context) (r driver.Result, ok bool, err error) {
	for n := 0; ; n++ {
		bound := p.DB.Bound(n)
		res, err := p.c.ExecOne(ctx, bound, p.takes)
		if errors.Is(err, conn.ErrBlocked) && n+1 < len(conn.Bounds) && !row.Waited(err) {
			if err := p.look(ctx); err != nil {
				return r, false, err
			}
			if !p.holders.inPhase {
				return p.refused(), false, nil
			}
			if pinned, err := p.pinned(ctx); err != nil || pinned {
				return driver.Result{Status: driver.Pinned, Gated: true}, true, err
			}
			p.DB.NoteAnswer(bound)
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
	if p.Fenced {
		fences, err := p.c.QueryOne(ctx, row.Fence(p.Name, p.r.Key, &p.r.ID))
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

// noneLeft adds that no hold of a phase is left that was not ended, or is kept by MinHold. It names the key by the row that is written,
// not by its value: so the server looks when it has that row locked, at any isolation level, and sees whoever joined before.
func noneLeft(l *Table) conn.Statement {
	return func(t *conn.Text) {
		t.Add(" AND NOT EXISTS (SELECT 1 FROM ", l.Share, " AS s FORCE INDEX (PRIMARY) WHERE s.name=", l.Name, ".name"+
			" AND (s.released_at IS NULL OR s.expires_at>"+row.Now+"))")
	}
}
