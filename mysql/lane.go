package mysqllock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// lane is a bounded set of connections for one kind of work, so that work of
// another kind never waits for it. Connections are opened when they are needed
// and kept.
type lane struct {
	s      *Store
	slots  chan struct{} // one for each connection in use
	beyond *lane         // lends a free connection when all of this one are in use; may be nil

	shelf[*conn]
	keepFrom time.Time    // keep does nothing before; guarded by mu
	opening  atomic.Int32 // those that wait for the pool, or for a new connection
}

func newLane(s *Store, size int) *lane {
	return &lane{s: s, slots: make(chan struct{}, size)}
}

// get gives a connection that is alive, as far as one can know without asking.
func (l *lane) get(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil { // select might not see it
		return nil, notSent("wait for a connection", err)
	}
	from, err := l.slot(ctx)
	if err != nil {
		return nil, err
	}
	c, err := from.take(ctx)
	if err != nil {
		<-from.slots
		return nil, err
	}
	c.from = from
	return c, nil
}

// slot waits for the right to use a connection, and names the lane that gave it.
// Behind one that waits for a pool which is used up nobody waits longer than that
// does: see openWait.
func (l *lane) slot(ctx context.Context) (from *lane, err error) {
	select {
	case l.slots <- struct{}{}:
		return l, nil
	default:
	}
	var late <-chan time.Time
	if busy := l.s.usedUp(); busy != nil && l.opening.Load() > 0 {
		t := time.NewTimer(openWait)
		defer t.Stop()
		late = t.C
	}
	var lent chan struct{}
	if l.beyond != nil {
		lent = l.beyond.slots
	}
	select {
	case l.slots <- struct{}{}:
		return l, nil
	case lent <- struct{}{}:
		return l.beyond, nil
	case <-ctx.Done():
		return nil, notSent("wait for a connection", ctx.Err())
	case <-late:
		return nil, notSent("wait for a connection", cmp.Or(l.s.usedUp(), errPoolBusy))
	}
}

func (l *lane) take(ctx context.Context) (*conn, error) {
	for {
		c, open := l.pop()
		if !open {
			return nil, notSent("wait for a connection", fmt.Errorf("%w: the store was closed", driver.ErrClosed))
		}
		if c == nil {
			l.opening.Add(1)
			c, err := l.s.open(ctx)
			l.opening.Add(-1)
			if !errors.Is(err, errPoolBusy) {
				return c, err
			}
			if c, _ = l.pop(); c == nil { // put back meanwhile
				return nil, err
			}
			return c, nil
		}
		if c.alive(ctx) {
			return c, nil
		}
		c.close()
	}
}

// put gives the connection back to its lane.
func (c *conn) put() { c.from.put(c) }

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

const (
	// keepEvery is how often keep looks, however often it is called.
	keepEvery = 100 * time.Millisecond

	// speakEvery is how often keep sends something on a connection that is used for
	// nothing else. The look at the socket does not keep the server from ending it by
	// wait_timeout, and one that is opened then is too young for the next KILL.
	speakEvery = 2 * time.Second
)

// keep sees to it that a lane that is not in use has a connection that lives.
// The control lane needs it before a statement is sent: see kill. Nobody waits for
// the sign of life of one that looks alive.
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
	if done := l.fill(); done != nil {
		waiting, cancel := context.WithTimeout(ctx, killWait)
		defer cancel()
		select {
		case <-done:
		case <-waiting.Done():
		}
	}
}

// fillWait is how long fill tries: to open a connection is some trips, and each may
// take long.
const fillWait = 5 * time.Second

// fill opens a connection in the background if none is there, and speaks on one that was
// not spoken on for long. done is closed when one is there; nil: the lane is in use, so
// one lives.
func (l *lane) fill() (done chan struct{}) {
	select {
	case l.slots <- struct{}{}:
	default:
		return nil
	}
	done = make(chan struct{})
	l.s.background.Add(1)
	go func() {
		defer l.s.background.Done()
		ctx, cancel := context.WithTimeout(l.s.life, fillWait)
		defer cancel()
		c, err := l.take(ctx)
		close(done)
		if err != nil {
			<-l.slots
			l.mu.Lock()
			l.keepFrom = time.Now().Add(time.Second)
			l.mu.Unlock()
			return
		}
		if sent := time.Now(); sent.Sub(c.heard) >= speakEvery {
			spoken, cancel := context.WithTimeout(ctx, killWait)
			defer cancel()
			if c.sc.PingContext(spoken) == nil {
				c.heard = sent
			} else {
				c.broken = true
			}
		}
		l.put(c)
	}()
	return done
}
