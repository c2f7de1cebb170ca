package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestForUpdateSessionDiesBeforeItsGrant: the session that has the row's lock ends while
// the lease row is being written. The write is there, and grants nothing.
func TestForUpdateSessionDiesBeforeItsGrant(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.db.Usual.Store(int64(time.Second)) // the write may wait for as long as one ever does
		f := c.strategy.(*session.ForUpdate)
		for round := range 5 {
			key := fmt.Sprint("key", round)
			c.release(c.granted(key, time.Minute))
			ctx := patient(t)
			q := request(key, time.Minute)
			x := f.Attempt(q)
			own, err := x.Begin(ctx)
			must(t, err)
			unlock := lockRow(l, key)
			granted := make(chan bool)
			go func() {
				r, _ := x.Run(ctx)
				granted <- r.Status == driver.Granted
			}()
			time.Sleep(60 * time.Millisecond) // it has the row's lock, and waits for the lease row
			exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", own.ID))
			unlock()
			if <-granted {
				t.Fatalf("P1: granted in round %d, though its session is dead and the key is free", round)
			}
			own.Broken = true
			own.Put()
		}
	})
}
