package mysqllock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// pool is a set of connections for one kind of work, so that work of another kind never
// waits for it. Connections are opened when they are needed, and the one that was put
// back last is used first.
type pool struct {
	poolOptions
	db    *db
	slots chan struct{} // one for each connection in use; nil: any number may be

	mu       sync.Mutex
	idle     []*conn // the one that has been idle for longest first
	open     int     // connections, with those in use
	closed   bool
	since    time.Time   // connections that were opened before may lead to another server
	warmFrom time.Time   // warm does nothing before
	expiry   *time.Timer // closes what has been idle for too long; nil: not armed

	opening atomic.Int32 // those that wait for database/sql, or for a new connection
}

// poolOptions say how the connections of a pool are made, how many there are, and how
// long they are kept.
type poolOptions struct {
	settings []string // what a connection is brought to first; nil: those for single statements
	prepare  prepare  // and then; nil: nothing more
	holds    bool     // a connection holds something while it is used, a lock or a transaction: it is not closed because it is silent
	patient  bool     // one out of a program's pool is waited for until the context ends, not for openWait

	size   int                  // connections in use at the same time; those who need one more wait; 0: any number
	lender *pool                // lends one that is free when all are in use; nil: none does
	room   func(open int) error // why no connection may be opened beside so many; nil: nothing forbids it

	idleMost func() int    // how many are kept idle; nil: all
	idleFor  time.Duration // how long one is kept idle; 0: for ever
}

// prepare brings a new connection to what its pool needs. silence is that of getFor.
type prepare func(ctx context.Context, c *conn, silence time.Duration) error

func (d *db) newPool(o poolOptions) *pool {
	p := &pool{poolOptions: o, db: d}
	if o.size > 0 {
		p.slots = make(chan struct{}, o.size)
	}
	d.mu.Lock()
	d.pools = append(d.pools[:len(d.pools):len(d.pools)], p)
	d.mu.Unlock()
	return p
}

// get gives a connection that is alive, as far as one can know without asking. Its user
// puts it back.
func (p *pool) get(ctx context.Context) (*conn, error) { return p.getFor(ctx, 0) }

// getFor is get for a connection that the server ends when it is silent for that long
// (wait_timeout), in whole seconds; 0: for as long as the server likes.
func (p *pool) getFor(ctx context.Context, silence time.Duration) (*conn, error) {
	if err := ctx.Err(); err != nil { // select might not see it
		return nil, notSent("wait for a connection", err)
	}
	if p.holds {
		p.db.control.warm(ctx) // must be older than what it may have to KILL
	}
	from, err := p.slot(ctx)
	if err != nil {
		return nil, err
	}
	c, err := from.take(ctx, silence)
	if err != nil {
		from.leave()
	}
	return c, err
}

// slot waits for the right to use a connection, and names the pool that gave it. Behind
// one that waits for a program's pool which is used up nobody waits longer than that
// does: see openWait.
func (p *pool) slot(ctx context.Context) (from *pool, err error) {
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
		t := time.NewTimer(openWait)
		defer t.Stop()
		late = t.C
	}
	var lent chan struct{}
	if p.lender != nil {
		lent = p.lender.slots
	}
	select {
	case p.slots <- struct{}{}:
		return p, nil
	case lent <- struct{}{}:
		return p.lender, nil
	case <-ctx.Done():
		return nil, notSent("wait for a connection", ctx.Err())
	case <-late:
		return nil, notSent("wait for a connection", cmp.Or(p.db.usedUp(), errPoolBusy))
	}
}

// leave gives the right to use a connection back.
func (p *pool) leave() {
	if p.slots != nil {
		<-p.slots
	}
}

// take takes an idle connection that lives, or opens one.
func (p *pool) take(ctx context.Context, silence time.Duration) (*conn, error) {
	for {
		c, err := p.pop()
		if err != nil {
			return nil, err
		}
		opened := c == nil
		if opened {
			if c, err = p.dial(ctx, silence); err != nil {
				return nil, err
			}
		} else if !p.fresh(c) || !c.alive(ctx) {
			p.drop(c)
			continue
		}
		if err = c.endsAfter(ctx, silence); err == nil {
			return c, nil
		}
		p.drop(c)
		if opened || ctx.Err() != nil {
			return nil, notSent("prepare a connection", err)
		}
	}
}

// pop takes an idle connection; nil is the right to open one, which is counted.
func (p *pool) pop() (c *conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed()
	}
	if last := len(p.idle) - 1; last >= 0 {
		c, p.idle = p.idle[last], p.idle[:last]
		return c, nil
	}
	if p.room != nil {
		err = p.room(p.open)
	}
	if err == nil {
		p.open++
	}
	return nil, err
}

// dial opens a connection that pop has counted. Where the program's pool is used up
// another of ours may have become idle meanwhile.
func (p *pool) dial(ctx context.Context, silence time.Duration) (*conn, error) {
	p.opening.Add(1)
	c, err := p.db.open(ctx, p, silence)
	p.opening.Add(-1)
	if err == nil {
		return c, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if last := len(p.idle) - 1; last >= 0 && errors.Is(err, errPoolBusy) {
		c, p.idle = p.idle[last], p.idle[:last]
		return c, nil
	}
	return nil, err
}

// fresh reports whether an idle connection may be used again: the server has not ended it
// because of its silence, nor is about to.
func (p *pool) fresh(c *conn) bool {
	limit := p.idleFor
	if c.silence > 0 && (limit == 0 || c.silence*3/4 < limit) {
		limit = c.silence * 3 / 4
	}
	return limit == 0 || time.Since(c.used) < limit
}

// drop closes a connection, and with it what it holds as soon as the server hears of it.
func (p *pool) drop(c *conn) {
	c.close()
	p.mu.Lock()
	p.open--
	p.mu.Unlock()
}

// put gives the connection back to its pool, without anything that it held; or closes it
// if it is broken.
func (c *conn) put() {
	p := c.pool
	defer p.leave()
	most := -1
	if p.idleMost != nil {
		most = p.idleMost()
	}
	c.used = time.Now()
	p.mu.Lock()
	keep := !c.broken && !p.closed && c.opened.After(p.since) && (most < 0 || len(p.idle) < most)
	if keep {
		p.idle = append(p.idle, c)
	}
	expired := p.expired()
	p.mu.Unlock()
	if !keep {
		p.drop(c)
	}
	for _, c := range expired {
		c.close()
	}
}

// expired takes out those that have been idle for too long, for the caller to close, and
// has a timer look after the others. Called under mu.
func (p *pool) expired() (list []*conn) {
	if p.idleFor == 0 {
		return nil
	}
	for len(p.idle) > 0 && !p.fresh(p.idle[0]) {
		list = append(list, p.idle[0])
		p.idle = p.idle[1:]
	}
	p.open -= len(list)
	if len(p.idle) > 0 && p.expiry == nil && !p.closed {
		p.expiry = time.AfterFunc(max(p.idleFor-time.Since(p.idle[0].used), time.Millisecond), p.expire)
	}
	return list
}

// expire closes what has been idle for too long where nobody puts anything back.
func (p *pool) expire() {
	p.mu.Lock()
	p.expiry = nil
	expired := p.expired()
	p.mu.Unlock()
	for _, c := range expired {
		c.close()
	}
}

// renew closes what is idle now, and what is in use when it is put back: the address
// leads to another server since.
func (p *pool) renew() {
	p.mu.Lock()
	p.since = time.Now()
	p.warmFrom = time.Time{} // the next one is opened before what it may have to KILL
	p.mu.Unlock()
	p.closeIdle()
}

// close closes what is idle now and what is put back later.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.expiry != nil {
		p.expiry.Stop()
	}
	p.mu.Unlock()
	p.closeIdle()
}

// closeIdle closes what is idle now.
func (p *pool) closeIdle() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.open -= len(idle)
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}
