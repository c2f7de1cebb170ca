package mysqllock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestForUpdateTellsWhoWaits: Inspect and List say that a program waits in the server's queue or behind readers, without a
// number.
func TestForUpdateTellsWhoWaits(t *testing.T) {
	onServers(t, func(t *testing.T, l *lab) {
		holder, waiter := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		infos := func(key string) (infos []driver.Info) {
			t.Helper()
			listed, err := holder.Client.List(t.Context(), key, "", 1)
			must(t, err)
			asked, err := holder.Inspect(t.Context(), key)
			must(t, err)
			return append(listed, asked)
		}
		for key, how := range map[string][]rowlock.Option{"queue": nil, "readers": {rowlock.Shared()}} {
			lease := holder.lock(t, key, how...)
			for _, i := range infos(key) {
				if i.Waiting != 0 {
					t.Errorf("%s: nobody waits, but %+v", key, i)
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, err := waiter.Client.Acquire(ctx, key)
				left <- err
			}()
			eventually(t, key+": one waits", func() bool {
				for _, i := range infos(key) {
					if i.Waiting != 1 || !i.WaitingSince.IsZero() {
						return false
					}
				}
				return true
			})
			leave()
			<-left
			must(t, lease.Release(patient(t)))
		}
	}, SelectForUpdate)
}

// TestP27_ForUpdateDeadWait: a session that stands in the server's queue dies without a word. Where another statement of the program finds
// out that its connection is dead, the wait is asked about then, not at the end of its slice.
func TestP27_ForUpdateDeadWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		other := client{t: t, Store: l.store()}
		w := l.firewall()
		c := client{t: t, Store: l.bare()}
		const slice = 5 * time.Second
		for try := 1; ; try++ {
			key := fmt.Sprint("k", try)
			h := other.granted(key, time.Minute)
			q := request(key, time.Minute)
			c.release(c.granted("free", time.Minute)) // a session at rest
			got := make(chan driver.Result, 1)
			start := time.Now()
			go func() {
				r, err := c.AcquireWait(patient(t), q, func() {})
				if err != nil {
					r.Err = err
				}
				got <- r
			}()
			eventually(t, "it stands in the queue", func() bool { return l.inQueue() > 0 })
			w.deaden()
			other.release(h)
			_, _ = c.Store.Acquire(patient(t), []driver.Request{request("free", time.Minute)})
			r := <-got
			took := time.Since(start)
			t.Logf("try %d: %v after %v, %v", try, r.Status, took, r.Err)
			if (r.Status == driver.Granted || driver.IsSilent(r.Err)) && took < slice {
				return
			}
			if try == 3 {
				t.Fatalf("P27: a dead wait went on for longer than a slice of %v, %d times", slice, try)
			}
		}
	})
}
