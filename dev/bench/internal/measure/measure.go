// Package measure has the loops that are timed.
package measure

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Quantile of values, which it sorts; 0 of none.
func Quantile[T ~int64 | float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(q*float64(len(values)-1)+0.5)]
}

// Millis is a duration as a number of milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Cycle is a lock and its unlock, timed.
func Cycle(ctx context.Context, l side.Locker, key string) (time.Duration, error) {
	begin := time.Now()
	h, err := l.Lock(ctx, key)
	if err == nil {
		err = h.Unlock(ctx)
	}
	return time.Since(begin), err
}

// Run is what a number of workers have done.
type Run struct {
	Cycles    int
	Elapsed   time.Duration
	Latencies []time.Duration // of each cycle
	Least     int             // cycles of the worker with the fewest
	Most      int             // and with the most
	Disorder  int             // tokens that were not larger than the one before (one key only)
}

// Rate is cycles a second.
func (r Run) Rate() float64 { return float64(r.Cycles) / r.Elapsed.Seconds() }

// Workers lets each worker lock and unlock the key that key names, over and over,
// for d. With one key for all, it looks at the order of their tokens.
func Workers(ctx context.Context, l side.Locker, workers int, d time.Duration, key func(worker int) string) (Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg        sync.WaitGroup
		first     error
		fail      sync.Once
		disorder  atomic.Int64
		last      atomic.Int64
		oneKey    = workers > 1 && key(0) == key(1)
		begin     = time.Now()
		latencies = make([][]time.Duration, workers)
	)
	for w := range workers {
		wg.Go(func() {
			name := key(w)
			for time.Since(begin) < d && ctx.Err() == nil {
				start := time.Now()
				h, err := l.Lock(ctx, name)
				if err == nil {
					if t, ok := h.(side.Tokened); oneKey && ok {
						if last.Swap(t.Token()) >= t.Token() { // only the holder is here
							disorder.Add(1)
						}
					}
					err = h.Unlock(ctx)
				}
				if err != nil {
					fail.Do(func() { first = err; cancel() })
					return
				}
				latencies[w] = append(latencies[w], time.Since(start))
			}
		})
	}
	wg.Wait()
	r := Run{Elapsed: time.Since(begin), Disorder: int(disorder.Load()), Least: len(latencies[0])}
	for _, l := range latencies {
		r.Cycles += len(l)
		r.Least, r.Most = min(r.Least, len(l)), max(r.Most, len(l))
		r.Latencies = append(r.Latencies, l...)
	}
	return r, first
}
