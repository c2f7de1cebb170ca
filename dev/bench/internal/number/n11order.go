package number

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// The programs of the last part of N11, with a caller each, and how long each holds the key.
const (
	orderProcesses = 16
	orderHold      = 5 * time.Millisecond
)

// order measures programs that want one key, with Fair and without.
func (b *Bench) order(ctx context.Context) error {
	b.contests = map[string]int{}
	latencies := map[result.At][]float64{}
	defer func() {
		for at, l := range latencies {
			b.File.Distribute(at, "hand-over ms", l)
		}
	}()
	for round := range b.Plan.Rounds {
		for _, c := range shuffled(b.strategies()) {
			if (c.kind == side.Unique || c.kind == side.ForUpdate) && !b.Plan.Others {
				continue
			}
			found := map[bool]summary{}
			for _, fair := range shuffled([]bool{false, true}) {
				b.Say("N11 round %d of %d: %s, %s", round+1, b.Plan.Rounds, c, orderCase(fair))
				s, err := b.inOrder(ctx, c, fair)
				if err := b.failed(ctx, "N11", c.String(), err); err != nil {
					return err
				}
				if s.holds == 0 {
					continue
				}
				at := c.at("N11", orderCase(fair), 0)
				b.noteOrder(at, s)
				latencies[at] = append(latencies[at], s.handovers...)
				found[fair] = s
			}
			if unfair := measure.Quantile(found[false].handovers, 0.5); unfair > 0 && found[true].holds > 0 {
				b.File.Add(c.at("N11", orderCase(true), 0), "p50 ÷ unfair's", measure.Quantile(found[true].handovers, 0.5)/unfair)
			}
		}
	}
	return nil
}

func orderCase(fair bool) string {
	how := "unfair"
	if fair {
		how = "fair"
	}
	return fmt.Sprintf("%s, %d × 1, hold %v", how, orderProcesses, orderHold)
}

// inOrder lets the programs compete.
func (b *Bench) inOrder(ctx context.Context, c candidate, fair bool) (s summary, err error) {
	if !b.fits(c, "N11", orderProcesses*4) {
		return s, nil
	}
	b.contests[c.String()]++
	spec := c.server.Spec(c.kind, 1)
	spec.Fair = fair
	task := contest{Spec: spec, Key: fmt.Sprintf("order-%03d", b.contests[c.String()]), Waiters: 1, Hold: orderHold}
	whole := b.Plan.Window
	b.Plan.Window = b.Plan.Order
	found, err := b.compete(ctx, orderProcesses, task)
	b.Plan.Window = whole
	if err != nil {
		return s, err
	}
	return summarize(found), nil
}

func (b *Bench) noteOrder(at result.At, s summary) {
	if s.overlaps > 0 {
		b.File.Note(fmt.Sprintf("N11: on %s %s two processes had the key at the same time, %d times (%s).", at.Server, at.Side, s.overlaps, at.Case))
	}
	b.File.Add(at, "p50 ms", measure.Quantile(s.handovers, 0.5))
	b.File.Add(at, "p99 ms", measure.Quantile(s.handovers, 0.99))
	b.File.Add(at, "holds/s", float64(s.holds)/b.Plan.Order.Seconds())
	b.File.Add(at, "wait p50 ms", measure.Quantile(s.waits, 0.5))
	b.File.Add(at, "wait p99 ms", measure.Quantile(s.waits, 0.99))
	b.File.Add(at, "longest wait ms", measure.Millis(s.longest))
	b.File.Add(at, "share max÷min", s.share)
	if s.counts {
		b.File.Add(at, "statements/hold", float64(s.statements)/float64(s.holds))
	}
}
