package number

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// waited is how many callers wait for how many keys.
type waited struct{ keys, waiters int }

// N8 counts the statements of a client that waits for keys which others hold. All
// strategies wait at the same time.
func (b *Bench) N8(ctx context.Context) error {
	for _, n := range b.Plan.Waited {
		var wg sync.WaitGroup
		b.Say("N8: %d waiters for %d keys", n.waiters, n.keys)
		for _, c := range b.strategies() {
			if c.kind == side.ForUpdate && !b.fits(c, "N8", 2*n.keys+20) {
				continue
			}
			wg.Go(func() {
				_ = b.failed(ctx, "N8", c.String(), b.await(ctx, c, n.keys, n.waiters))
			})
		}
		wg.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// await holds the keys with one client, waits for them with another, and counts
// what the second sends.
func (b *Bench) await(ctx context.Context, c candidate, keys, waiters int) error {
	spec := c.server.Spec(c.kind, 1)
	holder, err := side.OpenRowlock(spec)
	if err != nil {
		return err
	}
	defer b.end("N8", c, holder)
	prefix := fmt.Sprintf("await-%d-%d", keys, waiters)
	if _, err := acquireAll(ctx, holder, prefix, keys); err != nil {
		return err
	}
	waiter, err := side.OpenRowlock(spec)
	if err != nil {
		return err
	}
	defer b.end("N8", c, waiter)
	wait, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			if lease, err := waiter.Client.Acquire(wait, fmt.Sprintf("%s-%05d", prefix, i%keys)); err == nil {
				_ = lease.Release(ctx)
			}
		})
	}
	time.Sleep(3 * time.Second) // the first attempts are over
	begin, before := time.Now(), waiter.Statements()
	select {
	case <-time.After(b.Plan.Waiting):
	case <-ctx.Done():
	}
	rate := float64(waiter.Statements()-before) / time.Since(begin).Seconds()
	waiting := waiter.Client.Stats().Waiting
	stop()
	wg.Wait()
	if waiting != waiters && ctx.Err() == nil {
		return fmt.Errorf("%d of %d callers wait for keys that are held", waiting, waiters)
	}
	at := c.at("N8", fmt.Sprintf("%d waiters, %d keys", waiters, keys), float64(keys))
	b.File.Add(at, "statements/s", rate)
	b.void(at, lost(holder, keys), "statements/s")
	return ctx.Err()
}
