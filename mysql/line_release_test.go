package mysqllock

import (
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestLine_TakenAtOnce: of two keys that are released together one has a line that the program has not seen, so that its row is
// read. The other is taken the moment it is free. Its holder has released it, and has not lost it.
func TestLine_TakenAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		for _, keep := range []time.Duration{0, time.Millisecond} { // what is not kept any more
			holds := []driver.Hold{c.granted("free", time.Minute), c.granted("waited", time.Minute)}
			for i := range holds {
				holds[i].Keep = keep
			}
			q := stands("waited")
			other.stand(q, 1, 1)
			taken := request("free", time.Minute)
			var came driver.Result
			var mu sync.Mutex // a statement of another connection may come at the same time
			rec.stop(func(string) error {
				mu.Lock()
				defer mu.Unlock()
				if came.Status == driver.Granted {
					return nil
				}
				if results, err := other.Acquire(patient(t), []driver.Request{taken}); err == nil && results[0].Status == driver.Granted {
					came = results[0]
				}
				return nil
			})
			results := c.release(holds...)
			rec.stop(nil)
			mu.Lock()
			defer mu.Unlock()
			c.wants("the key that was taken at once", came.Status, driver.Granted)
			c.wants("release of the key that was taken at once", results[0].Status, driver.Released)
			c.wants("release of the key with a line", results[1].Status, driver.Released)
			free := driver.Hold{Key: "free", ID: taken.ID, TTL: taken.TTL, Slot: -1}
			other.wants("release of what was taken", other.release(free)[0].Status, driver.Released)
			if keep > 0 {
				other.grant(q)
			}
			other.wants("release of what was passed", other.release(other.mine(q))[0].Status, driver.Released)
		}
	})
}
