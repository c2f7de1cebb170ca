package share

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Gates are for tables without lines, where exclusive requests wait in the server's own queue: package session's.
//
// A gate names an exclusive attempt, and while it stands nobody joins the phase. A take
// demands its own attempt's gate, and that no hold is left that was not ended. So a take
// sees every join before its gate, and after it there is none; a gate that is over is
// cleared by a statement, which the take then notices, and no statement compares times to
// decide who has the key.
const (
	// mostGateTime bounds how long a gate stands. One that ends later was left by a clock
	// that has been set back since, and is over.
	mostGateTime = time.Minute

	// gateOver, of a row with a gate.
	gateOver = "COALESCE(gate_until NOT BETWEEN " + row.Now + " AND " + row.Now + "+INTERVAL 1 MINUTE,1)"

	// gateStands, of a row: there is one that is not over.
	gateStands = "COALESCE(gate IS NOT NULL AND NOT " + gateOver + ",0)"

	// gateAllowed, of a row: the time in which the phase is left alone is over.
	gateAllowed = "COALESCE(gate_after NOT BETWEEN " + row.Now + " AND " + row.Now + "+INTERVAL 1 SECOND,1)"

	// NoGate is what clears a gate, of an UPDATE.
	NoGate = ",gate=NULL,gate_until=NULL,gate_after=NULL"
)

// gated reports whether the table's phases have gates.
func (l *Table) gated() bool { return !l.Lined }

// GateAfter adds until when a phase that a request begins is left alone.
func GateAfter(r *driver.Request) conn.Statement {
	return func(t *conn.Text) {
		if r.Waited {
			t.Add(row.Now + "+INTERVAL ").Micros(driver.GateAfter).Add(" MICROSECOND")
		} else {
			t.Add("NULL")
		}
	}
}

// gate leaves the gate of an attempt in a phase, where it may: none other stands, or that
// of the attempt before it of the same client. One row: the gate is the attempt's.
func gate(l *Table, r *driver.Request) conn.Statement {
	before := r.Gate
	if before == (driver.HoldID{}) {
		before = r.ID
	}
	stands := r.GateTime
	if stands <= 0 {
		stands = driver.GateTime
	}
	return func(t *conn.Text) {
		t.Part(row.Update(l.Name)).Add("gate_until=" + row.Now + "+INTERVAL ").Micros(min(stands, mostGateTime)).Add(" MICROSECOND,gate=").Bytes(r.ID[:]).
			Add(" WHERE name=").Key(r.Key).Add(" AND " + InPhase + " AND (gate IN (").Bytes(r.ID[:]).Add(",").Bytes(before[:]).
			Add(") OR (gate IS NULL OR " + gateOver + ") AND " + gateAllowed + ")")
	}
}

// Ungate clears the gate of an attempt.
func Ungate(l *Table, key string, id *driver.HoldID) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(l.Name)).Add("gate=NULL,gate_until=NULL WHERE name=").Key(key).Add(" AND gate=").Bytes(id[:])
	}
}

// clearGate clears a gate that is over.
func clearGate(l *Table, key string) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Update(l.Name)).Add("gate=NULL,gate_until=NULL WHERE name=").Key(key).Add(" AND " + InPhase + " AND gate IS NOT NULL AND " + gateOver)
	}
}

// Takeable adds what a take demands of the key's row: a phase, the request's gate, and that no
// hold is left that was not ended, or is kept by MinHold.
func Takeable(l *Table, r *driver.Request) conn.Statement {
	return func(t *conn.Text) {
		t.Add(" AND " + InPhase + " AND gate=").Bytes(r.ID[:]).Part(noneLeft(l))
	}
}

// Waits reports whether the gate stays when the request is refused.
func (p *Passage) Waits() bool { return p.r.Wants || p.r.Gate != driver.HoldID{} }

// Gated reports whether the request's gate stands, or may.
func (p *Passage) Gated() bool { return p.gated }

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
	return p.ClearGate(ctx, c, p.r.Key, &p.r.ID)
}

// ClearGate clears the gate of an attempt. No guard keeps it waiting, so what does for longer than the first bound is most likely a
// server that is slow just now.
func (l *Table) ClearGate(ctx context.Context, c *conn.Conn, key string, id *driver.HoldID) (err error) {
	for try := range conn.Bounds {
		if _, err = c.ExecOne(ctx, l.DB.Bound(try), Ungate(l, key, id)); !errors.Is(err, conn.ErrBlocked) || row.Waited(err) {
			return err
		}
	}
	return err
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
	if p.r.Pinned || p.DB.CannotKill.Load() {
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
