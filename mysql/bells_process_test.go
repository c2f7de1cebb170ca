//go:build unix

package mysqllock

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestBellsHolderGone: the process that holds the key and its bell is killed, or
// stands still. Nobody gets the key before its TTL has passed, and the waiter soon
// after: the bell of the dead rings too early, that of the frozen not at all.
func TestBellsHolderGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, _ := ringers(t, l, 1, 2)
		for signal, late := range map[syscall.Signal]time.Duration{syscall.SIGKILL: 500 * time.Millisecond, syscall.SIGSTOP: time.Second} {
			best(t, fmt.Sprintf("granted after %v, TTL 1s", signal), time.Second+late+500*time.Millisecond, func() time.Duration {
				return l.holderGone(t, clients[0], signal)
			})
		}
	})
}

// holderGone is how long after the signal to its holder a waiter gets the key.
func (l *lab) holderGone(t *testing.T, c *rowlock.Client, signal syscall.Signal) time.Duration {
	lease, err := c.Acquire(t.Context(), "a")
	must(t, err)
	time.AfterFunc(500*time.Millisecond, func() { _ = lease.Release(t.Context()) })
	p, token, _ := holder(t, l)
	got := begin(t, c, "a")
	eventually(t, "the waiter is in line, or a busy holder has lost its lease", func() bool { return len(l.lines(t)) == 1 || len(got) == 1 })
	must(t, p.Signal(signal))
	start := time.Now()
	var stored, until int64 // of the hold that is not renewed any more, by the server's clock
	must(t, l.db.QueryRow(fmt.Sprintf("SELECT token,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',expires_at) FROM %s WHERE name='a'", l.table())).Scan(&stored, &until))
	next := <-got
	took := time.Since(start)
	t.Logf("granted %v after %v, TTL 1s", took, signal)
	if next.Token() <= token {
		t.Errorf("token %d after %d", next.Token(), token)
	}
	must(t, p.Kill())
	must(t, next.Release(t.Context()))
	if stored > token { // it was lost before the signal
		return patience
	}
	if granted := next.Token() / 1024; granted < until {
		t.Errorf("P1: granted %v before the end of a hold whose holder met %v", time.Duration(until-granted)*time.Microsecond, signal)
	}
	return took
}
