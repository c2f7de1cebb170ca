package number

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
	"github.com/rowlock/rowlock/driver"
)

// renewTTL is long enough that nothing else renews.
const renewTTL = 5 * time.Minute

// Renew measures the renewal of many leases in as few calls as the store's largest
// batch allows.
func (b *Bench) Renew(ctx context.Context) error {
	for _, n := range b.Plan.Renewed {
		for _, c := range shuffled(b.strategies()) {
			if c.kind == side.ForUpdate && !b.fits(c, "renew", n+20) {
				continue
			}
			b.Say("renew: %s, %d leases", c, n)
			if err := b.failed(ctx, "renew", c.String(), b.renewals(ctx, c, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) renewals(ctx context.Context, c candidate, n int) error {
	r, err := side.OpenRowlock(c.server.Spec(c.kind, n))
	if err != nil {
		return err
	}
	defer r.Close()
	holds, err := grant(ctx, r.Store, n)
	if err != nil {
		return err
	}
	defer func() {
		for batch := range slices.Chunk(holds, r.Store.Limits().Batch) {
			_, _ = r.Store.Release(context.WithoutCancel(ctx), batch)
		}
	}()
	var spans []time.Duration
	before := r.Statements()
	for begin := time.Now(); len(spans) < 3 || time.Since(begin) < b.Plan.Block; {
		start := time.Now()
		for batch := range slices.Chunk(holds, r.Store.Limits().Batch) {
			results, err := r.Store.Renew(ctx, batch)
			if err != nil {
				return err
			}
			for _, x := range results {
				if x.Status != driver.Alive {
					return fmt.Errorf("renewal of %d: %v (%w)", n, x.Status, x.Err)
				}
			}
		}
		spans = append(spans, time.Since(start))
	}
	at := c.at("renew", fmt.Sprintf("%d leases", n), float64(n))
	p50 := measure.Millis(measure.Quantile(spans, 0.5))
	b.File.Add(at, "p50 ms", p50)
	b.File.Add(at, "µs/lease", 1000*p50/float64(n))
	b.File.Add(at, "statements", float64(r.Statements()-before)/float64(len(spans)))
	return nil
}

// grant acquires n keys by the store itself: no client renews them.
func grant(ctx context.Context, s driver.Store, n int) (holds []driver.Hold, err error) {
	var reqs []driver.Request
	for i := range n {
		q := driver.Request{Key: fmt.Sprintf("renew-%d-%05d", n, i), Owner: "bench", TTL: renewTTL}
		_, _ = rand.Read(q.ID[:])
		reqs = append(reqs, q)
	}
	for batch := range slices.Chunk(reqs, s.Limits().Batch) {
		results, err := s.Acquire(ctx, batch)
		if err != nil {
			return holds, err
		}
		for i, x := range results {
			if x.Status != driver.Granted {
				return holds, fmt.Errorf("acquire %s: %v (%w)", batch[i].Key, x.Status, x.Err)
			}
			holds = append(holds, driver.Hold{Key: batch[i].Key, ID: batch[i].ID, Token: x.Token, Stored: x.Stored, TTL: renewTTL})
		}
	}
	return holds, nil
}
