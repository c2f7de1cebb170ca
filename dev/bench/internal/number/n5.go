package number

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// N5 keeps many leases alive, of all strategies at the same time: what is counted
// are statements and connections, not time. SelectForUpdate is left out: it needs a
// connection for each.
func (b *Bench) N5(ctx context.Context) error {
	var kept []*keeper
	defer func() {
		for _, k := range kept {
			b.end("N5", k.candidate, k.Rowlock)
		}
	}()
	for _, c := range b.strategies() {
		if c.kind == side.ForUpdate {
			continue
		}
		b.Say("N5: %s acquires %d leases", c, b.Plan.Leases)
		k, err := b.keep(ctx, c)
		if k != nil {
			kept = append(kept, k)
		}
		if err := b.failed(ctx, "N5", c.String(), err); err != nil {
			return err
		}
	}
	for _, k := range kept {
		k.began, k.sent, k.lost, k.renewed = time.Now(), k.Statements(), k.Client.Stats().Losses, k.Client.Stats().Renewals
		k.meter.Reset()
	}
	for left := b.Plan.Keep; left > 0; left -= time.Second {
		b.Say("N5: %d leases of each strategy are kept for %v more", b.Plan.Leases, left)
		select {
		case <-time.After(min(left, time.Second)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, k := range kept {
		thirds := time.Since(k.began).Seconds() / (b.Plan.KeepTTL.Seconds() / 3)
		at := k.at("N5", fmt.Sprintf("%d leases", b.Plan.Leases), float64(b.Plan.Leases))
		stats := k.Client.Stats()
		b.File.Add(at, "statements per TTL/3", float64(k.Statements()-k.sent)/thirds)
		b.File.Add(at, "renewals per TTL/3", float64(stats.Renewals-k.renewed)/thirds)
		b.File.Add(at, "connections used", float64(k.meter.Used()))
		b.File.Add(at, "connections open", float64(k.meter.Open()))
		b.File.Add(at, "lost", float64(stats.Losses-k.lost)+float64(b.Plan.Leases-stats.Held))
		b.File.Add(at, "seconds", time.Since(k.began).Seconds())
		b.File.Add(at, "acquired in s", k.took.Seconds())
		b.void(at, lost(k.Rowlock, b.Plan.Leases), "statements per TTL/3", "renewals per TTL/3", "connections used", "connections open")
	}
	return nil
}

// keeper is a client with many leases.
type keeper struct {
	*side.Rowlock
	candidate
	meter   *side.Meter
	took    time.Duration
	began   time.Time
	sent    uint64
	lost    uint64
	renewed uint64
}

// keep opens a client and acquires its leases.
func (b *Bench) keep(ctx context.Context, c candidate) (*keeper, error) {
	spec := c.server.Spec(c.kind, 1)
	spec.TTL = b.Plan.KeepTTL
	spec.Meter = &side.Meter{}
	r, err := side.OpenRowlock(spec)
	if err != nil {
		return nil, err
	}
	k := &keeper{Rowlock: r, candidate: c, meter: spec.Meter}
	begin := time.Now()
	_, err = acquireAll(ctx, r, "keep", b.Plan.Leases)
	k.took = time.Since(begin)
	return k, err
}

// acquireAll acquires n keys that begin with prefix, 256 at a time.
func acquireAll(ctx context.Context, r *side.Rowlock, prefix string, n int) ([]*rowlock.Lease, error) {
	leases, errs := make([]*rowlock.Lease, n), make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := range next {
				leases[i], errs[i] = r.Client.Acquire(ctx, fmt.Sprintf("%s-%05d", prefix, i))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return leases, errors.Join(errs...)
}
