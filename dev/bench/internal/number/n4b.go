package number

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// The callers of N4b in each process, how long each holds a key, and the number of keys
// in the second part.
const (
	n4bWaiters = 4
	n4bHold    = 5 * time.Millisecond
	n4bKeys    = 64
)

// N4b measures many processes: one key that all of them want, and many keys of which
// each caller wants any. It is compared with GET_LOCK, and with a loop that tries every
// 5 ms with the same statements.
func (b *Bench) N4b(ctx context.Context) error {
	one := []string{side.Version, side.Unique, side.ForUpdate, side.Mongo, side.GetLock}
	many := []string{side.Version, side.Mongo}
	if b.Plan.Others {
		one = append(one, side.VersionProbes, side.FairVersion, side.FairMongo, side.Poller, side.Redislock, side.Redsync, side.Etcd, side.ZooKeeper)
		many = append(many, side.Unique, side.ForUpdate, side.Poller, side.GetLock, side.Redislock, side.Redsync, side.Etcd, side.ZooKeeper)
	}
	one, many = append(one, side.Registered()...), append(many, side.Registered()...)
	b.contests = map[string]int{}
	for round := range b.Plan.Rounds {
		for _, server := range shuffled(b.Lab.All()) {
			for _, part := range []struct {
				keys  int
				kinds []string
				peer  string
			}{{0, one, side.GetLock}, {n4bKeys, many, side.Poller}} {
				found := map[candidate]summary{}
				for _, c := range shuffled(candidates(server1(server), part.kinds...)) {
					s, err := b.gather(ctx, round, c, part.keys)
					if err != nil {
						return err
					}
					if s.holds > 0 {
						found[c] = s
					}
				}
				peer, paired := found[candidate{server, part.peer}]
				for c, s := range found {
					if paired {
						at := c.at("N4b", b.manyCase(part.keys), 0)
						b.File.Add(at, "× "+part.peer, float64(s.holds)/float64(peer.holds))
						b.File.Add(at, "wait p99 ÷ "+part.peer+"'s", measure.Quantile(s.waits, 0.99)/measure.Quantile(peer.waits, 0.99))
					}
				}
			}
		}
	}
	return nil
}

func (b *Bench) manyCase(keys int) string {
	what := "one key"
	if keys > 0 {
		what = fmt.Sprintf("%d keys", keys)
	}
	return fmt.Sprintf("%s, %d × %d, hold %v", what, b.Plan.Many, n4bWaiters, n4bHold)
}

// gather lets many processes compete, and notes what they found.
func (b *Bench) gather(ctx context.Context, round int, c candidate, keys int) (s summary, err error) {
	connections := 4
	if c.kind == side.GetLock || c.kind == side.Poller {
		connections = n4bWaiters // one for each caller
	}
	if !b.fits(c, "N4b", b.Plan.Many*connections) {
		return s, nil
	}
	what := b.manyCase(keys)
	b.Say("N4b round %d of %d: %s, %s", round+1, b.Plan.Rounds, c, what)
	b.contests[c.String()]++
	task := contest{Spec: c.server.Spec(c.kind, n4bWaiters), Key: side.Key(300 + b.contests[c.String()]%200), Keys: keys, Waiters: n4bWaiters, Hold: n4bHold}
	whole := b.Plan.Window
	b.Plan.Window = b.Plan.Together
	found, err := b.compete(ctx, b.Plan.Many, task)
	b.Plan.Window = whole
	if err != nil {
		return s, b.failed(ctx, "N4b", c.String(), err)
	}
	s = summarize(found)
	at := c.at("N4b", what, 0)
	if s.overlaps > 0 {
		b.File.Note(fmt.Sprintf("N4b: on %s two processes had the key at the same time, %d times.", c, s.overlaps))
	}
	b.addContest(at, s, b.Plan.Together)
	return s, nil
}
