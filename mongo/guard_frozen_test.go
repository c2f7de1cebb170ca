//go:build unix

package mongolock

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
)

// A process is frozen at a random moment of its work, another takes the key and
// writes, and the first goes on: it writes nothing more, and its first look at its
// lease says lost.
func TestP4_FrozenProcess(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	s := shared(t)
	const ttl = time.Second
	for range often(t, "ROWLOCK_FREEZES", 4) {
		p := child(t, s, txJob{Role: "frozen", TTL: ttl})
		p.says("works")
		time.Sleep(time.Duration(rand.IntN(30000)) * time.Microsecond)
		must(t, p.Signal(syscall.SIGSTOP))
		frozen := time.Now()
		c := locker(t, s, rowlock.Options{})
		lease := guarded(t, c, "k")
		must(t, s.InTx(t.Context(), lease, func(ctx context.Context) error { return stamp(ctx, s, lease) }))
		time.Sleep(time.Until(frozen.Add(ttl * 11 / 10))) // so that the process sees it
		must(t, p.Signal(syscall.SIGCONT))
		if look := p.says("look"); look != "lost" {
			t.Errorf("P2: the first look after the freeze says %s", look)
		}
		if end := p.says("end"); end != "lost" {
			t.Errorf("P4: the process that was frozen ends with %s, want lost", end)
		}
		if n := stale(t, s); n != 0 {
			locktest.Breach(t, "P4", "%d stale commits", n)
			t.FailNow()
		}
		must(t, lease.Release(t.Context()))
		_ = p.Kill()
	}
}
