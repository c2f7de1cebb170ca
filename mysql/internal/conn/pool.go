package conn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a set of connections for one kind of work, so that work of another kind never
// waits for it. Connections are opened when they are needed, and the one that was put
// back last is used first.
type Pool struct {
	PoolOptions
	db    *DB
	slots chan struct{} // one for each connection in use; nil: any number may be

	turn chan struct{} // see openInTurn

	mu       sync.Mutex
	waiting  []*waiter  // for what is being opened; the first one is served first
	idle     []*Conn    // the one that has been idle for longest first
	left     []*opening // whose callers have gone
	open     int        // connections, with those in use and those that are being opened
	closed   bool
	since    time.Time   // connections that were opened before may lead to another server
	warmFrom time.Time   // Warm does nothing before
	expiry   *time.Timer // closes what has been idle for too long; nil: not armed

	opening atomic.Int32 // those that wait for database/sql, or for a new connection
}

// PoolOptions say how the connections of a pool are made, how many there are, and how
// long they are kept.
type PoolOptions struct {
	Kind    Kind          // what a connection is brought to first
	Prepare PrepareFunc   // and then; nil: nothing more
	Silence time.Duration // after which the server ends a connection, in whole seconds; 0: that of GetFor
	Holds   bool          // a connection holds something while it is used, a lock or a transaction: it is not closed because it is silent
	Later   bool          // with Holds: not before Conn.Locks says so
	Patient bool          // one out of a program's pool is waited for until the context ends, not for OpenWait

	Max    int                  // connections in use at the same time; those who need one more wait; 0: any number
	Lender *Pool                // lends one that is free when all are in use; nil: none does
	Urgent bool                 // where none can be opened, one that rests in another pool is used: see pool_urgent.go
	From   *Pool                // one that rests there is taken over before one is opened; nil: none is
	Room   func(open int) error // why no connection may be opened beside so many; nil: nothing forbids it

	IdleMost func() int    // how many are kept idle; nil: all
	IdleFor  time.Duration // how long one is kept idle; 0: for ever
	Borrows  bool          // where the program's pool is bounded the program needs them too: see borrowed
}

// PrepareFunc brings a new connection to what its pool needs. silence is that of GetFor.
type PrepareFunc func(ctx context.Context, c *Conn, silence time.Duration) error

// ends is after how much silence the server ends a connection that was asked for with silence.
func (p *Pool) ends(silence time.Duration) time.Duration {
	if p.Silence > 0 || silence == 0 {
		return p.Silence
	}
	return WholeSeconds(silence)
}

// NewPool makes a pool, which the DB closes.
func (d *DB) NewPool(o PoolOptions) *Pool {
	p := &Pool{PoolOptions: o, db: d, turn: make(chan struct{}, 1)}
	if o.Max > 0 {
		p.slots = make(chan struct{}, o.Max)
	}
	d.mu.Lock()
	d.pools = append(d.pools[:len(d.pools):len(d.pools)], p)
	d.mu.Unlock()
	return p
}

// Get gives a connection that is alive, as far as one can know without asking. Its user
// puts it back.
func (p *Pool) Get(ctx context.Context) (*Conn, error) { return p.GetFor(ctx, 0) }

// GetFor is get for a connection that the server ends when it is silent for that long
// (wait_timeout), in whole seconds; 0: for as long as the server likes.
func (p *Pool) GetFor(ctx context.Context, silence time.Duration) (*Conn, error) {
	if err := ctx.Err(); err != nil { // select might not see it
		return nil, NotSent("wait for a connection", err)
	}
	from, err := p.slot(ctx)
	if err != nil {
		return nil, err
	}
	c, err := from.take(ctx, silence)
	if err != nil || c.pool != from {
		from.leave()
	}
	if p.Urgent && cannotOpen(err) {
		if c := p.db.nextAtRest(ctx, silence); c != nil {
			return c, nil
		}
	}
	return c, err
}

// slot waits for the right to use a connection, and names the pool that gave it. Behind
// one that waits for a program's pool which is used up nobody waits longer than that
// does: see OpenWait.
func (p *Pool) slot(ctx context.Context) (from *Pool, err error) {
	if p.slots == nil {
		return p, nil
	}
	select {
	case p.slots <- struct{}{}:
		return p, nil
	default:
	}
	var late <-chan time.Time
	if busy := p.db.usedUp(); busy != nil && p.opening.Load() > 0 {
		t := time.NewTimer(OpenWait)
		defer t.Stop()
		late = t.C
	}
	var lent chan struct{}
	if p.Lender != nil {
		lent = p.Lender.slots
	}
	select {
	case p.slots <- struct{}{}:
		return p, nil
	case lent <- struct{}{}:
		return p.Lender, nil
	case <-ctx.Done():
		return nil, NotSent("wait for a connection", p.db.overdue(ctx))
	case <-late:
		return nil, NotSent("wait for a connection", cmp.Or(p.db.usedUp(), ErrPoolBusy))
	}
}

// leave gives the right to use a connection back.
func (p *Pool) leave() {
	if p.slots != nil {
		<-p.slots
	}
	p.db.rests.tell()
}

// take takes an idle connection that lives, or opens one. Where it holds what others may
// wait for, the control connection is opened beside it, not before it: the first statement
// is sent when both are there. One that takes the control connection over has none beside it.
func (p *Pool) take(ctx context.Context, silence time.Duration) (*Conn, error) {
	if !p.Holds || p.From == p.db.Control {
		return p.find(ctx, silence)
	}
	warm := p.db.Control.startWarm()
	c, err := p.find(ctx, silence)
	waitWarm(ctx, warm, KillWait)
	return c, err
}

// find is take without the control connection.
func (p *Pool) find(ctx context.Context, silence time.Duration) (*Conn, error) {
	for {
		c, o, err := p.pop()
		if err != nil {
			return nil, err
		}
		if c == nil {
			another := o != nil
			if !another {
				if c = p.takeOver(ctx, silence); c != nil {
					return c, nil
				}
				o = p.start(silence)
			}
			if c, err = p.await(ctx, o, silence); err != nil && another && ctx.Err() == nil && !errors.Is(err, ErrNoGreeting) {
				continue // what another has begun says nothing of now
			}
			if err != nil {
				return nil, err
			}
		} else if !p.fresh(c) || !c.Alive(ctx) {
			p.drop(c)
			continue
		}
		if err = c.EndAfter(ctx, silence); err == nil {
			return c, nil
		}
		p.drop(c)
		if c.uses == 0 || ctx.Err() != nil {
			return nil, NotSent("prepare a connection", err)
		}
	}
}

// pop takes an idle connection, or one that is being opened and whose caller has gone;
// neither is the right to open one, which is counted.
func (p *Pool) pop() (c *Conn, o *opening, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed()
	}
	if c = p.popIdle(); c != nil {
		return c, nil, nil
	}
	if len(p.left) > 0 {
		o, p.left = p.left[0], p.left[1:]
		return nil, o, nil
	}
	if p.Room != nil {
		err = p.Room(p.open)
	}
	if err == nil {
		p.open++
	}
	return nil, nil, err
}

// drop closes a connection, and with it what it holds as soon as the server hears of it.
func (p *Pool) drop(c *Conn) {
	c.close()
	p.mu.Lock()
	p.open--
	p.mu.Unlock()
}

// renew closes what is idle now, and what is in use when it is put back: the address
// leads to another server since.
func (p *Pool) renew() {
	p.mu.Lock()
	p.since = time.Now()
	p.warmFrom = time.Time{} // the next one is opened before what it may have to KILL
	p.mu.Unlock()
	p.CloseIdle()
}

// Close closes what is idle now and what is put back later.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	if p.expiry != nil {
		p.expiry.Stop()
	}
	p.mu.Unlock()
	p.CloseIdle()
}

// Idle are the connections that are idle now.
func (p *Pool) Idle() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.idle)
}

// Open is how many connections there are, with those in use.
func (p *Pool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// CloseIdle closes what is idle now.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.open -= len(idle)
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}
