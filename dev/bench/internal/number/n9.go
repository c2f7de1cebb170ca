package number

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// far is a distance, as the time of a round trip, and how many cycles are made there.
type far struct {
	rtt    time.Duration
	cycles int
}

// farPatience bounds a cycle, and the first use, over any distance.
const farPatience = 2 * time.Minute

// N9 measures strategies behind a proxy that delays: the first use of a client and
// cycles of one caller, in round trips. All sides are measured at the same time: they
// do little but wait.
func (b *Bench) N9(ctx context.Context) error {
	for round := range b.Plan.Rounds {
		for _, d := range b.Plan.Far {
			b.Say("N9 round %d of %d: round trips of %v", round+1, b.Plan.Rounds, d.rtt)
			var wg sync.WaitGroup
			var open []*lab.Far
			for _, s := range b.Lab.Servers {
				distant, err := s.Far(d.rtt)
				if err != nil {
					if err := b.failed(ctx, "N9", s.Name, err); err != nil {
						return err
					}
					continue
				}
				open = append(open, distant)
				for _, c := range candidates([]*lab.Server{distant.Server}, s.Rowlock()...) {
					wg.Go(func() { _ = b.failed(ctx, "N9", c.String(), b.distance(ctx, c, d)) })
				}
			}
			wg.Wait()
			for _, distant := range open {
				distant.Close()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// distance measures one side.
func (b *Bench) distance(ctx context.Context, c candidate, d far) error {
	trip, err := b.trip(ctx, c)
	if err != nil {
		return err
	}
	r, err := side.OpenRowlock(c.server.Spec(c.kind, 1))
	if err != nil {
		return err
	}
	defer b.end("N9", c, r)
	cycle := func() (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, farPatience)
		defer cancel()
		return measure.Cycle(ctx, r, "far-"+c.kind)
	}
	begin := time.Now()
	h, err := r.Lock(ctx, "far-"+c.kind)
	if err != nil {
		return fmt.Errorf("first use: %w", err)
	}
	first := time.Since(begin)
	if err := h.Unlock(ctx); err != nil {
		return err
	}
	var spans []time.Duration
	before := r.Statements()
	for range d.cycles {
		span, err := cycle()
		if err != nil {
			return err
		}
		spans = append(spans, span)
	}
	at := c.at("N9", fmt.Sprintf("RTT %v", d.rtt), measure.Millis(d.rtt))
	b.File.Add(at, "RTT ms", measure.Millis(trip))
	b.File.Add(at, "cycle ÷ RTT", measure.Quantile(spans, 0.5).Seconds()/trip.Seconds())
	b.File.Add(at, "statements/cycle", float64(r.Statements()-before)/float64(len(spans)))
	b.File.Add(at, "first use ÷ RTT", first.Seconds()/trip.Seconds())
	b.void(at, lost(r, d.cycles+1), "cycle ÷ RTT", "statements/cycle")
	return nil
}

// trip is the time of a round trip to the server of c that is not busy.
func (b *Bench) trip(ctx context.Context, c candidate) (time.Duration, error) {
	l, err := side.Open(ctx, c.server.Spec(side.Ping, 1))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	var spans []time.Duration
	for range 6 {
		span, err := measure.Cycle(ctx, l, "")
		if err != nil {
			return 0, err
		}
		spans = append(spans, span)
	}
	return measure.Quantile(spans[1:], 0.5), nil // the first one opens the connection
}
