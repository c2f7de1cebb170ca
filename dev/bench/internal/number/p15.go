package number

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Of P15.
const (
	besideWorkers  = 8
	besideTrips    = 4               // the round trips that a batch may be slower by, beside the bound of 100 ms
	besidePatience = 2 * time.Minute // for all pairs: a key that is never answered ends the measurement
	settled        = 5 * time.Second // how long the end of the waiters' attempts is waited for
)

// P15 measures workers with keys of their own while the same client waits for keys
// that foreign transactions block, in turns with the same workers alone.
func (b *Bench) P15(ctx context.Context) error {
	for _, c := range shuffled(b.strategies()) {
		for _, n := range b.Plan.Blocked {
			b.Say("P15: %s, %d blocked keys", c, n)
			if err := b.failed(ctx, "P15", c.String(), b.beside(ctx, c, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) beside(ctx context.Context, c candidate, n int) error {
	ctx, cancel := context.WithTimeout(ctx, besidePatience)
	defer cancel()
	trip, err := b.trip(ctx, c)
	if err != nil {
		return err
	}
	blocker, err := side.OpenBlocker(c.server.Spec(c.kind, n))
	if err != nil {
		return err
	}
	defer blocker.Close()
	r, err := side.OpenRowlock(c.server.Spec(c.kind, n+besideWorkers))
	if err != nil {
		return err
	}
	defer b.end("P15", c, r)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("blocked-%d-%03d", n, i)
	}
	load := func() ([]time.Duration, error) {
		run, err := measure.Workers(ctx, r, besideWorkers, b.Plan.Beside, side.Key)
		return run.Latencies, err
	}
	alone := load
	beside := func() (spans []time.Duration, err error) {
		unblock, err := blocker.Block(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("blocking %d keys: %w", n, err)
		}
		wait, stop := context.WithCancel(ctx)
		var waiters sync.WaitGroup
		for _, key := range keys {
			waiters.Go(func() {
				if l, err := r.Client.Acquire(wait, key); err == nil {
					_ = l.Release(ctx)
				}
			})
		}
		spans, err = load()
		stop()
		unblock()
		waiters.Wait()
		for end := time.Now().Add(settled); r.Client.Stats().Unresolved > 0 && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(10 * time.Millisecond)
		}
		return spans, err
	}
	if _, err := load(); err != nil { // connections, and pages in memory
		return err
	}
	at := c.at("P15", fmt.Sprintf("%d blocked", n), float64(n))
	for range b.Plan.Pairs {
		var spans [2][]time.Duration
		for _, i := range rand.Perm(2) {
			if spans[i], err = []func() ([]time.Duration, error){alone, beside}[i](); err != nil {
				return err
			}
		}
		var p99, most [2]float64
		for i := range spans {
			p99[i] = measure.Millis(measure.Quantile(spans[i], 0.99))
			most[i] = measure.Millis(measure.Quantile(spans[i], 1))
		}
		b.File.Add(at, "p99 alone ms", p99[0])
		b.File.Add(at, "p99 beside ms", p99[1])
		b.File.Add(at, "longest alone ms", most[0])
		b.File.Add(at, "longest beside ms", most[1])
		b.File.Add(at, "p99 more, less 4 trips, ms", p99[1]-p99[0]-besideTrips*measure.Millis(trip))
	}
	b.void(at, lost(r, n+besideWorkers), "p99 more, less 4 trips, ms")
	return nil
}
