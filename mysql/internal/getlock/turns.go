package getlock

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Turn is a session that has a named lock. Ending it again has no effect.
type Turn struct {
	c     *conn.Conn
	mu    sync.Mutex  // of who uses the session
	alive *time.Timer // see keepAlive; guarded by Locks.mu
}

// Use runs f on the session, which nobody else uses meanwhile.
func (t *Turn) Use(f func(*conn.Conn)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.c)
}

// Turns are those that go on.
func (n *Locks) Turns() []*Turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.turns))
}

// begin leaves the lock with the session of a client until the turn is ended.
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
	t.alive = time.AfterFunc(n.KeepAlive, func() { n.keepAlive(t) })
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
		t.Use(func(c *conn.Conn) {
			n.release(c)
			c.Put()
		})
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
	if !n.heard(t) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hasTurn(t) {
		t.alive.Reset(n.KeepAlive)
	}
}

// heard sends something on the session of a turn; false: the turn is over, or the session is not what it was.
func (n *Locks) heard(t *Turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.mu.Lock()
	has := n.hasTurn(t) // whoever ends it meanwhile waits
	n.mu.Unlock()
	if !has || t.c.Broken {
		return false
	}
	ctx, cancel := context.WithTimeout(n.life, workTimeout)
	defer cancel()
	if _, err := t.c.Exec(ctx, 0, "DO 0"); err != nil {
		t.c.Broken = true
		return false
	}
	return true
}

// hasTurn reports whether the turn of a session goes on. Called under mu.
func (n *Locks) hasTurn(t *Turn) bool {
	_, has := n.turns[t]
	return has && !n.closed
}
