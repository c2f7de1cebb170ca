package number

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Connections counts the connections of one client with 200 holders and 200 waiters
// for keys that another client holds; of SelectForUpdate, where each needs one, a
// quarter.
func (b *Bench) Connections(ctx context.Context) error {
	for _, c := range b.strategies() {
		many := 200
		if c.kind == side.ForUpdate {
			if many = 50; !b.fits(c, "connections", 3*many+40) {
				continue
			}
		}
		b.Say("connections: %s", c)
		if err := b.failed(ctx, "connections", c.String(), b.connect(ctx, c, many)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) connect(ctx context.Context, c candidate, many int) error {
	other, err := side.OpenRowlock(c.server.Spec(c.kind, many))
	if err != nil {
		return err
	}
	defer b.end("connections", c, other)
	if _, err := acquireAll(ctx, other, "theirs", many); err != nil {
		return err
	}
	spec := c.server.Spec(c.kind, 2*many)
	spec.Meter = &side.Meter{}
	r, err := side.OpenRowlock(spec)
	if err != nil {
		return err
	}
	defer b.end("connections", c, r)
	wait, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range many {
		wg.Go(func() {
			if l, err := r.Client.Acquire(wait, fmt.Sprintf("theirs-%05d", i)); err == nil {
				_ = l.Release(ctx)
			}
		})
	}
	if _, err := acquireAll(ctx, r, "mine", many); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	at := c.at("connections", fmt.Sprintf("%d holders, %d waiters", many, many), 0)
	b.File.Add(at, "connections", float64(spec.Meter.Most()))
	b.void(at, lost(r, many), "connections")
	b.void(at, lost(other, many), "connections")
	return nil
}
