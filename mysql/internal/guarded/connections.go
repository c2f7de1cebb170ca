package guarded

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

const (
	// MostIdle is how many connections of transactions are kept idle.
	MostIdle = 8

	// leastSilence is the smallest wait_timeout of one. A longer TTL is one.
	leastSilence = time.Minute
)

// newConnections is the pool of the connections of InTx and Once. Settings that fn may
// notice, such as how long a statement waits for a lock, are those of the pool of
// database/sql. A few are kept for the next, where the owner of that pool has bounded it
// only briefly: those are what the owner's own transactions need.
func newConnections(d *conn.DB) *conn.Pool {
	return d.NewPool(conn.PoolOptions{
		Kind: conn.Transaction,
		Prepare: func(ctx context.Context, c *conn.Conn, _ time.Duration) (err error) {
			if c.Repeatable, err = d.LogsStatements(ctx, c); err == nil && c.Repeatable {
				_, err = c.Exec(ctx, 0, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
			}
			return err
		},
		Holds:   true,
		Later:   true, // what begins it holds nothing yet
		Patient: true, // as long as the lease lasts
		From:    d.ForTransactions(),
		IdleMost: func() int {
			if d.Few {
				return 0
			}
			return MostIdle
		},
		IdleFor: conn.QuietFor,
		Borrows: true,
	})
}
