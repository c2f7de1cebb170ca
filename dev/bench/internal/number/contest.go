package number

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Contest is a contest of the caller's choice.
type Contest struct {
	Processes int
	Workers   []int // callers in each process
	Keys      int   // each hold is of one of them, by chance
	Hold      time.Duration
	TTL       time.Duration // of the library's leases
	Window    time.Duration // how long a side runs in a round
	rtts      []time.Duration
}

// Parse reads the list of round trips and checks the rest.
func (c *Contest) Parse(rtts string) error {
	for word := range strings.SplitSeq(rtts, ",") {
		d := time.Duration(0)
		if word = strings.TrimSpace(word); word != "0" {
			var err error
			if d, err = time.ParseDuration(word); err != nil {
				return fmt.Errorf("-rtt: %q is no duration such as 20ms", word)
			}
		}
		if d < 0 || d > time.Second {
			return fmt.Errorf("-rtt %v: use 0 to 1s", d)
		}
		c.rtts = append(c.rtts, d)
	}
	switch {
	case c.Processes < 1 || c.Processes > 128:
		return fmt.Errorf("-processes %d: use 1 to 128", c.Processes)
	case c.Keys < 1 || c.Keys > side.Keys-1:
		return fmt.Errorf("-keys %d: use 1 to %d", c.Keys, side.Keys-1)
	case c.Hold < 0 || c.Hold > time.Minute:
		return fmt.Errorf("-hold %v: use 0 to 1m", c.Hold)
	case c.TTL < 100*time.Millisecond || c.TTL > 24*time.Hour:
		return fmt.Errorf("-ttl %v: use 100ms to 24h", c.TTL)
	case c.Window < 100*time.Millisecond || c.Window > 10*time.Minute:
		return fmt.Errorf("-window %v: use 100ms to 10m", c.Window)
	}
	return nil
}

// contestOfChoice measures it.
func (b *Bench) contestOfChoice(ctx context.Context) error {
	kinds := append([]string{side.Version, side.Unique, side.ForUpdate, side.FairVersion, side.Mongo, side.FairMongo, side.Poller, side.GetLock,
		side.Redislock, side.Redsync, side.Etcd, side.ZooKeeper}, side.Registered()...)
	b.contests = map[string]int{}
	for round := range b.Plan.Rounds {
		for _, rtt := range b.Contest.rtts {
			for _, server := range shuffled(b.Lab.All()) {
				if rtt > 0 && len(server.Rowlock()) == 0 {
					b.File.Leave(fmt.Sprintf("%s with a round trip of %v", server.Name, rtt), "the delaying proxy is for the databases")
					continue
				}
				if err := b.chosen(ctx, round, server, rtt, kinds); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// chosen measures the sides of a server.
func (b *Bench) chosen(ctx context.Context, round int, server *lab.Server, rtt time.Duration, kinds []string) error {
	if rtt > 0 {
		far, err := server.Far(rtt)
		if err != nil {
			return b.failed(ctx, "contest", server.Name, err)
		}
		defer far.Close()
		server = far.Server
	}
	for _, c := range shuffled(candidates(server1(server), kinds...)) {
		for _, workers := range b.Contest.Workers {
			if err := b.failed(ctx, "contest", c.String(), b.chosenSide(ctx, round, c, rtt, workers)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) chosenSide(ctx context.Context, round int, c candidate, rtt time.Duration, workers int) error {
	k := b.Contest
	connections := 4
	if !side.IsRowlock(c.kind) || c.kind == side.ForUpdate {
		connections = workers // one for each caller
	}
	if !b.fits(c, "contest", k.Processes*connections) {
		return nil
	}
	what := fmt.Sprintf("%d × %d, %d keys, hold %v", k.Processes, workers, k.Keys, k.Hold)
	if rtt > 0 {
		what += fmt.Sprintf(", RTT %v", rtt)
	}
	b.Say("contest round %d of %d: %s, %s", round+1, b.Plan.Rounds, c, what)
	b.contests[c.String()]++
	spec := c.server.Spec(c.kind, workers)
	spec.TTL = k.TTL
	task := contest{Spec: spec, Key: side.Key(300 + b.contests[c.String()]%200), Waiters: workers, Hold: k.Hold, Timed: true}
	if k.Keys > 1 {
		task.Keys = k.Keys
	}
	b.Plan.Window = k.Window
	if k.Hold == 0 {
		b.Plan.Window *= 3 // see window
	}
	found, err := b.compete(ctx, k.Processes, task)
	if err != nil {
		return err
	}
	s := summarize(found)
	if s.overlaps > 0 {
		return errors.New("two processes had one key at the same time")
	}
	at := c.at("contest", what, float64(workers))
	b.addContest(at, s, k.Window)
	return nil
}

// addContest adds what a contest gave within a time.
func (b *Bench) addContest(at result.At, s summary, window time.Duration) {
	b.File.Add(at, "holds/s", float64(s.holds)/window.Seconds())
	b.File.Add(at, "wait p50 ms", measure.Quantile(s.waits, 0.5))
	b.File.Add(at, "wait p99 ms", measure.Quantile(s.waits, 0.99))
	b.File.Add(at, "longest wait ms", measure.Millis(s.longest))
	b.File.Add(at, "without a turn", float64(s.starved))
	b.File.Add(at, "share max÷min", s.share)
	if s.counts {
		b.File.Add(at, "statements/hold", float64(s.statements)/float64(max(s.holds, 1)))
	}
}
