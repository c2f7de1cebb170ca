package conn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A server that is full refuses a new connection (1040, 1203, 1226), and one that is out of reach lets a dial hang, while
// the Store has connections that rest, opened for other work. A release or an undo that was never sent costs the others the
// rest of a TTL, and a renewal costs the lease. So where such a step gets no connection of its own it uses the next one that
// rests, whatever it was opened for, and puts it back there. An acquire does not: it may wait on the connection for another
// transaction, and who waits for the key can wait for a connection too.

// cannotOpen reports whether err says that there is no room for another connection.
func cannotOpen(err error) bool { return NoConnection(err) || errors.Is(err, ErrPoolBusy) }

// nextAtRest waits for a connection that comes to rest, as long as any is in use; nil: none is, or the context ended.
func (d *DB) nextAtRest(ctx context.Context, silence time.Duration) *Conn {
	for {
		rest := d.rests.next()
		c, inUse := d.atRest(ctx, silence, nil)
		if c != nil || !inUse {
			return c
		}
		select {
		case <-rest:
		case <-ctx.Done():
			return nil
		}
	}
}

// atRest takes a connection that rests in another pool than but; inUse: none does, and some are in use or being opened.
func (d *DB) atRest(ctx context.Context, silence time.Duration, but *Pool) (c *Conn, inUse bool) {
	for _, p := range d.singles {
		if p == but {
			continue
		}
		if c = p.lend(ctx, silence); c != nil {
			return c, false
		}
		inUse = inUse || p.isOpen()
	}
	return nil, inUse
}

// lend gives a connection that rests in the pool, with the right to use it; nil: none rests.
func (p *Pool) lend(ctx context.Context, silence time.Duration) *Conn {
	if len(p.Idle()) == 0 {
		return nil
	}
	select {
	case p.slots <- struct{}{}:
	default:
		return nil
	}
	for c := p.wake(ctx); c != nil; c = p.wake(ctx) {
		if c.EndAfter(ctx, silence) == nil {
			return c
		}
		p.drop(c)
	}
	p.leave()
	return nil
}

// rests tells those who wait for any connection that one came to rest.
type rests struct{ told atomic.Pointer[chan struct{}] }

// next is closed when the next one comes to rest, or is gone.
func (r *rests) next() <-chan struct{} {
	for {
		if told := r.told.Load(); told != nil {
			return *told
		}
		c := make(chan struct{})
		if r.told.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

// tell is called for each that comes to rest or is gone.
func (r *rests) tell() {
	if r.told.Load() == nil {
		return
	}
	if told := r.told.Swap(nil); told != nil {
		close(*told)
	}
}
