package mysqllock

import (
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestApplicationPoolUsedUp: the application has taken every connection that its
// own pool allows. A store made by Open loses no lease and goes on locking.
func TestApplicationPoolUsedUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		app := l.open(l.config)
		app.SetMaxOpenConns(5)
		const ttl = time.Second
		c, err := rowlock.New(l.store(), rowlock.Options{TTL: ttl, ReapInterval: -1})
		must(t, err)
		defer c.Close(t.Context())
		busy := premise(t, l)
		var leases []*rowlock.Lease
		for _, key := range []string{"a", "b", "c"} {
			lease, err := c.Acquire(patient(t), key)
			must(t, err)
			leases = append(leases, lease)
		}
		for app.Stats().InUse < 5 {
			tx, err := app.BeginTx(t.Context(), nil)
			must(t, err)
			defer tx.Rollback()
		}
		lost, n := 0, 0
		release := func(lease *rowlock.Lease) {
			n++
			if err := lease.Release(t.Context()); errors.Is(err, rowlock.ErrLost) {
				lost++
			} else {
				must(t, err)
			}
		}
		for end := time.Now().Add(5 * ttl); time.Now().Before(end); {
			lease, err := c.Acquire(patient(t), "more", rowlock.MinHold(ttl/10)) // its next turn is a tenth of a TTL away
			must(t, err)
			release(lease)
		}
		for _, lease := range leases {
			release(lease)
		}
		noneLost(t, lost, n, ttl, busy())
	})
}
