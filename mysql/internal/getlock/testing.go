package getlock

import (
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// What the tests of the packages above see and set. Nothing else uses it.

// Turns are the turns that go on.
func (n *Locks) Turns() (turns []*Turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.turns {
		turns = append(turns, t)
	}
	return turns
}

// Paused reports whether no session is used now, after a failure.
func (n *Locks) Paused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Before(n.pausedUntil)
}

// KeepAliveEvery sets how often the session of a turn is heard of.
func (n *Locks) KeepAliveEvery(d time.Duration) { n.alive = d }

// Use runs f on the session of the turn.
func (t *Turn) Use(f func(*conn.Conn)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.c)
}

// TicketLock is the name of the lock of a ticket, as an expression.
func TicketLock(table, key string, seq int64) string { return ticketLock(table, key, seq) }
