package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP15_ATakeoverDoesNotWait: while it waits for a guarded transaction an acquire has
// the row's lock, and everybody else on that key waits behind it. So it is ended long
// before the server would do that, after a second.
func TestP15_ATakeoverDoesNotWait(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		pin(l, c, "k")
		c.soon("P15: an acquire behind a guarded transaction", 900*time.Millisecond, func() {
			c.wants("an acquire behind a guard", c.acquire(request("k", time.Minute))[0].Status, driver.Pinned)
		})
	})
}
