package session

import (
	"cmp"
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// throughPhase is (3) of an acquire that finds the key in a phase of readers or slots. A gate
// keeps new ones out; the lease row is written where it stands and no hold is left that was
// not ended. It needs no t0: the gate is the attempt's own, and whoever gets the key after its
// session has died ends it.
//
// The gate needs no row lock, and only the attempt whose gate stands has a use for that: any
// other that had the row locked meanwhile would keep the key from it, without a chance to get
// it. So an attempt for a key that this Store saw in a phase last begins with the gate, and one
// that comes out of the server's queue in a phase gives the row back before: see steps. Beside
// readers that is all. met: the key was in a phase. Unknown without an error means that (3) is
// done.
func (a *Attempt) throughPhase(ctx context.Context) (result driver.Result, met bool, err error) {
	run, err := a.session.Run(ctx)
	if err != nil {
		return result, false, conn.NotSent(a.f.lease.What("acquire"), err)
	}
	p := a.f.lease.Passage(&a.r, a.f.takePhase(&a.r, a.session.ID, run, a.inQueue))
	before := a.gated // by a try before
	a.gated = true    // should there be no answer
	result, err = a.passage(ctx, p, p.Enter)
	met = p.Gated() || p.InPhase()
	if err == nil {
		a.f.phases.saw(a.r.Key, met)
	}
	if err == nil && met && result.Status == driver.Unknown && result.Err == nil {
		result, err = a.takeGated(ctx, p)
	}
	if err != nil || result.Err != nil {
		if refused := cmp.Or(err, result.Err); !p.Gated() && driver.IsNotApplied(refused) {
			a.gated = before
		}
		return result, met, err
	}
	if !p.Gated() {
		a.gated = before
		return result, met, nil
	}
	a.gated = false // the answer tells of it
	if !p.Waits() && result.Status != driver.Unknown {
		// What is not cleared here ends by itself.
		_ = a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) error { return p.Clear(ctx, c) })
		result.Gated = false
	}
	return result, met, nil
}

// takeGated locks the row, unless it is, and takes the key.
func (a *Attempt) takeGated(ctx context.Context, p *share.Passage) (driver.Result, error) {
	if result, err := a.Lock(ctx); err != nil || result.Status != driver.Unknown {
		result.Shared, result.Gated = true, true
		return result, err
	}
	a.sent = true
	result, err := a.passage(ctx, p, p.Take)
	failed := cmp.Or(err, result.Err)
	if a.sent = failed != nil && !driver.IsNotApplied(failed) || result.Status == driver.Granted; result.Status == driver.Granted {
		a.token = result.Stored
		return driver.Result{}, nil
	}
	return result, err
}

// passage makes a step of a passage.
func (a *Attempt) passage(ctx context.Context, p *share.Passage, step func(context.Context, *conn.Conn) (driver.Result, error)) (result driver.Result, err error) {
	err = a.f.db.Step(ctx, a.f.db.Acquires, func(c *conn.Conn) error {
		if err := a.f.sameServer(a.session, c, a.r.Key); err != nil {
			return err
		}
		result, err = step(ctx, c)
		return err
	})
	if errors.Is(err, conn.ErrBlocked) || row.IsCorrupt(err) {
		return p.Answer(result, err), nil
	}
	return result, conn.Classify(a.f.lease.What("acquire"), err)
}
