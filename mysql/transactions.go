package mysqllock

import (
	"context"
	"fmt"
	"time"
)

// transactions are the connections of InTx and Once, one for each that runs. A few
// rest for the next, but not in a pool whose size its owner has bounded: those are
// what the owner's own transactions need.
type transactions struct {
	s *Store
	shelf[*txConn]
}

// txConn is a connection of the Store for a transaction of the caller's. Settings
// that the caller may notice, such as how long a statement waits for a lock, are
// those of its pool.
type txConn struct {
	c       *conn
	silence time.Duration // its wait_timeout: a host that is silent for longer loses the transaction
	stale   bool          // its server is not the primary any more
	repeats bool          // it is at REPEATABLE READ
}

const (
	// mayRest is how many connections rest at most.
	mayRest = 8

	// leastSilence is the smallest wait_timeout. A longer TTL is one.
	leastSilence = time.Minute
)

// prepareTx is what a connection is brought to; see transaction and isolation.go.
var prepareTx = []string{
	rollback,
	"SET SESSION autocommit=0",
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
}

func (p *transactions) get(ctx context.Context, ttl time.Duration) (*txConn, error) {
	p.s.control.keep(ctx) // must be older than what it may have to KILL
	silence := max(leastSilence, ttl)
	for {
		n, open := p.pop()
		if !open {
			return nil, errClosed()
		}
		if n == nil {
			c, err := p.s.openAs(ctx, 0, prepareTx, false) // as long as the lease lasts
			if err != nil {
				return nil, err
			}
			n = &txConn{c: c}
			if n.repeats, err = p.s.logsStatements(ctx, c); err == nil && n.repeats {
				_, err = c.exec(ctx, 0, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
			}
			if err != nil {
				n.close()
				return nil, notSent("prepare a connection", err)
			}
		} else if !n.fresh() || !n.c.alive(ctx) {
			n.close()
			continue
		}
		if n.silence == silence {
			return n, nil
		}
		p.s.statements.Add(1)
		sent := time.Now()
		_, err := n.c.sc.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout=%d", secondsOf(silence)))
		if err == nil {
			n.silence, n.c.heard = silence, sent
			return n, nil
		}
		rested := n.silence != 0
		n.close()
		if !rested || ctx.Err() != nil {
			return nil, notSent("prepare a connection", err)
		}
	}
}

// fresh: the server has not ended a connection at rest yet, nor is about to.
func (n *txConn) fresh() bool { return time.Since(n.c.used) < quietFor }

func (n *txConn) close() { n.c.close() }

// put takes back a connection without a transaction, or closes one that is broken.
func (p *transactions) put(n *txConn) {
	if n.stale {
		p.s.moved()
	}
	n.c.used = time.Now()
	bounded := p.s.db.Stats().MaxOpenConnections > 0
	p.mu.Lock()
	keep := !n.c.broken && !n.stale && !p.closed && !bounded && len(p.idle) < mayRest
	var stale []*txConn
	for len(p.idle) > 0 && !p.idle[0].fresh() {
		stale = append(stale, p.idle[0])
		p.idle = p.idle[1:]
	}
	if keep {
		p.idle = append(p.idle, n)
	} else {
		stale = append(stale, n)
	}
	p.mu.Unlock()
	for _, n := range stale {
		n.close()
	}
}
