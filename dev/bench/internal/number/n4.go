package number

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/fleet"
	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// The fleet of N4.
const (
	n4Processes = 4
	n4Waiters   = 8
)

// N4 measures processes that want one key: how long it takes from one to another,
// and what they send for it. The floor is two commits of one worker.
func (b *Bench) N4(ctx context.Context) error {
	b.contests = map[string]int{}
	latencies := map[result.At][]float64{}
	defer func() { // also of a run that is interrupted
		for at, l := range latencies {
			b.File.Distribute(at, "hand-over ms", l)
		}
	}()
	for round := range b.Plan.Rounds {
		for _, server := range shuffled(b.Lab.All()) {
			for _, hold := range b.Plan.Holds {
				floor, err := b.floor(ctx, server, hold)
				if err != nil {
					return err
				}
				if floor > 0 {
					at := candidate{server, side.Floor}.at("N4", contestCase(n4Processes, n4Waiters, hold), n4Waiters)
					b.File.Add(at, "p50 ms", floor)
				}
				found := map[candidate]summary{}
				for _, c := range shuffled(b.contenders(server)) {
					s, err := b.contest(ctx, round, c, n4Processes, n4Waiters, hold, floor, latencies)
					if err != nil {
						return err
					}
					if s.holds > 0 {
						found[c] = s
					}
				}
				b.compare(server, found, hold, floor)
			}
		}
	}
	return b.growth(ctx)
}

// growth varies the numbers of waiters and of processes, at a hold of 20 ms, in
// shorter contests.
func (b *Bench) growth(ctx context.Context) error {
	const hold = 20 * time.Millisecond
	whole := b.Plan.Window
	b.Plan.Window /= 2
	defer func() { b.Plan.Window = whole }()
	for _, server := range b.Lab.Servers {
		sides := candidates(server1(server), append(server.Rowlock(), side.VersionProbes, side.UniqueProbes, side.Poller, side.GetLock)...)
		for _, n := range b.Plan.Waiters {
			for _, c := range shuffled(sides) {
				if _, err := b.contest(ctx, 0, c, n4Processes, n, hold, 0, nil); err != nil {
					return err
				}
			}
		}
		for _, n := range b.Plan.Fleet {
			for _, c := range shuffled(sides) {
				if _, err := b.contest(ctx, 0, c, n, n4Waiters, hold, 0, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *Bench) contenders(server *lab.Server) []candidate {
	switch {
	case b.Plan.Others:
	case len(server.Rowlock()) == 0:
		return nil
	default:
		return candidates(server1(server), append(server.Rowlock(), side.VersionProbes, side.UniqueProbes, side.GetLock)...)
	}
	kinds := append([]string{side.Version, side.Unique, side.ForUpdate, side.VersionProbes, side.UniqueProbes, side.Mongo, side.Poller, side.GetLock,
		side.Redislock, side.Redsync, side.Etcd, side.ZooKeeper}, side.Registered()...)
	return candidates(server1(server), kinds...)
}

// floor is the time of two commits, of which the first frees a key that was held
// for hold and the second takes it again, in milliseconds; 0 for a server without.
// After a pause everything is slower than in a loop: processor, caches, disk.
func (b *Bench) floor(ctx context.Context, server *lab.Server, hold time.Duration) (ms float64, err error) {
	sides := candidates(server1(server), side.Floor)
	if len(sides) == 0 {
		return 0, nil
	}
	b.Say("N4: floor of %s, hold %v", server.Name, hold)
	l, err := sides[0].open(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	h, err := l.Lock(ctx, side.Key(1))
	var spans []float64
	for begin := time.Now(); err == nil && (len(spans) < 20 || time.Since(begin) < b.Plan.Block); {
		time.Sleep(hold)
		start := time.Now()
		if err = h.Unlock(ctx); err == nil {
			h, err = l.Lock(ctx, side.Key(1))
		}
		spans = append(spans, measure.Millis(time.Since(start)))
	}
	if err == nil {
		err = h.Unlock(ctx)
	}
	return measure.Quantile(spans, 0.5), err
}

func contestCase(processes, waiters int, hold time.Duration) string {
	if hold == 0 {
		return fmt.Sprintf("%d × %d, hold 0", processes, waiters)
	}
	return fmt.Sprintf("%d × %d, hold %v", processes, waiters, hold)
}

// compare notes what GET_LOCK on the same server makes of the same contest, and what a
// hand-over as quick as the floor would.
func (b *Bench) compare(server *lab.Server, found map[candidate]summary, hold time.Duration, floor float64) {
	if hold == 0 {
		return
	}
	peer, paired := found[candidate{server, side.GetLock}]
	for c, s := range found {
		at := c.at("N4", contestCase(n4Processes, n4Waiters, hold), n4Waiters)
		if paired {
			b.File.Add(at, "× GET_LOCK", float64(s.holds)/float64(peer.holds))
			b.File.Add(at, "longest wait ÷ GET_LOCK's", float64(s.longest)/float64(peer.longest))
		}
		if floor > 0 {
			ideal := b.window(hold).Seconds() / ((measure.Millis(hold) + floor) / 1000)
			b.File.Add(at, "× ideal", float64(s.holds)/ideal)
		}
	}
}

// contest lets processes compete for a key and notes what they found.
func (b *Bench) contest(ctx context.Context, round int, c candidate, processes, waiters int, hold time.Duration, floor float64, latencies map[result.At][]float64) (s summary, err error) {
	if !b.fits(c, "N4", processes*(waiters+10)) {
		return s, nil
	}
	b.Say("N4 round %d of %d: %s, %d × %d, hold %v", round+1, b.Plan.Rounds, c, processes, waiters, hold)
	// A key of its own: a hand-written lock that is cut off at the end of the window
	// keeps the last one.
	b.contests[c.String()]++
	task := contest{Spec: c.server.Spec(c.kind, waiters), Key: side.Key(20 + b.contests[c.String()]%200), Waiters: waiters, Hold: hold}
	found, err := b.compete(ctx, processes, task)
	if err != nil {
		return s, b.failed(ctx, "N4", c.String(), err)
	}
	what := contestCase(processes, waiters, hold)
	at := c.at("N4", what, float64(waiters))
	s = summarize(found)
	if s.overlaps > 0 {
		b.File.Note(fmt.Sprintf("N4: on %s two processes had the key at the same time, %d times (%s).", c, s.overlaps, what))
	}
	b.File.Add(at, "hand-overs/s", float64(len(s.handovers))/b.window(hold).Seconds())
	b.File.Add(at, "holds/s", float64(s.holds)/b.window(hold).Seconds())
	b.File.Add(at, "p50 ms", measure.Quantile(s.handovers, 0.5))
	b.File.Add(at, "p99 ms", measure.Quantile(s.handovers, 0.99))
	if floor > 0 && len(s.handovers) > 0 {
		b.File.Add(at, "p50 ÷ floor", measure.Quantile(s.handovers, 0.5)/floor)
	}
	if s.counts && len(s.handovers) > 0 {
		b.File.Add(at, "statements/hand-over", float64(s.statements)/float64(len(s.handovers)))
		b.File.Add(at, "statements/hold", float64(s.statements)/float64(s.holds))
	}
	b.File.Add(at, "share max÷min", s.share)
	b.File.Add(at, "longest wait ms", measure.Millis(s.longest))
	b.File.Add(at, "fewest turns of a waiter", float64(s.fewest))
	if latencies != nil {
		latencies[at] = append(latencies[at], s.handovers...)
	}
	return s, nil
}

// window is how long a contest goes on: with a hold of zero there are many turns in
// a short time.
func (b *Bench) window(hold time.Duration) time.Duration {
	if hold == 0 {
		return b.Plan.Window / 3
	}
	return b.Plan.Window
}

// compete starts the processes, together, and gathers what they found.
func (b *Bench) compete(ctx context.Context, processes int, task contest) (found []contested, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.Plan.Window+time.Minute)
	defer cancel()
	var children []*fleet.Process
	for range processes {
		p, err := fleet.Start(ctx, "contender", task)
		if err != nil {
			return nil, err
		}
		children = append(children, p)
	}
	for _, p := range children {
		var ready string
		if err := p.Receive(&ready); err != nil {
			return nil, err
		}
	}
	from := time.Now().Add(20 * time.Millisecond)
	for _, p := range children {
		if err := p.Send(span{from.UnixNano(), from.Add(b.window(task.Hold)).UnixNano()}); err != nil {
			return nil, err
		}
	}
	for _, p := range children {
		var c contested
		if err := p.Receive(&c); err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	for _, p := range children {
		err = errors.Join(err, p.Close())
	}
	return found, err
}
