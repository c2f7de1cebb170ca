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

// Locks wakes the first of the line of a key (Options.WakeupConns). A key has a lock of the
// server by name (GET_LOCK), for which a client waits while it is the first. A client that
// has it keeps it with the key, and lets go of it after the release, which wakes the next
// one; the server does the same for a process that dies. Nothing else hangs on it: the
// key's row alone decides who has the key.
//
// A key that nobody had to wait for has no named lock, so a quiet lease costs nothing.
// Each session carries one, so no two can stand in each other's way.
type Locks struct {
	db        *conn.DB
	table     string // whose keys they are
	Sessions  *conn.Pool
	KeepAlive time.Duration // keepAliveEvery; a test may change it

	life context.Context // ends when the Store is closed
	end  context.CancelFunc

	mu          sync.Mutex
	turns       map[*Turn]struct{}
	pausedUntil time.Time // after a failure: no session is used before
	closed      bool
	work        sync.WaitGroup // what uses a session; not added to when closed

	releasing atomic.Int64 // sessions that let go of their lock just now
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
	n := &Locks{db: d, table: table, KeepAlive: keepAliveEvery, turns: make(map[*Turn]struct{})}
	n.life, n.end = context.WithCancel(context.Background())
	n.Sessions = d.NewPool(conn.PoolOptions{
		Kind:    conn.Waiter,
		Silence: sessionTimeout,
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

// Wait queues for the named lock of key, on a session that the client has until it ends its turn.
func (n *Locks) Wait(ctx context.Context, key string) (end func(), err error) {
	c, err := n.get(ctx)
	if err != nil {
		return nil, err
	}
	defer n.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.life, cancel)()
	for {
		r := n.waitNamedLock(ctx, c, key)
		switch {
		case r.got && ctx.Err() == nil:
			return n.begin(c), nil
		case ctx.Err() != nil:
			if r.got || r.killed {
				n.release(c)
			}
			c.Put()
			if n.life.Err() != nil {
				return nil, conn.ErrClosed()
			}
			return nil, conn.NotSent("wait in table "+n.table, ctx.Err())
		case r.err != nil:
			n.failed()
			c.Broken = true
			c.Put()
			return nil, ErrNoTurn(r.err)
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

// Close ends the waits and closes all sessions, and with them go their locks.
func (n *Locks) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.end()
	n.work.Wait()
	for _, t := range n.Turns() {
		t.Use(func(c *conn.Conn) {
			c.Broken = true
			c.Put()
		})
	}
}
