package number

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// fullPrefix names the tables with many rows.
const fullPrefix = "full"

// N6 measures the cycle of N1 in a table with many rows in turns with the same in
// an empty one. The keys are spread over the table.
func (b *Bench) N6(ctx context.Context) error {
	for _, s := range b.Lab.Servers {
		b.Say("N6: %s gets %d rows a table", s.Name, b.Plan.Rows)
		if err := b.failed(ctx, "N6", s.Name, fill(ctx, s, b.Plan.Rows)); err != nil {
			return err
		}
	}
	for round := range b.Plan.Rounds {
		for _, s := range shuffled(b.Lab.Servers) {
			b.Say("N6 round %d of %d: %s", round+1, b.Plan.Rounds, s.Name)
			if err := b.failed(ctx, "N6", s.Name, b.rows(ctx, candidates(server1(s), s.Rowlock()...))); err != nil {
				return err
			}
		}
	}
	return nil
}

// rows is a round of N6 on one server.
func (b *Bench) rows(ctx context.Context, sides []candidate) error {
	n := len(sides)
	sides = append(sides, sides...) // the empty tables, then the full ones
	var open []side.Locker
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for i, c := range sides {
		spec := c.server.Spec(c.kind, 1)
		if i >= n {
			spec.Prefix = fullPrefix
		}
		l, err := side.Open(ctx, spec)
		if err != nil {
			return err
		}
		open = append(open, l)
	}
	spans, err := b.turns(ctx, sides, open, func(_, cycle int) string { return b.spreadKey(cycle % 64) })
	if err != nil {
		return err
	}
	for i, c := range sides[:n] {
		empty, full := spreadOf(spans[i]), spreadOf(spans[i+n])
		at := c.at("N6", fmt.Sprintf("%d rows", b.Plan.Rows), float64(b.Plan.Rows))
		b.File.Add(at, "empty p50 ms", empty.p50)
		b.File.Add(at, "full p50 ms", full.p50)
		b.File.Add(at, "× empty", empty.p50/full.p50)
		b.File.Add(at, "× empty by p25", empty.p25/full.p25)
	}
	return nil
}

// spreadKey is one of 64 names that lie between those of the rows.
func (b *Bench) spreadKey(i int) string { return fmt.Sprintf("row-%08d-key", i*b.Plan.Rows/64) }

// fill makes tables with n rows.
func fill(ctx context.Context, s *lab.Server, n int) error {
	spec := s.Spec(s.Rowlock()[0], 4)
	spec.Prefix = fullPrefix
	if err := side.Migrate(ctx, spec); err != nil {
		return err
	}
	if s.SQL() {
		return side.FillSQL(ctx, spec, n)
	}
	return side.FillMongo(ctx, spec, n)
}
