package number

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// N2 measures many workers of one process, each with a key of its own.
func (b *Bench) N2(ctx context.Context) error {
	kinds := []string{side.Floor, side.FloorInsert, side.Version, side.Unique, side.ForUpdate, side.SingleVersion, side.SingleUnique,
		side.Mongo, side.SingleMongo, side.GetLock, side.Redislock, side.Redsync, side.Etcd, side.ZooKeeper}
	kinds = append(kinds, side.Registered()...)
	for round := range b.Plan.Rounds {
		for _, server := range shuffled(b.Lab.All()) {
			workers := b.Plan.Workers
			if len(server.Rowlock()) == 0 {
				workers = b.Plan.Peers
			}
			for _, n := range workers {
				b.Say("N2 round %d of %d: %s, %d workers", round+1, b.Plan.Rounds, server.Name, n)
				if err := b.workers(ctx, n, shuffled(candidates(server1(server), kinds...))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// oneByOne is what a strategy is compared with: the same statements for one lock
// each.
var oneByOne = map[string]string{side.Version: side.SingleVersion, side.Unique: side.SingleUnique, side.Mongo: side.SingleMongo}

// workers measures the sides of one server with n workers, and compares them.
func (b *Bench) workers(ctx context.Context, n int, sides []candidate) error {
	rate := map[string]float64{}
	p50 := map[string]time.Duration{}
	for _, c := range sides {
		if !b.fits(c, "N2", n) {
			continue
		}
		run, sent, err := b.block(ctx, c, n, side.Key)
		if err != nil {
			if err := b.failed(ctx, "N2", c.String(), err); err != nil {
				return err
			}
			continue
		}
		rate[c.kind], p50[c.kind] = run.Rate(), measure.Quantile(run.Latencies, 0.5)
		at := c.at("N2", workersCase(n), float64(n))
		b.File.Add(at, "cycles/s", run.Rate())
		b.File.Add(at, "p50 ms", measure.Millis(p50[c.kind]))
		b.File.Add(at, "p99 ms", measure.Millis(measure.Quantile(run.Latencies, 0.99)))
		if sent > 0 {
			b.File.Add(at, "statements/cycle", float64(sent)/float64(run.Cycles))
		}
	}
	for _, c := range sides {
		at := c.at("N2", workersCase(n), float64(n))
		if rate[c.kind] == 0 {
			continue
		}
		if floor := rate[side.Floor]; floor > 0 {
			b.File.Add(at, "× floor", rate[c.kind]/floor)
			b.File.Add(at, "p50 ÷ floor's", float64(p50[c.kind])/float64(p50[side.Floor]))
		}
		if single := rate[oneByOne[c.kind]]; single > 0 {
			b.File.Add(at, "× one by one", rate[c.kind]/single)
			b.File.Add(at, "p50 ÷ one by one's", float64(p50[c.kind])/float64(p50[oneByOne[c.kind]]))
		}
	}
	return nil
}

func workersCase(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}
