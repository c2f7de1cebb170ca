package mysqllock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// lane is a bounded set of connections for one kind of work, so that work of
// another kind never waits for it. Connections are opened when they are needed
// and kept.
type lane struct {
	s     *Store
	slots chan struct{} // one for each connection in use

	mu       sync.Mutex
	idle     []*conn // the one put back last is used first
	closed   bool
	keepFrom time.Time // keep does nothing before
}

func newLane(s *Store, size int) *lane {
	return &lane{s: s, slots: make(chan struct{}, size)}
}

// get gives a connection that is alive, as far as one can know without asking.
func (l *lane) get(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil { // select might not see it
		return nil, notSent("wait for a connection", err)
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, notSent("wait for a connection", ctx.Err())
	}
	c, err := l.take(ctx)
	if err != nil {
		<-l.slots
	}
	return c, err
}

func (l *lane) take(ctx context.Context) (*conn, error) {
	for {
		c, err := l.pop()
		if err != nil {
			return nil, err
		}
		if c == nil {
			return l.s.open(ctx)
		}
		if c.alive(ctx) {
			return c, nil
		}
		c.close()
	}
}

func (l *lane) pop() (*conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, notSent("wait for a connection", fmt.Errorf("%w: the store was closed", driver.ErrClosed))
	}
	n := len(l.idle)
	if n == 0 {
		return nil, nil
	}
	c := l.idle[n-1]
	l.idle = l.idle[:n-1]
	return c, nil
}

// put takes a connection back, or closes it if it is broken.
func (l *lane) put(c *conn) {
	defer func() { <-l.slots }()
	l.mu.Lock()
	keep := !c.broken && !l.closed
	if keep {
		c.used = time.Now()
		l.idle = append(l.idle, c)
	}
	l.mu.Unlock()
	if !keep {
		c.close()
	}
}

// keepEvery is how often keep looks, however often it is called.
const keepEvery = 100 * time.Millisecond

// keep sees to it that a lane that is not in use has a connection that lives.
// The control lane needs it before a statement is sent: see kill.
func (l *lane) keep(ctx context.Context) {
	now := time.Now()
	l.mu.Lock()
	wait := now.Before(l.keepFrom)
	if !wait {
		l.keepFrom = now.Add(keepEvery)
	}
	l.mu.Unlock()
	if wait {
		return
	}
	select {
	case l.slots <- struct{}{}:
	default:
		return // in use, so it lives
	}
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	if c, err := l.take(ctx); err == nil {
		l.put(c)
		return
	}
	<-l.slots
	l.mu.Lock()
	l.keepFrom = time.Now().Add(time.Second)
	l.mu.Unlock()
}

// close closes what rests now and what is put back later.
func (l *lane) close() {
	l.mu.Lock()
	idle := l.idle
	l.idle, l.closed = nil, true
	l.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}
