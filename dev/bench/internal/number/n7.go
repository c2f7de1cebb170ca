package number

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/fleet"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// held is the task of a process that takes a key and keeps it until it is killed.
type held struct {
	Spec side.Spec
	Key  string
}

func holder(ctx context.Context, p *fleet.Parent) error {
	var task held
	if err := p.Receive(&task); err != nil {
		return err
	}
	l, err := side.Open(ctx, task.Spec)
	if err != nil {
		return err
	}
	if _, err := l.Lock(ctx, task.Key); err != nil {
		return err
	}
	if err := p.Send("held"); err != nil {
		return err
	}
	var nothing string
	_ = p.Receive(&nothing) // nothing comes: the parent kills this process, or has gone
	return nil
}

// N7 kills the holder of a key as kill -9 does, while another process, this one,
// waits for it. All sides wait at the same time: nothing is busy meanwhile.
func (b *Bench) N7(ctx context.Context) error {
	sides := append(b.strategies(), candidates(b.Lab.Servers, side.GetLock)...)
	for n := range b.Plan.Kills {
		b.Say("N7 kill %d of %d, TTL %v", n+1, b.Plan.Kills, b.Plan.KillTTL)
		var wg sync.WaitGroup
		for i, c := range sides {
			wg.Go(func() {
				took, err := b.kill(ctx, c, side.Key(10+n), time.Duration(i)*30*time.Millisecond)
				if err != nil {
					_ = b.failed(ctx, "N7", c.String(), err)
					return
				}
				at := c.at("N7", fmt.Sprintf("TTL %v", b.Plan.KillTTL), 0)
				b.File.Add(at, "until the next has it ms", measure.Millis(took))
				b.File.Add(at, "÷ TTL", took.Seconds()/b.Plan.KillTTL.Seconds())
			})
		}
		wg.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// kill kills a holder at some moment of its renewal and tells how long the waiter
// still waits.
func (b *Bench) kill(ctx context.Context, c candidate, key string, apart time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Plan.KillTTL*3+30*time.Second)
	defer cancel()
	spec := c.server.Spec(c.kind, 1)
	spec.TTL = b.Plan.KillTTL
	p, err := fleet.Start(ctx, "holder", held{spec, key})
	if err != nil {
		return 0, err
	}
	defer p.Reap()
	defer func() { _ = p.Kill() }()
	var ready string
	if err := p.Receive(&ready); err != nil {
		return 0, err
	}
	l, err := side.Open(ctx, spec)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	type answer struct {
		hold side.Hold
		at   time.Time
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		h, err := l.Lock(ctx, key)
		got <- answer{h, time.Now(), err}
	}()
	// It waits and, for a while, has waited; the holder has renewed or not.
	pause := b.Plan.KillTTL/2 + rand.N(b.Plan.KillTTL/3) + apart
	select {
	case a := <-got:
		return 0, fmt.Errorf("the waiter got the key of a living holder (%w)", a.err)
	case <-time.After(pause):
	}
	killed := time.Now()
	if err := p.Kill(); err != nil {
		return 0, err
	}
	a := <-got
	if a.err != nil {
		return 0, a.err
	}
	return a.at.Sub(killed), a.hold.Unlock(ctx)
}
