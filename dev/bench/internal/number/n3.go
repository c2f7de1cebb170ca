package number

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// hotWaiters is the number of waiters of N3.
const hotWaiters = 32

// hotHold is how long each of them holds the key in the second part.
const hotHold = 20 * time.Millisecond

// N3 measures many goroutines of one process that want one key for no time. The
// floor is one worker: on one key more would not be faster.
//
// Its blocks are longer, so that what a client does for others now and then is part of
// the price.
func (b *Bench) N3(ctx context.Context) error {
	whole := b.Plan.Block
	if b.Plan.Block *= 6; !b.Plan.Others {
		b.Plan.Block /= 2
	}
	defer func() { b.Plan.Block = whole }()
	kinds := []string{side.Version, side.Unique, side.ForUpdate, side.Mongo}
	if b.Plan.Others {
		kinds = append(kinds, side.Poller, side.GetLock, side.Redislock, side.Redsync, side.Etcd, side.ZooKeeper)
	}
	kinds = append(kinds, side.Registered()...)
	for round := range b.Plan.Rounds {
		for _, server := range shuffled(b.Lab.All()) {
			if len(candidates(server1(server), kinds...)) == 0 {
				continue
			}
			floor := 0.0
			for _, c := range candidates(server1(server), side.Floor) {
				run, _, err := b.block(ctx, c, 1, side.Key)
				if err != nil {
					return err
				}
				floor = run.Rate()
			}
			for _, c := range shuffled(candidates(server1(server), kinds...)) {
				b.Say("N3 round %d of %d: %s", round+1, b.Plan.Rounds, c)
				run, _, err := b.block(ctx, c, hotWaiters, func(int) string { return side.Key(1) })
				if err != nil {
					if err := b.failed(ctx, "N3", c.String(), err); err != nil {
						return err
					}
					continue
				}
				at := c.at("N3", "hold 0", 0)
				b.File.Add(at, "cycles/s", run.Rate())
				if floor > 0 {
					b.File.Add(at, "× floor", run.Rate()/floor)
				}
				b.File.Add(at, "longest ms", measure.Millis(measure.Quantile(run.Latencies, 1)))
				b.File.Add(at, "fewest turns of a waiter", float64(run.Least))
				b.File.Add(at, "most turns", float64(run.Most))
				if side.IsRowlock(c.kind) {
					b.File.Add(at, "tokens out of order", float64(run.Disorder))
				}
				if run.Least == 0 {
					b.File.Note(fmt.Sprintf("N3: on %s a waiter got no turn in %v.", c, b.Plan.Block))
				}
			}
			if err := b.held(ctx, round, server, kinds); err != nil {
				return err
			}
		}
	}
	return nil
}

// held measures the same waiters when each holds the key for hotHold, beside as many
// goroutines with a mutex. What is not the library's is measured with Plan.Others only: no
// number needs it.
func (b *Bench) held(ctx context.Context, round int, server *lab.Server, kinds []string) error {
	one := func(int) string { return side.Key(1) }
	mutex, err := measure.Workers(ctx, side.Holding(side.NewMutex(), hotHold), hotWaiters, b.Plan.Block, one)
	if err != nil {
		return err
	}
	for _, c := range shuffled(candidates(server1(server), kinds...)) {
		if !b.Plan.Others && !side.IsRowlock(c.kind) {
			continue
		}
		b.Say("N3 round %d of %d: %s, hold %v", round+1, b.Plan.Rounds, c, hotHold)
		l, err := c.open(ctx, hotWaiters)
		if err != nil {
			return err
		}
		run, err := measure.Workers(ctx, side.Holding(l, hotHold), hotWaiters, b.Plan.Block, one)
		b.end("N3", c, l)
		if err != nil {
			if err := b.failed(ctx, "N3", c.String(), err); err != nil {
				return err
			}
			continue
		}
		at := c.at("N3", fmt.Sprintf("hold %v", hotHold), 0)
		b.File.Add(at, "cycles/s", run.Rate())
		b.File.Add(at, "× sync.Mutex", run.Rate()/mutex.Rate())
		b.File.Add(at, "longest ms", measure.Millis(measure.Quantile(run.Latencies, 1)))
		b.File.Add(at, "fewest turns of a waiter", float64(run.Least))
	}
	return nil
}

func server1(s *lab.Server) []*lab.Server { return []*lab.Server{s} }
