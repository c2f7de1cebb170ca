package mysqllock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP26_AWaveOfReleases: two thousand leases with a short TTL are released at once.
// The client's other leases live on, because releases share their statements.
func TestP26_AWaveOfReleases(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		const wave, others, ttl = 2000, 100, 3 * time.Second
		store := l.store()
		c, err := rowlock.New(store, rowlock.Options{TTL: ttl, Reap: -1})
		must(t, err)
		defer c.Close(t.Context())
		take := func(name string, n int) []*rowlock.Lease {
			leases := make([]*rowlock.Lease, n)
			var wg sync.WaitGroup
			for i := range leases {
				wg.Go(func() {
					var err error
					if leases[i], err = c.Acquire(t.Context(), fmt.Sprint(name, i)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			return leases
		}
		living, ending := take("stays", others), take("ends", wave)
		if t.Failed() {
			return
		}
		slowest := premise(t, l)
		before := store.Statements()
		var wg sync.WaitGroup
		for _, lease := range ending {
			wg.Go(func() { lease.Release(t.Context()) })
		}
		wg.Wait()
		if n := store.Statements() - before; n > wave/4 {
			t.Errorf("%d statements for %d releases", n, wave)
		}
		time.Sleep(ttl) // who was not renewed meanwhile is lost
		lost := 0
		for _, lease := range living {
			if lease.Err() != nil {
				lost++
			}
		}
		noneLost(t, lost, others, ttl, slowest())
	})
}

// noneLost is an error if a lease was lost, but where the premise did not hold.
func noneLost(t *testing.T, lost, of int, ttl, slowest time.Duration) {
	t.Helper()
	if lost > 0 {
		p26(t, fmt.Errorf("%d of %d leases lost", lost, of), ttl, slowest)
	}
}

// p26 reports what went wrong with leases of that TTL, if the promise's premise held: it
// asks for a server that commits, and for a processor.
func p26(t *testing.T, err error, ttl, slowest time.Duration) {
	t.Helper()
	switch {
	case err == nil:
	case slowest > ttl/6:
		t.Logf("%v, on a machine where another program needed up to %v for a cycle", err, slowest)
	default:
		t.Errorf("P26: %v; another program needed up to %v for a cycle", err, slowest)
	}
}

// premise locks and unlocks a key as another program would, until the returned
// function is called: that tells how long the slowest cycle took.
func premise(t *testing.T, l *lab) func() time.Duration {
	c, err := rowlock.New(l.store(), rowlock.Options{Reap: -1})
	must(t, err)
	first, err := c.Acquire(t.Context(), "premise")
	must(t, err)
	must(t, first.Release(t.Context()))
	end, slowest := make(chan struct{}), make(chan time.Duration, 1)
	stop := sync.OnceFunc(func() { close(end) })
	t.Cleanup(stop)
	go func() {
		defer c.Close(context.Background())
		var most time.Duration
		for {
			began := time.Now()
			if lease, err := c.TryAcquire(context.Background(), "premise"); err == nil {
				lease.Release(context.Background())
			}
			most = max(most, time.Since(began))
			select {
			case <-end:
				slowest <- most
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return sync.OnceValue(func() time.Duration { stop(); return <-slowest })
}
