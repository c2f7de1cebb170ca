//go:build unix

package mysqllock

import (
	"syscall"
	"testing"
	"time"
)

// TestBellsHolderGone: the process that holds the key and its bell is killed, or
// stands still. Nobody gets the key before its TTL has passed, and the waiter soon
// after: the bell of the dead rings too early, that of the frozen not at all.
func TestBellsHolderGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, _ := ringers(t, l, 1, 2)
		for signal, late := range map[syscall.Signal]time.Duration{syscall.SIGKILL: 500 * time.Millisecond, syscall.SIGSTOP: time.Second} {
			lease, err := clients[0].Acquire(t.Context(), "a")
			must(t, err)
			time.AfterFunc(500*time.Millisecond, func() { _ = lease.Release(t.Context()) })
			p, token, _ := holder(t, l)
			got := begin(t, clients[0], "a")
			inLine(t, l, 1) // so the holder has the bell
			must(t, p.Signal(signal))
			start := time.Now()
			next := <-got
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
