package getlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Locks gives turns to the clients that wait for a key (Options.WakeupConns). A key
// has a lock of the server by name (GET_LOCK), for which the waiting clients of all
// processes queue, each process once for each key. The client that has it tries to take
// the key, keeps it with the key, and lets go of it after the release, which wakes the
// next; the server does the same for a process that dies. Nothing else hangs on it: the
// lease row alone decides who has the key.
//
// A key that nobody had to wait for has no named lock, so a quiet lease costs nothing.
// Each session carries one, so no two can stand in each other's way.
type Locks struct {
	db       *conn.DB
	table    string // whose keys they are
	Sessions *conn.Pool
	alive    time.Duration // keepAliveEvery

	life context.Context // ends when the Store is closed
	end  context.CancelFunc

	mu          sync.Mutex
	turns       map[*Turn]struct{}
	pausedUntil time.Time // after a failure: no session is used before
	closed      bool
	work        sync.WaitGroup // what uses a session; not added to when closed

	releasing atomic.Int64 // sessions that let go of their lock just now
}

// Turn is a session that has a named lock.
type Turn struct {
	c     *conn.Conn
	mu    sync.Mutex  // of who uses the session
	alive *time.Timer // see keepAlive; guarded by Locks.mu
}

const (
	// sessionTimeout is the wait_timeout of these sessions: a host that is gone keeps
	// others from the lock for no longer.
	sessionTimeout = time.Minute

	// keepAliveEvery is how often a session that has a lock is heard of.
	keepAliveEvery = 15 * time.Second

	// WaitSeconds is how long one GET_LOCK waits. After it the client is at the end of the
	// queue again, so it is seldom; but no session of a dead host waits for longer.
	WaitSeconds = 5

	pauseAfterFailure = 5 * time.Second       // after a failure
	workTimeout       = time.Second           // the longest that anything but the wait may take
	endWaitAgain      = 10 * time.Millisecond // between two attempts to leave the queue
)

// NewLocks is for the keys of a table, with so many sessions at most.
func NewLocks(d *conn.DB, most int, table string) *Locks {
	n := &Locks{db: d, table: table, alive: keepAliveEvery, turns: make(map[*Turn]struct{})}
	n.life, n.end = context.WithCancel(context.Background())
	n.Sessions = d.NewPool(conn.PoolOptions{
		Prepare: prepareLockSession,
		Holds:   true,
		Room: func(open int) error {
			if open >= most {
				return ErrNoTurn(nil)
			}
			return nil
		},
	})
	return n
}

// prepareLockSession makes the server end the session when it is silent for long, but not
// while it queues. Each server reads its own comment only:
// https://mariadb.com/kb/en/comment-syntax/
func prepareLockSession(ctx context.Context, c *conn.Conn, _ time.Duration) error {
	_, err := c.Exec(ctx, 0, fmt.Sprintf("SET SESSION wait_timeout=%d /*!80000 ,max_execution_time=0 */ /*M!100600 ,max_statement_time=0 */", sessionTimeout/time.Second))
	c.Silence = sessionTimeout
	return err
}

// Wait queues for the named lock of key.
func (n *Locks) Wait(ctx context.Context, key string) (waited bool, end func(), err error) {
	c, err := n.get(ctx)
	if err != nil {
		return false, nil, err
	}
	defer n.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.life, cancel)()
	for {
		r := n.waitNamedLock(ctx, c, key)
		waited = waited || r.waited
		switch {
		case r.got && ctx.Err() == nil:
			return waited, n.begin(c), nil
		case ctx.Err() != nil:
			if r.got || r.killed {
				n.release(c)
			}
			c.Put()
			if n.life.Err() != nil {
				return waited, nil, conn.ErrClosed()
			}
			return waited, nil, conn.NotSent("wait in table "+n.table, ctx.Err())
		case r.err != nil:
			n.failed()
			c.Broken = true
			c.Put()
			return waited, nil, ErrNoTurn(r.err)
		}
	}
}

// ErrNoTurn says to wait without a turn.
func ErrNoTurn(why error) error {
	err := driver.ErrNoPlace
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: %w", err)}
}

// get gives a session without a lock, and counts its user as work. Where there is none
// to be had the waiter is better off with probes.
func (n *Locks) get(ctx context.Context) (c *conn.Conn, err error) {
	n.mu.Lock()
	switch {
	case n.closed:
		err = conn.ErrClosed()
	case time.Now().Before(n.pausedUntil):
		err = ErrNoTurn(nil)
	default:
		n.work.Add(1)
	}
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// A program whose turn is over comes back right after it has let go of the lock.
	for try := 0; ; try++ {
		soon := n.releasing.Load() > 0
		c, err = n.Sessions.Get(ctx)
		full := errors.Is(err, driver.ErrNoPlace)
		switch {
		case err == nil:
			return c, nil
		case full && soon && try < 20 && conn.Pause(ctx, time.Millisecond):
			continue
		case !full && ctx.Err() == nil:
			n.failed()
		}
		n.work.Done()
		if full {
			return nil, err
		}
		return nil, ErrNoTurn(err)
	}
}

// failed keeps waiters from trying for a while: one after the other would fail.
func (n *Locks) failed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pausedUntil = time.Now().Add(pauseAfterFailure)
}

// begin leaves the lock with the session until the turn is ended.
func (n *Locks) begin(c *conn.Conn) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		c.Broken = true // and the lock goes with it
		c.Put()
		return func() {}
	}
	t := &Turn{c: c}
	n.turns[t] = struct{}{}
	t.alive = time.AfterFunc(n.alive, func() { n.keepAlive(t) })
	return func() { n.endTurn(t) }
}

// endTurn lets go of the lock of a session, in the background.
func (n *Locks) endTurn(t *Turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.hasTurn(t) {
		return // its session was closed, and the lock went with it
	}
	delete(n.turns, t)
	t.alive.Stop()
	n.work.Add(1)
	n.releasing.Add(1)
	go func() {
		defer n.work.Done()
		defer n.releasing.Add(-1)
		t.mu.Lock()
		defer t.mu.Unlock()
		n.release(t.c)
		t.c.Put()
	}()
}

// release leaves the session without a lock. If it cannot be told so it is closed.
func (n *Locks) release(c *conn.Conn) {
	if c.Broken {
		return
	}
	ctx, cancel := context.WithTimeout(n.life, workTimeout)
	defer cancel()
	if _, err := c.Exec(ctx, 0, "DO RELEASE_ALL_LOCKS()"); err != nil {
		c.Broken = true
	}
}

// keepAlive makes the session of a turn heard, now and then. One that has died has let go
// already.
func (n *Locks) keepAlive(t *Turn) {
	n.mu.Lock()
	has := n.hasTurn(t)
	if has {
		n.work.Add(1)
	}
	n.mu.Unlock()
	if !has {
		return
	}
	defer n.work.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	n.mu.Lock()
	has = n.hasTurn(t) // whoever ends it meanwhile waits
	n.mu.Unlock()
	if !has || t.c.Broken {
		return
	}
	ctx, cancel := context.WithTimeout(n.life, workTimeout)
	defer cancel()
	if _, err := t.c.Exec(ctx, 0, "DO 0"); err != nil {
		t.c.Broken = true
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hasTurn(t) {
		t.alive.Reset(n.alive)
	}
}

// hasTurn reports whether the turn of a session goes on. Called under mu.
func (n *Locks) hasTurn(t *Turn) bool {
	_, has := n.turns[t]
	return has && !n.closed
}

// Close ends the waits and closes all sessions, and with them go their locks.
func (n *Locks) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.end()
	n.work.Wait()
	for t := range n.turns {
		t.c.Broken = true
		t.c.Put()
	}
}
