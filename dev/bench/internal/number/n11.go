package number

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
	"github.com/rowlock/rowlock/driver"
)

// Of N11.
const (
	n11Clients = 32
	n11Slots   = 1000
	n11Hold    = 20 * time.Millisecond  // of those who come in a stream, and of those who meet it
	n11Pause   = 100 * time.Millisecond // of those who meet it
	n11Keys    = 10                     // of a group
	n11Cycles  = 20
	handoff    = 50 * time.Millisecond // Options.Handoff
)

// N11 measures lock types: what readers and slots cost beside exclusive holds, how long
// readers and writers wait for each other, groups of keys, and hand-overs with and without
// Fair.
func (b *Bench) N11(ctx context.Context) error {
	waits := map[result.At][]float64{}
	defer func() { // also of a run that is interrupted
		for at, l := range waits {
			b.File.Distribute(at, "wait ms", l)
		}
	}()
	for round := range b.Plan.Rounds {
		for _, c := range shuffled(b.strategies()) {
			b.Say("N11 round %d of %d: %s", round+1, b.Plan.Rounds, c)
			if err := b.failed(ctx, "N11", c.String(), b.types(ctx, c, waits)); err != nil {
				return err
			}
		}
	}
	return b.order(ctx)
}

// types is a round of one strategy.
func (b *Bench) types(ctx context.Context, c candidate, waits map[result.At][]float64) error {
	connections := 4
	if c.kind == side.ForUpdate {
		connections = 6
	}
	if !b.fits(c, "N11", n11Clients*connections) {
		return nil
	}
	all, err := b.clientSet(ctx, c, n11Clients)
	if err != nil {
		return err
	}
	defer all.close(b)
	t := &typesOf{Bench: b, clientSet: all, waits: waits}
	steps := []func(context.Context) error{t.cycles, t.group}
	if all.has(driver.Shared) {
		steps = append(steps, t.readers, t.together)
		if t.Plan.Others || c.kind == side.Version || c.kind == side.Mongo {
			steps = append(steps, t.streams)
		}
	}
	if all.has(driver.Slot) {
		steps = append(steps, t.slots)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// typesOf is a round of one strategy.
type typesOf struct {
	*Bench
	*clientSet
	waits map[result.At][]float64
	keys  int
}

// key is one that was not used yet in this round.
func (t *typesOf) key() string {
	t.keys++
	return fmt.Sprintf("types-%03d", t.keys)
}

// readers measures readers without a hold on one key, and exclusive callers, over the number
// of clients.
func (t *typesOf) readers(ctx context.Context) error {
	type one struct {
		mode    string
		clients int
	}
	list := []one{{"exclusive", 1}}
	for _, n := range t.Plan.Clients {
		list = append(list, one{"shared", n})
		if n > 1 && t.Plan.Others {
			list = append(list, one{"exclusive", n})
		}
	}
	rates := map[one]float64{}
	for _, o := range shuffled(list) {
		p := part{callers: t.clients[:o.clients]}
		if o.mode == "shared" {
			p.options = []rowlock.Option{rowlock.Shared()}
		}
		found, err := t.block(ctx, p)
		if err != nil {
			return fmt.Errorf("%d clients, %s: %w", o.clients, o.mode, err)
		}
		rates[o] = found.rate(t.Plan.Block)
		at := t.at("N11", fmt.Sprintf("%s, %s", o.mode, clientsCase(o.clients)), float64(o.clients))
		t.File.Add(at, "grants/s", rates[o])
		t.File.Add(at, "statements/grant", found.each())
	}
	if alone := rates[one{"exclusive", 1}]; alone > 0 {
		for _, n := range t.Plan.Clients {
			at := t.at("N11", "shared, "+clientsCase(n), float64(n))
			t.File.Add(at, "× one exclusive client", rates[one{"shared", n}]/alone)
		}
	}
	return nil
}

// block warms a key up and plays one part on it for the plan's time.
func (t *typesOf) block(ctx context.Context, p part) (done, error) {
	key := t.key()
	p.finish = true
	if err := warm(ctx, key, p); err != nil {
		return done{}, err
	}
	found, err := play(ctx, key, t.Plan.Block, p)
	if err != nil {
		return done{}, err
	}
	return found[0], nil
}

func clientsCase(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}

// together measures readers of one client: they share a hold in the database for as long as
// Options.Handoff says.
func (t *typesOf) together(ctx context.Context) error {
	// A hold of no time would often leave nobody on whose hold others could join.
	p := part{options: []rowlock.Option{rowlock.Shared()}, hold: time.Millisecond}
	for range n11Clients {
		p.callers = append(p.callers, t.clients[0])
	}
	found, err := t.block(ctx, p)
	if err != nil {
		return fmt.Errorf("readers of one client: %w", err)
	}
	at := t.at("N11", fmt.Sprintf("%d readers of one client", n11Clients), 0)
	t.File.Add(at, "grants/s", found.rate(t.Plan.Block))
	t.File.Add(at, "holds per Handoff", float64(found.statements)/2/(1+t.Plan.Block.Seconds()/handoff.Seconds()))
	return nil
}

// streams measures the waits of writers who meet a stream of readers, and of readers who meet
// a stream of writers.
func (t *typesOf) streams(ctx context.Context) error {
	reader := []rowlock.Option{rowlock.Shared()}
	for _, s := range []struct {
		what         string
		who          string // who meets the stream
		stream, meet part
	}{
		{"2 writers under 30 readers", "writers", part{callers: t.clients[2:32], options: reader, hold: n11Hold}, part{callers: t.clients[:2], hold: n11Hold, pause: n11Pause}},
		{"8 readers under 4 writers", "readers", part{callers: t.clients[8:12], hold: n11Hold}, part{callers: t.clients[:8], options: reader, hold: n11Hold, pause: n11Pause}},
	} {
		found, err := play(ctx, t.key(), t.Plan.Stream, s.stream, s.meet)
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		at := t.at("N11", s.what, 0)
		met := found[1]
		t.File.Add(at, "grants/s of the stream", found[0].rate(t.Plan.Stream))
		t.File.Add(at, "grants", float64(met.grants))
		t.File.Add(at, "wait p50 ms", measure.Quantile(met.waits, 0.5))
		t.File.Add(at, "wait p99 ms", measure.Quantile(met.waits, 0.99))
		t.File.Add(at, "longest wait ms", measure.Quantile(met.waits, 1))
		at.Case = s.who
		t.waits[at] = append(t.waits[at], met.waits...)
	}
	return nil
}

// slots measures callers with a slot each, of many: who asks again gets the one that it had.
func (t *typesOf) slots(ctx context.Context) error {
	found, err := t.block(ctx, part{callers: t.clients, options: []rowlock.Option{rowlock.Slots(n11Slots)}})
	if err != nil {
		return fmt.Errorf("slots: %w", err)
	}
	at := t.at("N11", fmt.Sprintf("slots, %s, %d slots", clientsCase(n11Clients), n11Slots), float64(n11Clients))
	t.File.Add(at, "grants/s", found.rate(t.Plan.Block))
	t.File.Add(at, "statements/grant", found.each())
	return nil
}

// cycles counts the statements of a lone caller's cycles in each mode.
func (t *typesOf) cycles(ctx context.Context) error {
	for what, options := range map[string][]rowlock.Option{"exclusive": nil, "shared": {rowlock.Shared()}, "slot": {rowlock.Slots(n11Slots)}} {
		if what == "shared" && !t.has(driver.Shared) || what == "slot" && !t.has(driver.Slot) {
			continue
		}
		key := t.key()
		err := t.count(t.at("N11", "a lone cycle, "+what, 0), func() error {
			lease, err := t.clients[0].Client.Acquire(ctx, key, options...)
			if err != nil {
				return err
			}
			return lease.Release(ctx)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// group counts the statements of keys that are taken together.
func (t *typesOf) group(ctx context.Context) error {
	names := make([]string, n11Keys)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", t.key(), i)
	}
	err := t.count(t.at("N11", fmt.Sprintf("AcquireAll of %d keys", n11Keys), 0), func() error {
		group, err := t.clients[0].Client.AcquireAll(ctx, rowlock.Keys(names...))
		if err != nil {
			return err
		}
		return group.Release(ctx)
	})
	if err != nil {
		return fmt.Errorf("AcquireAll: %w", err)
	}
	return nil
}

// count notes how many statements the first client sends for a cycle, after a few that were
// not counted.
func (t *typesOf) count(at result.At, cycle func() error) error {
	r := t.clients[0]
	for range 3 {
		if err := cycle(); err != nil {
			return err
		}
	}
	before := r.Statements()
	for range n11Cycles {
		if err := cycle(); err != nil {
			return err
		}
	}
	t.File.Add(at, "statements/cycle", float64(r.Statements()-before)/n11Cycles)
	return nil
}
