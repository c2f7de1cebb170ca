package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
)

// sale is one flash sale, measured.
type sale struct {
	Server     string       `json:"server"`
	Strategy   string       `json:"strategy"`
	Sold       int          `json:"sold"`     // orders in the shop's books
	Oversold   int          `json:"oversold"` // orders beyond the stock
	PerSecond  float64      `json:"orders_per_second"`
	Seconds    float64      `json:"seconds"` // from the signal to the last order
	WaitP50    milliseconds `json:"wait_p50_ms"`
	WaitP99    milliseconds `json:"wait_p99_ms"`
	Statements float64      `json:"statements_per_order"` // of the lock store
	Errors     int          `json:"errors"`
	Think      milliseconds `json:"think_ms"`

	firstError string
}

// wrong tells in words what is wrong with the books; empty: nothing.
func (b books) wrong(items int) string {
	switch {
	case b.Orders > items:
		return fmt.Sprintf("sold %d of %d: %d too many", b.Orders, items, b.Orders-items)
	case b.Orders < items:
		return fmt.Sprintf("sold %d of %d: %d too few", b.Orders, items, items-b.Orders)
	case b.Items != b.Orders:
		return fmt.Sprintf("sold %d items more than once", b.Orders-b.Items)
	case b.Stock != 0:
		return fmt.Sprintf("everything is sold but the stock says %d", b.Stock)
	}
	return ""
}

// hold runs one sale at p. The books come from the shop, everything else from
// the processes of buyers.
func (d *demo) hold(ctx context.Context, p place, think time.Duration) (sale, books, error) {
	s := sale{Server: p.Server.Name(), Strategy: p.Strategy, Think: milliseconds(think)}
	ctx, cancel := context.WithTimeoutCause(ctx, saleLimit, fmt.Errorf("the sale was not over after %v", saleLimit))
	defer cancel()
	shop, err := p.prepare(ctx)
	if err != nil {
		return s, books{}, err
	}
	defer shop.Close()
	if err := shop.Fill(ctx, d.Items); err != nil {
		return s, books{}, err
	}
	outcomes, err := d.sell(ctx, p, think)
	if err != nil {
		return s, books{}, errors.Join(err, context.Cause(ctx))
	}
	s.sum(outcomes)
	b, err := shop.Count(ctx)
	if err != nil {
		return s, b, err
	}
	if told := total(outcomes, func(o outcome) int { return o.Sold }); told != b.Orders && s.Errors == 0 {
		return s, b, fmt.Errorf("the buyers counted %d orders, the shop has %d", told, b.Orders)
	}
	s.Sold, s.Oversold = b.Orders, max(0, b.Orders-d.Items)
	if s.Seconds > 0 {
		s.PerSecond = float64(s.Sold) / s.Seconds
	}
	if s.Sold > 0 {
		s.Statements = float64(total(outcomes, func(o outcome) int { return int(o.Statements) })) / float64(s.Sold)
	}
	return s, b, nil
}

// saleLimit ends a sale that hangs.
const saleLimit = 3 * time.Minute

// sell starts the processes, gives the signal when all are ready, and gathers
// what they saw.
func (d *demo) sell(ctx context.Context, p place, think time.Duration) (outcomes []outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	processes := make([]*fleet.Process, d.Processes)
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(processes...)
	}()
	for i := range processes {
		first, next := d.Buyers*i/d.Processes, d.Buyers*(i+1)/d.Processes
		if processes[i], err = fleet.Start(ctx, roleBuyers, buyers{Place: p, First: first, Size: next - first, Think: think}); err != nil {
			return nil, err
		}
	}
	for _, p := range processes {
		var n news
		if err := p.Receive(&n); err != nil {
			return nil, err
		}
	}
	line := d.progress(p.String())
	defer line.end()
	for _, p := range processes {
		if err := p.Send(struct{}{}); err != nil {
			return nil, err
		}
	}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		last = make([]news, len(processes))
		errs = make([]error, len(processes))
	)
	outcomes = make([]outcome, len(processes))
	for i, p := range processes {
		all.Go(func() {
			for {
				var n news
				if errs[i] = p.Receive(&n); errs[i] != nil {
					return
				}
				mu.Lock()
				last[i] = n
				line.orders(total(last, func(n news) int { return n.Sold }), total(last, func(n news) int { return n.Gone }))
				mu.Unlock()
				if n.Outcome != nil {
					outcomes[i] = *n.Outcome
					errs[i] = p.Close()
					return
				}
			}
		})
	}
	all.Wait()
	return outcomes, errors.Join(errs...)
}

// sum puts together what the processes saw. Their clocks are one: they are on one
// machine.
func (s *sale) sum(outcomes []outcome) {
	var waits []time.Duration
	var begin, last time.Time
	for _, o := range outcomes {
		waits = append(waits, o.Waits...)
		if begin.IsZero() || o.Begin.Before(begin) {
			begin = o.Begin
		}
		if o.LastOrder.After(last) {
			last = o.LastOrder
		}
		s.Errors += o.Errors
		if s.firstError == "" {
			s.firstError = o.FirstError
		}
	}
	if !last.IsZero() {
		s.Seconds = last.Sub(begin).Seconds()
	}
	slices.Sort(waits)
	s.WaitP50, s.WaitP99 = milliseconds(quantile(waits, 0.50)), milliseconds(quantile(waits, 0.99))
}

func total[T any](list []T, of func(T) int) (sum int) {
	for _, x := range list {
		sum += of(x)
	}
	return sum
}

// quantile is the smallest element of a sorted list that a share q of it does not
// exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
