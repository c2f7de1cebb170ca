package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP26_AWaveOfReleases: thousands of leases are released at once, and the others
// of the same client live on. A short TTL is no reason for a statement of its own.
func TestP26_AWaveOfReleases(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 6 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const wave, others = 2000, 100
				n := newFaultStore()
				n.set(narrow(2, 10*time.Millisecond))
				c, err := rowlock.New(n, rowlock.Options{TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				take := func(name string, n int) []*rowlock.Lease {
					leases := make([]*rowlock.Lease, n)
					var wg sync.WaitGroup
					for i := range leases {
						wg.Go(func() { leases[i] = acquire(t, c, fmt.Sprint(name, i)) })
					}
					wg.Wait()
					return leases
				}
				living, ending := take("stays", others), take("ends", wave)
				time.Sleep(ttl) // renewals go their way
				var wg sync.WaitGroup
				for _, l := range ending {
					wg.Go(func() {
						if err := l.Release(context.Background()); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				time.Sleep(2 * ttl)
				lost := 0
				for _, l := range living {
					if l.Err() != nil {
						lost++
					}
				}
				sent := len(n.seen("release"))
				if lost > 0 {
					t.Errorf("%d of %d leases lost beside %d releases", lost, others, wave)
				}
				if most := 2*wave/n.Limits().Batch + maxInFlight; sent > most {
					t.Errorf("%d releases in %d statements, want at most %d", wave, sent, most)
				}
				if s := c.Stats(); s.LateReleases > 0 {
					t.Errorf("%d releases were late", s.LateReleases)
				}
			})
		})
	}
}

// maxInFlight is how many batches of releases the engine has under way at most.
const maxInFlight = 4

// TestAReleaseWithLittleTrust: the trust of one lease is nearly over. Its release waits
// no longer than that, and takes no time from those of the others.
func TestAReleaseWithLittleTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		long := []*rowlock.Lease{acquire(t, c, "long1"), acquire(t, c, "long2"), acquire(t, c, "long3"), acquire(t, c, "long4")}
		short := acquire(t, c, "short", rowlock.NoRenew(), rowlock.TTL(20*time.Second))
		left := 10 * time.Millisecond
		time.Sleep(time.Until(short.Until()) - left)
		f.set(on("release", verdict{slow: 100 * time.Millisecond}))
		var wg sync.WaitGroup
		for _, l := range long {
			wg.Go(func() {
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		start := time.Now()
		if err := short.Release(context.Background()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > left {
			t.Errorf("waited for %v, the lease was trusted for %v", d, left)
		}
		wg.Wait()
		if s := c.Stats(); s.LateReleases != 1 {
			t.Errorf("%d releases were late, want that of the lease without trust only", s.LateReleases)
		}
	})
}

// TestReleasesOfShortLeases: callers that release leases of a short TTL
// share their statements as others do, also after many such releases.
func TestReleasesOfShortLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, cycles, tick = 8, 50, 10 * time.Millisecond
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{TTL: 2 * time.Second})
		start := time.Now()
		f.set(func(call) verdict { // a commit goes with the next sync
			return verdict{slow: 2*tick - time.Since(start)%tick}
		})
		for i := range 100 {
			acquire(t, c, fmt.Sprint("before", i)).Release(context.Background())
		}
		time.Sleep(time.Second)
		before := len(f.seen("release"))
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range cycles {
					if err := acquire(t, c, fmt.Sprint("k", i)).Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := len(f.seen("release")) - before; n > cycles+cycles/4 {
			t.Errorf("%d statements for %d releases of %d callers", n, cycles, callers)
		}
	})
}

// TestP26_TenThousandShortLeases: ten thousand leases of the shortest TTL for which that
// is promised live beside a thousand releases a second and as many waiters, on a server
// that needs a while for each commit. In the short tier they are a tenth.
func TestP26_TenThousandShortLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		leases, waiters := tenth(10_000), tenth(1000)
		n := newFaultStore()
		n.set(narrow(2, 50*time.Millisecond))
		c, err := rowlock.New(n, rowlock.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		held := make([]*rowlock.Lease, leases)
		var wg sync.WaitGroup
		for i := range held {
			wg.Go(func() { held[i] = acquire(t, c, fmt.Sprint("stays", i)) })
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*ttl)
		defer cancel()
		for i := range waiters {
			wg.Go(func() {
				if _, err := c.Acquire(ctx, fmt.Sprint("stays", i)); err == nil {
					t.Error("a held key was granted")
				}
			})
		}
		for w := range tenth(1000) {
			wg.Go(func() { // once a second
				for i := 0; ctx.Err() == nil; i++ {
					acquire(t, c, fmt.Sprint("worker", w)).Release(ctx)
					sleep(ctx, time.Second)
				}
			})
		}
		wg.Wait()
		lost := 0
		for _, l := range held {
			if l.Err() != nil {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%d of %d leases lost", lost, leases)
		}
	})
}
