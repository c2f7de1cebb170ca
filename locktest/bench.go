// Benchmarks that every backend runs. A number means something only beside another
// one of the same run, so each side of a comparison is measured in turns with the
// other, and a ratio of the medians is reported.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// Bench runs all benchmarks:
//
//	func BenchmarkStore(b *testing.B) { locktest.Bench(b, harness(b)) }
func Bench(b *testing.B, h Harness) {
	b.Run("cycle", func(b *testing.B) { benchCycle(b, h) })
	b.Run("refused", func(b *testing.B) { benchRefused(b, h) })
	b.Run("renew", func(b *testing.B) { benchRenew(b, h) })
	if h.Connections != nil {
		b.Run("connections", func(b *testing.B) { benchConnections(b, h) })
	}
}

// benchCycle measures a lease cycle, acquire and release, of one worker. With
// Harness.Floor each cycle takes turns with a floor, two durable commits written by
// hand, and x-floor is the throughput in relation to it: 1 is as fast as the floor.
// Statements of each cycle are reported where the Store counts them.
func benchCycle(b *testing.B, h Harness) {
	e := newEnv(b, h)
	s := h.Open(b)
	c := e.clientOn(b, s, rowlock.Options{})
	key := e.key(b)
	ctx := context.Background()
	cycle := func() error {
		lease, err := c.Acquire(ctx, key)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
	floor := func() error { return nil }
	if h.Floor != nil {
		floor = h.Floor(b)
	}
	for range 20 { // connections are open, pages in memory
		if err := errors.Join(cycle(), floor()); err != nil {
			b.Fatal(err)
		}
	}
	var cycles, floors []time.Duration
	timed := func(spans *[]time.Duration, do func() error) {
		began := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		*spans = append(*spans, time.Since(began))
	}
	sent := statements(s)
	for b.Loop() {
		if len(cycles)%2 == 0 { // neither is always the one after the other
			timed(&cycles, cycle)
			timed(&floors, floor)
		} else {
			timed(&floors, floor)
			timed(&cycles, cycle)
		}
	}
	b.ReportMetric(float64(statements(s)-sent)/float64(b.N), "statements/cycle")
	b.ReportMetric(micros(median(cycles)), "µs/cycle")
	if h.Floor != nil {
		b.ReportMetric(micros(median(floors)), "µs/floor")
		b.ReportMetric(float64(median(floors))/float64(median(cycles)), "x-floor")
	}
	b.ReportMetric(0, "ns/op") // of cycle and floor together: hidden
}

func median(spans []time.Duration) time.Duration {
	slices.Sort(spans)
	return spans[len(spans)/2]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// statements is what the Store has sent; 0 if it does not count.
func statements(s driver.Store) uint64 {
	if c, ok := s.(driver.Counter); ok {
		return c.Statements()
	}
	return 0
}

// benchRefused measures tries for a held key, and probes of it, by 1 and by 16
// clients of one Store.
func benchRefused(b *testing.B, h Harness) {
	for _, workers := range []int{1, 16} {
		for _, what := range []string{"try", "probe"} {
			b.Run(fmt.Sprintf("%s/%d", what, workers), func(b *testing.B) {
				e := newEnv(b, h)
				key := e.key(b)
				lease := acquire(b, e.client(b, rowlock.Options{}), key)
				s := h.Open(b)
				refuse := func(c *rowlock.Client) error {
					if _, err := c.TryAcquire(context.Background(), key); !errors.Is(err, rowlock.ErrHeld) {
						return fmt.Errorf("a try for a held key: %v", err)
					}
					return nil
				}
				if what == "probe" {
					refuse = func(*rowlock.Client) error {
						infos, err := s.Inspect(context.Background(), []string{key})
						if err == nil && !infos[0].Held {
							err = errors.New("a held key looks free")
						}
						return err
					}
				}
				var clients []*rowlock.Client
				for range workers {
					clients = append(clients, e.clientOn(b, s, rowlock.Options{}))
				}
				for _, c := range clients {
					if err := refuse(c); err != nil {
						b.Fatal(err)
					}
				}
				work := make(chan struct{})
				var wg sync.WaitGroup
				sent := statements(s)
				for _, c := range clients {
					wg.Go(func() {
						for range work {
							if err := refuse(c); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for b.Loop() {
					work <- struct{}{}
				}
				close(work)
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
				b.ReportMetric(float64(statements(s)-sent)/float64(b.N), "statements/op")
				release1(b, lease)
			})
		}
	}
}

// benchRenew measures the renewal of 1, 100 and 1000 leases in as few calls as the
// Store's largest batch allows.
func benchRenew(b *testing.B, h Harness) {
	e := newEnv(b, h)
	for _, n := range []int{1, 100, 1000} {
		if e.hold(n) < n {
			continue // a connection for each
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := h.Open(b)
			holds := e.holds(b, s, n, longTTL)
			sent := statements(s)
			for b.Loop() {
				for batch := range slices.Chunk(holds, e.limits.Batch) {
					results, err := s.Renew(context.Background(), batch)
					if err != nil {
						b.Fatal(err)
					}
					for _, r := range results {
						if r.Status != driver.Alive {
							b.Fatalf("renew %d: %v (%v)", n, r.Status, r.Err)
						}
					}
				}
			}
			b.ReportMetric(float64(statements(s)-sent)/float64(b.N), "statements/op")
			b.ReportMetric(micros(b.Elapsed())/1000/float64(b.N), "ms/op")
			b.ReportMetric(micros(b.Elapsed())/float64(b.N*n), "µs/lease")
			for batch := range slices.Chunk(holds, e.limits.Batch) {
				answerAll(b, s.Release, batch, driver.Released)
			}
		})
	}
}

// benchConnections reports the most connections, counted on the server, of one
// client with 200 holders and 200 waiters.
func benchConnections(b *testing.B, h Harness) {
	e := newEnv(b, h)
	var u usage
	for b.Loop() {
		u = e.gather(b, 200, time.Second)
	}
	b.ReportMetric(float64(u.most), "connections")
	b.ReportMetric(float64(u.held), "leases")
	b.ReportMetric(float64(u.waiters), "waiters")
}
