package number

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Refused measures tries for a key that another holds, and probes of it, by
// clients of one store.
func (b *Bench) Refused(ctx context.Context) error {
	for round := range b.Plan.Rounds {
		for _, c := range shuffled(b.strategies()) {
			b.Say("refused round %d of %d: %s", round+1, b.Plan.Rounds, c)
			if err := b.failed(ctx, "refused", c.String(), b.refuse(ctx, c)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) refuse(ctx context.Context, c candidate) error {
	holder, err := side.OpenRowlock(c.server.Spec(c.kind, 1))
	if err != nil {
		return err
	}
	defer b.end("refused", c, holder)
	key := side.Key(3)
	if _, err := holder.Client.Acquire(ctx, key); err != nil {
		return err
	}
	other, err := side.OpenRowlock(c.server.Spec(c.kind, 16))
	if err != nil {
		return err
	}
	defer b.end("refused", c, other)
	for _, n := range []int{1, 16} {
		for _, what := range []string{"try", "probe"} {
			rate, err := b.refusals(ctx, other, key, n, what == "try")
			if err != nil {
				return err
			}
			b.File.Add(c.at("refused", fmt.Sprintf("%s, %d clients", what, n), float64(n)), "ops/s", rate)
		}
	}
	return nil
}

// refusals lets n clients of one store ask for d.
func (b *Bench) refusals(ctx context.Context, r *side.Rowlock, key string, n int, try bool) (float64, error) {
	var (
		wg    sync.WaitGroup
		ops   atomic.Int64
		mu    sync.Mutex
		first error
		from  = time.Now()
	)
	for range n {
		client, err := rowlock.New(r.Store, rowlock.Options{ReapInterval: -1})
		if err != nil {
			return 0, err
		}
		defer client.Close(ctx)
		ask := func() error {
			infos, err := r.Store.Inspect(ctx, []string{key})
			if err == nil && !infos[0].Held {
				err = errors.New("a held key looks free")
			}
			return err
		}
		if try {
			ask = func() error {
				if _, err := client.TryAcquire(ctx, key); !errors.Is(err, rowlock.ErrHeld) {
					return fmt.Errorf("a try for a held key: %w", err)
				}
				return nil
			}
		}
		wg.Go(func() {
			for time.Since(from) < b.Plan.Block {
				if err := ask(); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					return
				}
				ops.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(ops.Load()) / time.Since(from).Seconds(), first
}
