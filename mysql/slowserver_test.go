package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// TestP26_LockedRowOnASlowServer: the server takes long for each answer, and a stranger's transaction locks the rows of a few leases, one
// after the other. The renewals of the others, which are sent with those, do not wait until no time is left.
func TestP26_LockedRowOnASlowServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const ttl, kept, locked, usual = 3 * time.Second, 12, 4, 250 * time.Millisecond
		s := l.store()
		busy := premise(t, l)
		_, lost := keepAlive(t, s, kept, func(i int) string { return fmt.Sprint("kept", i) }, ttl)
		end := make(chan struct{})
		defer close(end)
		go func() { // it is fast, which would be noticed
			for {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
					s.db.AssumeUsualAnswer(usual)
				}
			}
		}()
		for i := range locked {
			unlock := l.lockRows(fmt.Sprint("kept", i))
			conn.Sleep(within(t, patience), ttl*8/10)
			unlock()
			conn.Sleep(within(t, patience), ttl/30)
		}
		noneLost(t, max(lost()-locked, 0), kept-locked, ttl, busy()) // those whose rows were locked may be
	})
}
