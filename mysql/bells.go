package mysqllock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// bells wake those who wait for a key (Options.Bells). A key's bell is a lock of
// the server by name (GET_LOCK), for which the waiters of all processes stand in
// line, each process once for each key. Whoever has it tries to take the key, keeps
// it with the key, and lets go of it after the release, which wakes the next; the
// server does the same for a holder that dies. Nothing else hangs on it: the lease
// row alone decides who has the key.
//
// A key that nobody had to wait for has no bell, so a quiet lease costs nothing.
// The first who then has to wait gets the bell at once, though the key is held. It
// keeps its place in front and looks at the row as a probe does, for itself and all
// who stand behind it.
//
// Each session carries one bell, so no two can stand in each other's way.
type bells struct {
	l    *leases
	most int // sessions

	life context.Context // ends when the Store is closed
	end  context.CancelFunc

	mu     sync.Mutex
	idle   []*bell
	open   int                     // sessions: those in use, too
	held   map[driver.HoldID]*bell // those that will be rung
	rest   time.Time               // after a failure: no session is used before
	closed bool
	work   sync.WaitGroup // what uses a session; not added to when closed

	heads atomic.Int64 // waiters that have the bell, but not the key
	rings atomic.Int64 // under way
}

// bell is a session that can have one bell.
type bell struct {
	c       *conn
	seconds int // its wait_timeout

	until time.Time  // when the hold that it belongs to ends unless renewed; guarded by bells.mu
	mu    sync.Mutex // of who uses the session of a bell that is held; taken before bells.mu
}

const (
	// bellSeconds is after how long at least the server ends a silent session, so that
	// a host which is gone does not keep others from a bell for hours.
	bellSeconds = 60

	// bellQuiet is how long the session of a held bell may be silent when a renewal
	// comes by.
	bellQuiet = 15 * time.Second

	bellRest = 5 * time.Second // after a failure
	bellWait = time.Second     // the longest a ring may take
)

func newBells(l *leases, most int) *bells {
	b := &bells{l: l, most: most, held: make(map[driver.HoldID]*bell)}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// get gives a session without a bell, and counts its user as work. Where there is
// none to be had the waiter is better off with probes.
func (b *bells) get(ctx context.Context, ttl time.Duration) (e *bell, err error) {
	// A program whose turn is over comes back right after its ring.
	for n := 0; ; n++ {
		soon := b.rings.Load() > 0
		if e, err = b.pop(); err == nil {
			break
		}
		if !soon || n == 20 || !pause(ctx, time.Millisecond) {
			return nil, err
		}
	}
	if e != nil && !e.c.alive(ctx) {
		e.c.close()
		e = nil
	}
	if e == nil {
		e, err = b.start(ctx)
	}
	if seconds := max(secondsOf(ttl), bellSeconds); err == nil && e.seconds < seconds {
		_, err = e.c.exec(ctx, 0, setBell(seconds))
		e.seconds = seconds
	}
	if err != nil {
		if ctx.Err() == nil {
			b.failed()
		}
		if e != nil {
			e.c.broken = true
		}
		b.put(e)
		return nil, errNoBell(err)
	}
	return e, nil
}

// pop takes a session that is at rest; nil is the right to start one.
func (b *bells) pop() (*bell, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case b.closed:
		return nil, errClosed()
	case now.Before(b.rest):
		return nil, errNoBell(nil)
	case len(b.idle) > 0:
		e := b.idle[len(b.idle)-1]
		b.idle = b.idle[:len(b.idle)-1]
		b.work.Add(1)
		return e, nil
	case b.open < b.most:
		b.open++
		b.work.Add(1)
		return nil, nil
	}
	for id, e := range b.held { // of a client that did not release it, nor renews it
		if now.After(e.until) {
			b.ringLocked(id, e)
		}
	}
	return nil, errNoBell(nil)
}

func (b *bells) start(ctx context.Context) (*bell, error) {
	b.l.s.control.keep(ctx) // must be older than what it may have to KILL
	c, err := b.l.s.open(ctx)
	if err != nil {
		return nil, err
	}
	return &bell{c: c}, nil
}

// failed keeps waiters from trying for a while: one after the other would fail.
func (b *bells) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = time.Now().Add(bellRest)
}

// put takes back a session without a bell after its use, or nil for one that could
// not be started.
func (b *bells) put(e *bell) {
	b.mu.Lock()
	keep := e != nil && !e.c.broken && !b.closed
	if keep {
		e.c.used = time.Now()
		b.idle = append(b.idle, e)
	} else {
		b.open--
	}
	b.mu.Unlock()
	if !keep && e != nil {
		e.c.close()
	}
	b.work.Done()
}

// keep leaves the bell with the hold that it has come to.
func (b *bells) keep(e *bell, r driver.Request) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		e.c.broken = true // and the bell goes with it
		b.put(e)
		return
	}
	e.until = time.Now().Add(r.TTL)
	b.held[r.ID] = e
	b.mu.Unlock()
	b.work.Done()
}

// ring lets go of the bells of holds that have ended, in the background.
func (b *bells) ring(holds []driver.Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) == 0 || b.closed {
		return
	}
	for _, h := range holds {
		if e := b.held[h.ID]; e != nil {
			b.ringLocked(h.ID, e)
		}
	}
}

func (b *bells) ringLocked(id driver.HoldID, e *bell) {
	delete(b.held, id)
	b.work.Add(1)
	b.rings.Add(1)
	go func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		b.letGo(e)
		b.put(e)
		b.rings.Add(-1)
	}()
}

// letGo leaves the session without a bell. If it cannot be told so it is closed.
func (b *bells) letGo(e *bell) {
	if e.c.broken {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, bellWait)
	defer cancel()
	if _, err := e.c.exec(ctx, 0, "DO RELEASE_ALL_LOCKS()"); err != nil {
		e.c.broken = true
	}
}

// renewed rings the bells of holds that are over, and keeps the sessions of the
// others from being silent for too long.
func (b *bells) renewed(holds []driver.Hold, results []driver.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) == 0 || b.closed {
		return
	}
	for i, h := range holds {
		e := b.held[h.ID]
		if e == nil {
			continue
		}
		switch results[i].Status {
		case driver.Alive:
			e.until = time.Now().Add(h.TTL)
			b.work.Add(1)
			go func() {
				defer b.work.Done()
				b.greet(h.ID, e)
			}()
		case driver.Unknown:
		default:
			b.ringLocked(h.ID, e)
		}
	}
}

// greet makes the session of a held bell heard. One that has died has rung already.
func (b *bells) greet(id driver.HoldID, e *bell) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b.mu.Lock()
	held := b.held[id] == e // whoever rings it meanwhile waits
	b.mu.Unlock()
	if !held || e.c.broken || time.Since(e.c.heard) < bellQuiet {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, bellWait)
	defer cancel()
	if _, err := e.c.exec(ctx, 0, "DO 0"); err != nil {
		e.c.broken = true
	}
}

// close ends the waits and closes all sessions, and with them go their bells.
func (b *bells) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.work.Wait()
	for _, e := range b.idle {
		e.c.close()
	}
	for _, e := range b.held {
		e.c.close()
	}
}
