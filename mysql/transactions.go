package mysqllock

import (
	"context"
	"time"
)

const (
	// idleTransactions is how many connections of transactions are kept idle.
	idleTransactions = 8

	// leastSilence is the smallest wait_timeout of one. A longer TTL is one.
	leastSilence = time.Minute
)

// newTransactions is the pool of the connections of InTx and Once. Settings that fn may
// notice, such as how long a statement waits for a lock, are those of the pool of
// database/sql. A few are kept for the next, but not where the owner of that pool has
// bounded it: those are what the owner's own transactions need.
func newTransactions(d *db) *pool {
	return d.newPool(poolOptions{
		settings: []string{rollback, "SET SESSION autocommit=0", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"}, // see transaction and isolation.go
		prepare: func(ctx context.Context, c *conn, _ time.Duration) (err error) {
			if c.repeatable, err = d.logsStatements(ctx, c); err == nil && c.repeatable {
				_, err = c.exec(ctx, 0, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
			}
			return err
		},
		holds:   true,
		patient: true, // as long as the lease lasts
		idleMost: func() int {
			if d.sql.Stats().MaxOpenConnections > 0 {
				return 0
			}
			return idleTransactions
		},
		idleFor: quietFor,
	})
}
