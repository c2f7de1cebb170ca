package mysqllock

import (
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// asks makes a request until the server has had the time for an answer: where a statement is slow
// nothing is known, or the key is pinned. What waits for a transaction that the test has open gets no
// other answer, however often it asks.
func (c client) asks(what string, q driver.Request, want driver.Status) (r driver.Result) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%s: %v", what, want), func() bool {
		results, err := c.Acquire(patient(c.t), []driver.Request{q})
		if err != nil {
			if driver.IsLasting(err) {
				c.t.Fatalf("%s: %v", what, err)
			}
			return false
		}
		r = results[0]
		return r.Status == want || r.Status != driver.Unknown && r.Status != driver.Pinned
	})
	c.wants(what, r.Status, want)
	return r
}

// gets is grant on a server that may be slow, as asks has it.
func (c client) gets(q driver.Request) driver.Hold {
	c.t.Helper()
	r := c.asks(fmt.Sprintf("acquire %q, mode %v", q.Key, q.Mode), q, driver.Granted)
	return driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Keep: q.Keep, Guarded: q.Guarded, Mode: q.Mode, Slot: r.Slot, Phase: r.Phase}
}

// ends releases holds, each until there is an answer. That of the first try is the wanted one; one that
// is asked for again may say that the hold is over.
func (c client) ends(what string, want driver.Status, holds ...driver.Hold) {
	c.t.Helper()
	results, err := c.Release(patient(c.t), holds)
	for i, h := range holds {
		if err == nil && results[i].Status != driver.Unknown {
			c.wants(what, results[i].Status, want)
			continue
		}
		eventually(c.t, what+": an answer", func() bool {
			again, err := c.Release(patient(c.t), []driver.Hold{h})
			return err == nil && again[0].Status != driver.Unknown
		})
	}
}
