package number

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/bench/internal/measure"
	"github.com/rowlock/rowlock/bench/internal/side"
)

// N1 measures the cycle of one worker. All sides of all servers take turns, one
// cycle each in random order: what disturbs the machine disturbs all alike.
func (b *Bench) N1(ctx context.Context) error {
	sides := candidates(b.Lab.All())
	var open []side.Locker
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for _, c := range sides {
		l, err := c.open(ctx, 1)
		if err != nil {
			return err
		}
		open = append(open, l)
	}
	spans, err := b.turns(ctx, "N1", sides, open, func(i, _ int) string { return side.Key(i) })
	if err != nil {
		return err
	}
	for _, round := range spans {
		floors := map[string]spread{}
		for i, c := range sides {
			if c.kind == side.Floor {
				floors[c.server.Name] = spreadOf(round[i])
			}
		}
		for i, c := range sides {
			s, at := spreadOf(round[i]), c.at("N1", "", 0)
			b.File.Add(at, "p50 ms", s.p50)
			b.File.Add(at, "p99 ms", s.p99)
			if floor, ok := floors[c.server.Name]; ok && c.kind != side.SelectOne && c.kind != side.Ping {
				b.File.Add(at, "× floor", floor.p50/s.p50)
				b.File.Add(at, "× floor by p25", floor.p25/s.p25)
			}
		}
	}
	return nil
}

// spread is some quantiles, in milliseconds.
type spread struct{ p25, p50, p99 float64 }

func spreadOf(spans []time.Duration) spread {
	return spread{
		measure.Millis(measure.Quantile(spans, 0.25)),
		measure.Millis(measure.Quantile(spans, 0.5)),
		measure.Millis(measure.Quantile(spans, 0.99)),
	}
}

// turns lets the open sides take turns, in rounds, and returns the times of each
// round and side. key names the key of a side's n-th cycle.
func (b *Bench) turns(ctx context.Context, number string, sides []candidate, open []side.Locker, key func(i, n int) string) (rounds [][][]time.Duration, err error) {
	order := make([]int, len(sides))
	for i := range order {
		order[i] = i
	}
	const warm = 10
	for round := range b.Plan.Rounds {
		spans := make([][]time.Duration, len(sides))
		for n := range b.Plan.Cycles + warm {
			if n%20 == 0 {
				b.Say("%s round %d of %d: %d of %d cycles", number, round+1, b.Plan.Rounds, max(n-warm, 0), b.Plan.Cycles)
			}
			for _, i := range shuffled(order) {
				span, err := measure.Cycle(ctx, open[i], key(i, n))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", sides[i], err)
				}
				if n >= warm {
					spans[i] = append(spans[i], span)
				}
			}
		}
		rounds = append(rounds, spans)
	}
	return rounds, nil
}
