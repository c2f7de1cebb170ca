package conn

import (
	"context"
	sqldriver "database/sql/driver"
	"time"
)

// lanes are the pools of a Store's single statements.
//
// Acquires may wait for other transactions, so they have connections of their
// own. Releases and undos never do for long (see batch.change), but there may be any
// number of them; a renewal that waits behind them is a lease that is lost, so
// renewals have one of their own, and use those of releases that are free.
//
// With few connections (Options.FewConnections) there are one or two lanes, of one connection each:
//
//   - Acquires and Control are one: all that a program does which waits.
//   - Renewals and Releases are the other, which is opened for the first renewal. A key's renewal and its release
//     exclude each other, so neither waits for the other for long; when one is silent the lane of the acquires,
//     which has nothing to do while a lease is held, lends its connection.
//   - A statement of one lane is ended by KILL from the other. While a program waits the other is not open, and is not
//     opened for that, because it would be too young for it: a statement that waits for another transaction ends by its lock
//     wait then, after a second.
//   - SelectForUpdate has one lane: what holds a key there is a session, on which its heartbeats and its release go.
type lanes struct {
	Acquires *Pool
	Releases *Pool
	Renewals *Pool
	Control  *Pool // ends statements that wait for too long, and reads for Inspect

	singles []*Pool // all of them, in the order in which one that rests is used for an urgent step
	Few     bool
}

func (d *DB) makeLanes(o DBOptions) {
	d.Few = o.Few
	if d.Few {
		d.Acquires = d.NewPool(PoolOptions{Max: o.Acquires})
		d.Control, d.Releases = d.Acquires, d.Acquires
		if o.Releases > 0 {
			d.Releases = d.NewPool(PoolOptions{Max: o.Releases, Lender: d.Acquires, Urgent: true})
		}
		d.Renewals = d.Releases
		d.singles = []*Pool{d.Releases, d.Acquires}
		return
	}
	d.Control = d.NewPool(PoolOptions{Max: ControlConnections, Urgent: true})
	d.Releases = d.NewPool(PoolOptions{Max: o.Releases, Urgent: true})
	d.Renewals = d.NewPool(PoolOptions{Max: RenewConnections, Lender: d.Releases, Urgent: true})
	d.Acquires = d.NewPool(PoolOptions{Max: o.Acquires})
	d.singles = []*Pool{d.Releases, d.Acquires, d.Renewals, d.Control}
}

// A server that is busy with many programs would be busier still if each opened another connection beside one that is late,
// or asked about each statement that takes long. So with few connections that is begun later.

// Patient has a connector begin another connect beside one that is late as late as it may.
func Patient(c sqldriver.Connector) {
	if n, ok := c.(netConnector); ok {
		n.late.least = AskWait
	}
}

// patience is how long a statement with this context is waited for before it is asked about.
func (d *DB) patience(ctx context.Context, now time.Time) time.Duration {
	first := firstPatience(ctx, now)
	if !d.Few {
		return first
	}
	if by, ok := ctx.Deadline(); ok {
		return max(first, min(by.Sub(now)/3, AskWait))
	}
	return AskWait
}

// ForTransactions is the pool whose connection a transaction takes over; nil: it has one of its own.
func (d *DB) ForTransactions() *Pool {
	if d.Few {
		return d.Acquires
	}
	return nil
}

// controlOf is the pool from which statements of p are ended; nil: there is none beside it.
func (d *DB) controlOf(p *Pool) *Pool {
	switch {
	case !d.Few || p != d.Control && p.From != d.Control:
		return d.Control
	case d.Releases != d.Control && d.Releases.isOpen():
		return d.Releases
	}
	return nil
}

// isOpen reports whether the pool has a connection.
func (p *Pool) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > 0
}

// takeOver brings a connection that rests in the pool From to what this one needs. It is counted by pop already. nil: none can be had.
func (p *Pool) takeOver(ctx context.Context, silence time.Duration) *Conn {
	from := p.From
	if from == nil {
		return nil
	}
	select {
	case from.slots <- struct{}{}:
		defer from.leave()
	default:
		return nil
	}
	c := from.give(ctx)
	if c == nil {
		return nil
	}
	c.pool = p
	err := p.db.prepare(ctx, c, p.ends(silence))
	if err == nil && p.Prepare != nil {
		err = p.Prepare(ctx, c, silence)
	}
	if err != nil {
		c.close()
		return nil
	}
	return c
}

// give takes a connection that rests out of the pool for good; nil: there is none that lives.
func (p *Pool) give(ctx context.Context) *Conn {
	c := p.wake(ctx)
	if c != nil {
		p.mu.Lock()
		p.open--
		p.mu.Unlock()
	}
	return c
}

// StepFunc runs a step on the connections of its kind: see DB.Step.
type StepFunc func(ctx context.Context, f func(*Conn) error) error

// RenewStep runs a step of renewals, which may arrive twice.
func (d *DB) RenewStep(ctx context.Context, f func(*Conn) error) error {
	return d.StepAgain(ctx, d.Renewals, f)
}

// ReleaseStep runs a step of releases.
func (d *DB) ReleaseStep(ctx context.Context, f func(*Conn) error) error {
	return d.Step(ctx, d.Releases, f)
}
