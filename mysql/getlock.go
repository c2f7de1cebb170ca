package mysqllock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// namedLocks gives turns to the clients that wait for a key (Options.WakeupConns). A key
// has a lock of the server by name (GET_LOCK), for which the waiting clients of all
// processes stand in line, each process once for each key. Whoever has it tries to take
// the key, keeps it with the key, and lets go of it after the release, which wakes the
// next; the server does the same for a process that dies. Nothing else hangs on it: the
// lease row alone decides who has the key.
//
// A key that nobody had to wait for has no named lock, so a quiet lease costs nothing.
// Each session carries one, so no two can stand in each other's way.
type namedLocks struct {
	l     *leases
	most  int           // sessions
	alive time.Duration // lockAlive

	life context.Context // ends when the Store is closed
	end  context.CancelFunc

	mu     sync.Mutex
	idle   []*lockSession
	open   int // sessions, with those in use
	turns  map[*lockSession]struct{}
	rest   time.Time // after a failure: no session is used before
	since  time.Time // sessions that were opened before may lead to another server
	closed bool
	work   sync.WaitGroup // what uses a session; not added to when closed

	releasing atomic.Int64 // sessions that let go of their lock just now
}

// lockSession is a session that can have one named lock.
type lockSession struct {
	c     *conn
	mu    sync.Mutex  // of who uses the session of a lock that it has
	alive *time.Timer // of the turn: see keepAlive; guarded by namedLocks.mu
}

const (
	// lockSessionTimeout is the wait_timeout of these sessions, in seconds: a host that is
	// gone keeps others from the lock for no longer.
	lockSessionTimeout = 60

	// lockAlive is how often a session that has a lock is heard of.
	lockAlive = 15 * time.Second

	// lineSeconds is how long one GET_LOCK waits. After it the client stands at the end of
	// the line again, so it is seldom; but no session of a dead host waits for longer.
	lineSeconds = 5

	lockRest   = 5 * time.Second       // after a failure
	lockWork   = time.Second           // the longest that anything but the wait may take
	leaveAgain = 10 * time.Millisecond // between two attempts to leave the line
)

func newNamedLocks(l *leases, most int) *namedLocks {
	n := &namedLocks{l: l, most: most, alive: lockAlive, turns: make(map[*lockSession]struct{})}
	n.life, n.end = context.WithCancel(context.Background())
	return n
}

// WaitTurn implements driver.Turner where Limits.Turns says so: see Options.WakeupConns.
func (s *Store) WaitTurn(ctx context.Context, key string) (waited bool, end func(), err error) {
	l, ok := s.keep.(*leases)
	if !ok || l.locks == nil {
		return false, nil, errNoTurn(driver.ErrNotSupported)
	}
	if err := s.ready(ctx); err != nil {
		return false, nil, err
	}
	return l.locks.wait(ctx, key)
}

// wait stands in line for the named lock of key.
func (n *namedLocks) wait(ctx context.Context, key string) (waited bool, end func(), err error) {
	s, err := n.get(ctx)
	if err != nil {
		return false, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.life, cancel)()
	for {
		r := n.stand(ctx, s.c, key)
		waited = waited || r.waited
		switch {
		case r.got && ctx.Err() == nil:
			return waited, n.turn(s), nil
		case ctx.Err() != nil:
			if r.got || r.killed {
				n.letGo(s)
			}
			n.put(s)
			if n.life.Err() != nil {
				return waited, nil, errClosed()
			}
			return waited, nil, notSent(n.l.what("wait"), ctx.Err())
		case r.err != nil:
			n.failed()
			s.c.broken = true
			n.put(s)
			return waited, nil, errNoTurn(r.err)
		}
	}
}

// errNoTurn says to wait without a turn.
func errNoTurn(why error) error {
	err := driver.ErrNoPlace
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: %w", err)}
}

// get gives a session without a lock, and counts its user as work. Where there is none
// to be had the waiter is better off with probes.
func (n *namedLocks) get(ctx context.Context) (s *lockSession, err error) {
	// A program whose turn is over comes back right after it has let go of the lock.
	for try := 0; ; try++ {
		soon := n.releasing.Load() > 0
		if s, err = n.pop(); err == nil {
			break
		}
		if !soon || try == 20 || !pause(ctx, time.Millisecond) {
			return nil, err
		}
	}
	if s != nil && !s.c.alive(ctx) {
		s.c.close()
		s = nil
	}
	if s == nil {
		s, err = n.start(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			n.failed()
		}
		n.put(s)
		return nil, errNoTurn(err)
	}
	return s, nil
}

// pop takes a session that is at rest; nil is the right to start one.
func (n *namedLocks) pop() (*lockSession, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, errClosed()
	case time.Now().Before(n.rest):
		return nil, errNoTurn(nil)
	case len(n.idle) > 0:
		s := n.idle[len(n.idle)-1]
		n.idle = n.idle[:len(n.idle)-1]
		n.work.Add(1)
		return s, nil
	case n.open < n.most:
		n.open++
		n.work.Add(1)
		return nil, nil
	}
	return nil, errNoTurn(nil)
}

func (n *namedLocks) start(ctx context.Context) (*lockSession, error) {
	n.l.s.control.keep(ctx) // must be older than what it may have to KILL
	c, err := n.l.s.open(ctx)
	if err != nil {
		return nil, err
	}
	s := &lockSession{c: c}
	if _, err := c.exec(ctx, 0, lockSessionSettings); err != nil {
		c.broken = true
		return s, err
	}
	return s, nil
}

// lockSessionSettings make the server end the session when it is silent for that long,
// but not while it stands in line. Each server reads its own comment only:
// https://mariadb.com/kb/en/comment-syntax/
var lockSessionSettings = fmt.Sprintf("SET SESSION wait_timeout=%d /*!80000 ,max_execution_time=0 */ /*M!100600 ,max_statement_time=0 */", lockSessionTimeout)

// failed keeps waiters from trying for a while: one after the other would fail.
func (n *namedLocks) failed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rest = time.Now().Add(lockRest)
}

// put takes back a session without a lock after its use, or nil for one that could not be
// started.
func (n *namedLocks) put(s *lockSession) {
	n.mu.Lock()
	keep := s != nil && !s.c.broken && !n.closed && s.c.opened.After(n.since)
	if keep {
		s.c.used = time.Now()
		n.idle = append(n.idle, s)
	} else {
		n.open--
	}
	n.mu.Unlock()
	if !keep && s != nil {
		s.c.close()
	}
	n.work.Done()
}

// turn leaves the lock with the session until the turn is ended.
func (n *namedLocks) turn(s *lockSession) (end func()) {
	n.mu.Lock()
	closed := n.closed
	if !closed {
		n.turns[s] = struct{}{}
		s.alive = time.AfterFunc(n.alive, func() { n.keepAlive(s) })
	}
	n.mu.Unlock()
	if closed {
		s.c.broken = true // and the lock goes with it
		n.put(s)
		return func() {}
	}
	n.work.Done()
	return func() { n.endTurn(s) }
}

// endTurn lets go of the lock of a session, in the background.
func (n *namedLocks) endTurn(s *lockSession) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.hasTurn(s) {
		return // its session was closed, and the lock went with it
	}
	delete(n.turns, s)
	s.alive.Stop()
	n.work.Add(1)
	n.releasing.Add(1)
	go func() {
		defer n.releasing.Add(-1)
		s.mu.Lock()
		defer s.mu.Unlock()
		n.letGo(s)
		n.put(s)
	}()
}

// letGo leaves the session without a lock. If it cannot be told so it is closed.
func (n *namedLocks) letGo(s *lockSession) {
	if s.c.broken {
		return
	}
	ctx, cancel := context.WithTimeout(n.life, lockWork)
	defer cancel()
	if _, err := s.c.exec(ctx, 0, "DO RELEASE_ALL_LOCKS()"); err != nil {
		s.c.broken = true
	}
}

// keepAlive makes the session of a turn heard, now and then. One that has died has let go
// already.
func (n *namedLocks) keepAlive(s *lockSession) {
	n.mu.Lock()
	has := n.hasTurn(s)
	if has {
		n.work.Add(1)
	}
	n.mu.Unlock()
	if !has {
		return
	}
	defer n.work.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	n.mu.Lock()
	has = n.hasTurn(s) // whoever ends it meanwhile waits
	n.mu.Unlock()
	if !has || s.c.broken {
		return
	}
	ctx, cancel := context.WithTimeout(n.life, lockWork)
	defer cancel()
	if _, err := s.c.exec(ctx, 0, "DO 0"); err != nil {
		s.c.broken = true
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hasTurn(s) {
		s.alive.Reset(n.alive)
	}
}

// hasTurn reports whether the turn of a session goes on. Called under mu.
func (n *namedLocks) hasTurn(s *lockSession) bool {
	_, has := n.turns[s]
	return has && !n.closed
}

// renew closes the sessions at rest, and the others after their use: the address leads to
// another server since, and there nobody stands in line.
func (n *namedLocks) renew() {
	n.mu.Lock()
	n.since = time.Now()
	idle := n.idle
	n.idle = nil
	n.open -= len(idle)
	n.mu.Unlock()
	for _, s := range idle {
		s.c.close()
	}
}

// close ends the waits and closes all sessions, and with them go their locks.
func (n *namedLocks) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.end()
	n.work.Wait()
	for _, s := range n.idle {
		s.c.close()
	}
	for s := range n.turns {
		s.c.close()
	}
}
