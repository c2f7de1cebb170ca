package getlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Turn is a session that has a named lock. Ending it again has no effect.
type Turn struct {
	c     *conn.Conn
	key   string      // of the named lock
	place int64       // Seq of the ticket whose lock it has too; 0: none. Guarded by Locks.mu
	alone bool        // it has no lock but that of the ticket
	mu    sync.Mutex  // of who uses the session
	alive *time.Timer // see keepAlive; guarded by Locks.mu
}

// begin leaves the lock with the session of a client until the turn is ended.
func (n *Locks) begin(f *follower) driver.Turn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		f.c.Broken = true // and the lock goes with it
		f.c.Put()
		return driver.Turn{End: func() {}}
	}
	t := &Turn{c: f.c, key: f.key, alone: f.alone}
	if f.own {
		t.place = f.in.Seq
	}
	n.turns[t] = struct{}{}
	t.alive = time.AfterFunc(n.alive, func() { n.keepAlive(t) })
	return driver.Turn{First: f.isFirst(), End: func() { n.endTurn(t) }}
}

// Removed lets go of the locks of tickets that were removed, in the background: their clients
// have got their keys, and keep the turns. Of Follow nothing is left.
func (n *Locks) Removed(tickets []driver.Ticket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.turns {
		used := func(q driver.Ticket) bool { return q.Seq == t.place && q.Key == t.key }
		if t.place == 0 || n.closed || !slices.ContainsFunc(tickets, used) {
			continue
		}
		if t.alone {
			n.endTurnLocked(t)
			continue
		}
		name := ticketLock(n.table, t.key, t.place)
		t.place = 0
		n.work.Add(1)
		go func() {
			defer n.work.Done()
			n.onTurn(t, "DO RELEASE_LOCK("+name+")")
		}()
	}
}

// onTurn sends a statement on the session of a turn; false: the turn is over, or the session
// is not what it was.
func (n *Locks) onTurn(t *Turn, statement string) bool {
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
	if _, err := t.c.Exec(ctx, 0, statement); err != nil {
		t.c.Broken = true
		return false
	}
	return true
}

// endTurn lets go of the lock of a session, in the background.
func (n *Locks) endTurn(t *Turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endTurnLocked(t)
}

func (n *Locks) endTurnLocked(t *Turn) {
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
	if !n.onTurn(t, "DO 0") {
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
