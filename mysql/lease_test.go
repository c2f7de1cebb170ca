package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

func TestCycle(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t, l.store()}
		h := c.granted("job", time.Minute)

		r := c.acquire(request("job", time.Minute))[0]
		c.wants("a second acquire", r.Status, driver.Held)
		if r.Left < 50*time.Second || r.Left > time.Minute {
			t.Fatalf("left %v of a minute", r.Left)
		}
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)

		info := c.inspect("job")
		if !info.Held || info.Kept || info.Pinned || info.Owner != "test:1" || info.Token != h.Stored || info.Left < 50*time.Second {
			t.Fatalf("inspect: %+v", info)
		}
		if age := time.Since(info.Since); age < -time.Minute || age > time.Minute || info.Since.Location() != time.UTC {
			t.Fatalf("since %v", info.Since)
		}
		c.wants("release", c.release(h)[0].Status, driver.Released)
		if info := c.inspect("job"); info.Held || info.Left != 0 {
			t.Fatalf("inspect after the release: %+v", info)
		}
		next := c.granted("job", time.Minute)
		if next.Token < h.Token+driver.TokenRange {
			t.Fatalf("token %d after %d", next.Token, h.Token)
		}
	})
}
