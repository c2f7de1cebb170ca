package conn

import (
	"context"
	"time"
)

// Put gives the connection back to its pool, without anything that it held; or closes it
// if it is broken.
func (c *Conn) Put() {
	p := c.pool
	defer p.leave()
	p.mu.Lock()
	keep := p.rest(c)
	expired := p.expired()
	p.mu.Unlock()
	if !keep {
		p.drop(c)
	}
	for _, c := range expired {
		c.close()
	}
}

// usable reports whether a connection that is put back may be used again. Called under mu.
func (p *Pool) usable(c *Conn) bool {
	c.used = time.Now()
	c.uses++
	return !c.Broken && !p.closed && c.Opened.After(p.since) && !(p.borrowed() && c.uses >= mostUses && p.db.usedUp() != nil)
}

// A pool of the program's that is bounded may be used up, and others wait for what it lent: what rests is given back soon, and
// what is used again and again after mostUses.
const (
	borrowedFor = 20 * time.Millisecond
	mostUses    = 16
)

// borrowed reports whether the connections are of a pool that is bounded, and is to have them back.
func (p *Pool) borrowed() bool { return p.Borrows && p.db.SQL.Stats().MaxOpenConnections > 0 }

// idleFor is how long a connection is kept idle; 0: for ever.
func (p *Pool) idleFor() time.Duration {
	if p.borrowed() {
		return borrowedFor
	}
	return p.IdleFor
}

// rest gives a connection that nobody uses to one who waits for a new one, or keeps it, unless it is broken or one too many.
// Called under mu.
func (p *Pool) rest(c *Conn) (kept bool) {
	if !p.usable(c) {
		return false
	}
	if len(p.waiting) > 0 {
		w := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.leaveOpening(w.o)
		w.handed <- c
		return true
	}
	if p.IdleMost != nil && len(p.idle) >= p.IdleMost() {
		return false
	}
	p.idle = append(p.idle, c)
	return true
}

// expired takes out those that have been idle for too long, for the caller to close, and
// has a timer look after the others. Called under mu.
func (p *Pool) expired() (list []*Conn) {
	if p.IdleFor == 0 {
		return nil
	}
	for len(p.idle) > 0 && !p.fresh(p.idle[0]) {
		list = append(list, p.idle[0])
		p.idle = p.idle[1:]
	}
	p.open -= len(list)
	if len(p.idle) > 0 && p.expiry == nil && !p.closed {
		p.expiry = time.AfterFunc(max(p.idleFor()-time.Since(p.idle[0].used), time.Millisecond), p.expire)
	}
	return list
}

// expire closes what has been idle for too long where nobody puts anything back.
func (p *Pool) expire() {
	p.mu.Lock()
	p.expiry = nil
	expired := p.expired()
	p.mu.Unlock()
	for _, c := range expired {
		c.close()
	}
}

// fresh reports whether an idle connection may be used again: the server has not ended it
// because of its silence, nor is about to.
func (p *Pool) fresh(c *Conn) bool {
	limit := p.idleFor()
	if c.Silence > 0 && (limit == 0 || c.Silence*3/4 < limit) {
		limit = c.Silence * 3 / 4
	}
	return limit == 0 || time.Since(c.used) < limit
}

// popIdle takes the one that was put back last; nil: none is idle. Called under mu.
func (p *Pool) popIdle() *Conn {
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle = p.idle[:last]
	return c
}

// wake is popIdle of one that lives.
func (p *Pool) wake(ctx context.Context) *Conn {
	for {
		p.mu.Lock()
		c := p.popIdle()
		p.mu.Unlock()
		if c == nil || p.fresh(c) && c.Alive(ctx) {
			return c
		}
		p.drop(c)
	}
}
