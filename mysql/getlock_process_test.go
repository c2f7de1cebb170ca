//go:build unix

package mysqllock

import (
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestTurnsHolderGone: the process that holds the key and its turn is killed, or stands
// still. Nobody gets the key before its TTL has passed, and the waiter soon after: the turn
// of the dead comes too early, that of the frozen not at all.
func TestTurnsHolderGone(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, _ := waiters(t, l, 1, 2)
		for signal, late := range map[syscall.Signal]time.Duration{syscall.SIGKILL: 500 * time.Millisecond, syscall.SIGSTOP: 1500 * time.Millisecond} {
			lease, err := clients[0].Acquire(patient(t), "a")
			must(t, err)
			time.AfterFunc(500*time.Millisecond, func() { _ = lease.Release(t.Context()) })
			p, token, _ := holder(t, l)
			got := begin(t, clients[0], "a")
			inLine(t, l, 1) // so the holder has the turn
			must(t, p.Signal(signal))
			start := time.Now()
			next := <-got
			if next == nil {
				return
			}
			took := time.Since(start)
			t.Logf("granted %v after %v, TTL 1s", took, signal)
			if took < 500*time.Millisecond || took > time.Second+late+500*time.Millisecond {
				t.Errorf("P1: granted %v after %v", took, signal)
			}
			if next.Token() <= token {
				t.Errorf("token %d after %d", next.Token(), token)
			}
			must(t, p.Kill())
			must(t, next.Release(t.Context()))
		}
	})
}
