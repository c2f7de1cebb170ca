package conn

import (
	"context"
	"errors"
	"slices"
	"time"
)

// opening is a connection that is being opened. To open one is several trips, and a caller
// may have less time than they take: a renewal has a third of the trust that is left, an attempt
// less than a TTL. If each try began anew, a server that is slow, and whose connections have
// ended, would cost the lease. So what a caller leaves goes on for as long again as it has taken
// by then, at least until it has taken goesOn, and the next caller of the pool takes it over. One
// that leads nowhere is given up then. There are no more connections for that than there are
// callers.
//
// So it is where the connections are the Store's. Out of the program's pool another user may be
// waiting for it: there it is given up at once.
type opening struct {
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when c or err is there
	c      *Conn
	err    error
	limit  *time.Timer // set by the first caller that left; guarded by Pool.mu
}

// start opens a connection that pop has counted.
func (p *Pool) start(silence time.Duration) *opening {
	o := &opening{begun: time.Now(), done: make(chan struct{})}
	var life context.Context
	life, o.cancel = context.WithCancel(p.db.life)
	p.db.Work(func() { p.run(life, o, silence) })
	return o
}

// run opens it, and gives it to the pool if its caller has gone.
func (p *Pool) run(ctx context.Context, o *opening, silence time.Duration) {
	p.opening.Add(1)
	c, err := p.openInTurn(ctx, silence)
	p.opening.Add(-1)
	if err == nil { // one more trip, for which the caller who takes it over need not have the time
		if err = c.EndAfter(ctx, silence); err != nil {
			c.close()
			c, err = nil, NotSent("prepare a connection", err)
		}
	}
	o.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	o.c, o.err = c, err
	if o.limit != nil {
		o.limit.Stop()
	}
	if i := slices.Index(p.left, o); i >= 0 {
		p.left = slices.Delete(p.left, i, i+1)
		p.settle(o)
	}
	close(o.done)
}

// openInTurn opens it: where a program's pool is waited for until the context ends one at a time waits, and the others for what
// is handed over.
func (p *Pool) openInTurn(ctx context.Context, silence time.Duration) (*Conn, error) {
	if p.Patient && !p.db.own {
		select {
		case p.turn <- struct{}{}:
			defer func() { <-p.turn }()
		case <-ctx.Done():
			return nil, NotSent("connect", ctx.Err())
		}
	}
	return p.db.open(ctx, p, silence)
}

// waiter is one who waits for what is being opened, and has what is put back meanwhile.
type waiter struct {
	o      *opening
	handed chan *Conn // has room for one
}

// await waits for a connection that is being opened, or for one that is put back meanwhile; where it is urgent, and the
// opening hangs, also for one that rests in another pool.
func (p *Pool) await(ctx context.Context, o *opening, silence time.Duration) (*Conn, error) {
	w := &waiter{o, make(chan *Conn, 1)}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	other, late := p.awaitFirst(ctx, w, silence)
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 {
		if other != nil {
			p.db.Work(other.Put)
		}
		return <-w.handed, nil
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	if other != nil {
		p.leaveOpening(o)
		return other, nil
	}
	select {
	case <-o.done:
	default:
		p.leaveOpening(o)
		return nil, NotSent("connect", late)
	}
	if o.err == nil {
		return o.c, nil
	}
	p.open--
	if errors.Is(o.err, ErrPoolBusy) {
		if c := p.popIdle(); c != nil {
			return c, nil
		}
	}
	return nil, o.err
}

// awaitFirst waits until what w waits for is there, or has failed. other is a connection of another pool.
func (p *Pool) awaitFirst(ctx context.Context, w *waiter, silence time.Duration) (other *Conn, late error) {
	select {
	case <-w.o.done: // also where ctx has ended just now
		return nil, nil
	default:
	}
	var hangs <-chan time.Time
	if p.Urgent {
		t := time.NewTimer(firstPatience(ctx, time.Now()) - time.Since(w.o.begun))
		defer t.Stop()
		hangs = t.C
	}
	var rest <-chan struct{}
	for {
		select {
		case <-w.o.done:
			return nil, nil
		case c := <-w.handed:
			w.handed <- c
			return nil, nil
		case <-ctx.Done():
			return nil, p.db.overdue(ctx)
		case <-hangs:
		case <-rest:
		}
		rest = p.db.rests.next()
		if c, _ := p.db.atRest(ctx, silence, p); c != nil {
			return c, nil
		}
	}
}

// leaveOpening leaves it to the next caller. Called under mu.
func (p *Pool) leaveOpening(o *opening) {
	select {
	case <-o.done:
		p.settle(o)
		return
	default:
	}
	p.left = append(p.left, o)
	if !p.db.own {
		o.cancel()
	} else if o.limit == nil {
		age := time.Since(o.begun)
		o.limit = time.AfterFunc(max(age, goesOn-age), o.cancel)
	}
}

// settle gives the pool what was opened for a caller that has gone. Called under mu.
func (p *Pool) settle(o *opening) {
	defer p.db.rests.tell()
	if o.err != nil {
		p.open--
		return
	}
	if !p.rest(o.c) {
		p.open--
		p.db.Work(o.c.close)
	}
	for _, c := range p.expired() { // and the next expiry is seen to, where nobody puts anything back
		p.db.Work(c.close)
	}
}
