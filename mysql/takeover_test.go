package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestP15_ATakeoverDoesNotWait: while it waits for a guarded transaction an acquire has
// the row's lock, and everybody else on that key waits behind it. So it is ended long
// before the server would do that, after a second. The best of some tries counts: the
// machine may be busy.
func TestP15_ATakeoverDoesNotWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		pin(l, c, "k")
		best := time.Hour
		for range 10 {
			start := time.Now()
			c.wants("an acquire behind a guard", c.acquire(request("k", time.Minute))[0].Status, driver.Pinned)
			best = min(best, time.Since(start))
		}
		if best > 900*time.Millisecond {
			t.Errorf("P15: an acquire waited for a guarded transaction for %v, at least", best)
		}
	})
}
