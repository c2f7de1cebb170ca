package number

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// burst is how many cycles a side makes before the next has its turn.
const burst = 5

// N1 measures the cycle of one worker. The sides of a server take turns, a few
// cycles each in random order: what disturbs the machine disturbs all alike. (Turns
// over all servers would leave a connection alone for a tenth of a second, which
// says nothing of a worker who locks one key after the other.)
func (b *Bench) N1(ctx context.Context) error {
	for round := range b.Plan.Rounds {
		for _, server := range shuffled(b.Lab.All()) {
			b.Say("N1 round %d of %d: %s", round+1, b.Plan.Rounds, server.Name)
			if err := b.failed(ctx, "N1", server.Name, b.cycles(ctx, candidates(server1(server)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// cycles is a round of N1 on one server.
func (b *Bench) cycles(ctx context.Context, sides []candidate) error {
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
	spans, err := b.turns(ctx, sides, open, func(i, _ int) string { return side.Key(i) })
	if err != nil {
		return err
	}
	sent, err := cost(ctx, sides, open)
	if err != nil {
		return err
	}
	floor := spread{}
	for i, c := range sides {
		if c.kind == side.Floor {
			floor = spreadOf(spans[i])
		}
	}
	for i, c := range sides {
		s, at := spreadOf(spans[i]), c.at("N1", "", 0)
		b.File.Add(at, "p50 ms", s.p50)
		b.File.Add(at, "p99 ms", s.p99)
		if floor.p50 > 0 && c.kind != side.SelectOne && c.kind != side.Ping {
			b.File.Add(at, "× floor", floor.p50/s.p50)
			b.File.Add(at, "× floor by p25", floor.p25/s.p25)
		}
		if n, ok := sent[i]; ok && side.IsRowlock(c.kind) {
			b.File.Add(at, "statements/cycle", n)
		}
	}
	return nil
}

// cost is what a cycle of a lone caller sends, on the sides that count it.
func cost(ctx context.Context, sides []candidate, open []side.Locker) (map[int]float64, error) {
	const cycles = 20
	sent := make(map[int]float64)
	for i, l := range open {
		before, counts := side.Statements(l)
		for range cycles {
			if _, err := measure.Cycle(ctx, l, side.Key(i)); err != nil {
				return nil, fmt.Errorf("%s: %w", sides[i], err)
			}
		}
		if after, _ := side.Statements(l); counts {
			sent[i] = float64(after-before) / cycles
		}
	}
	return sent, nil
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

// turns lets the open sides take turns and returns the times of each. key names the
// key of a side's n-th cycle.
func (b *Bench) turns(ctx context.Context, sides []candidate, open []side.Locker, key func(i, n int) string) ([][]time.Duration, error) {
	order := make([]int, len(sides))
	for i := range order {
		order[i] = i
	}
	spans := make([][]time.Duration, len(sides))
	for n := -burst; n < b.Plan.Cycles; n += burst { // the first turn warms up
		for _, i := range shuffled(order) {
			for k := range burst {
				span, err := measure.Cycle(ctx, open[i], key(i, n+burst+k))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", sides[i], err)
				}
				if n >= 0 {
					spans[i] = append(spans[i], span)
				}
			}
		}
	}
	return spans, nil
}
