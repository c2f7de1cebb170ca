package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// takeover is how long a key stayed taken after its holder was killed.
type takeover struct {
	Server   string         `json:"server"`
	Strategy string         `json:"strategy"`
	TTL      milliseconds   `json:"ttl_ms"`
	Trials   []milliseconds `json:"trials_ms"`
	Median   milliseconds   `json:"median_ms"`
	Max      milliseconds   `json:"max_ms"`
	Promised milliseconds   `json:"promised_ms"` // see promised
}

// promised is what the library promises for a killed holder on a living machine.
func promised(strategy string, ttl time.Duration) time.Duration {
	if strategy == forUpdate {
		return 50 * time.Millisecond
	}
	return ttl + ttl/10
}

// claim is the task of a holder and of a waiter.
type claim struct {
	Place place
	Key   string
	TTL   time.Duration
}

// playHolder takes the key and keeps it until it is killed.
func playHolder(ctx context.Context, parent *fleet.Parent) error {
	return claimant(ctx, parent, func(locks *client, c claim) error {
		if _, err := locks.Acquire(ctx, c.Key); err != nil {
			return err
		}
		if err := parent.Send("held"); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// playWaiter waits for the key and says when it waits and when it has it.
func playWaiter(ctx context.Context, parent *fleet.Parent) error {
	return claimant(ctx, parent, func(locks *client, c claim) error {
		if _, err := locks.TryAcquire(ctx, c.Key); !errors.Is(err, rowlock.ErrHeld) {
			return fmt.Errorf("%s should be held by another process: %w", c.Key, err)
		}
		if err := parent.Send("waiting"); err != nil {
			return err
		}
		lease, err := locks.Acquire(ctx, c.Key)
		if err != nil {
			return err
		}
		return errors.Join(parent.Send("held"), lease.Release(ctx))
	})
}

func claimant(ctx context.Context, parent *fleet.Parent, play func(*client, claim) error) error {
	var c claim
	if err := parent.Receive(&c); err != nil {
		return err
	}
	shop, err := c.Place.open()
	if err != nil {
		return err
	}
	locks, err := openClient(ctx, shop, c.Place, rowlock.Options{TTL: c.TTL})
	if err != nil {
		return errors.Join(err, shop.Close())
	}
	err = play(locks, c)
	return errors.Join(err, locks.close(), shop.Close())
}

// kill measures takeovers at p: each trial has a key, a holder and a waiter of its
// own, and they run side by side. A lease is renewed at a third of its TTL; the
// trials spread their kills over that time, so that chance does not choose.
func (d *demo) kill(ctx context.Context, p place) (takeover, error) {
	t := takeover{Server: p.Server.Name(), Strategy: p.Strategy, TTL: milliseconds(d.TTL), Promised: milliseconds(promised(p.Strategy, d.TTL))}
	limit := 5*d.TTL + 20*time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no takeover after %v", limit))
	defer cancel()
	line := d.progress(p.String())
	line.say(fmt.Sprintf("killing %d holders, TTL %v", d.Trials, d.TTL))
	defer line.end()
	var (
		all   sync.WaitGroup
		times = make([]time.Duration, d.Trials)
		errs  = make([]error, d.Trials)
	)
	for i := range d.Trials {
		all.Go(func() {
			c := claim{Place: p, Key: fmt.Sprintf("takeover:%d", i+1), TTL: d.TTL}
			delay := settle + d.TTL/3*time.Duration(i)/time.Duration(d.Trials)
			times[i], errs[i] = trial(ctx, c, delay)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return t, errors.Join(err, context.Cause(ctx))
	}
	slices.Sort(times)
	for _, d := range times {
		t.Trials = append(t.Trials, milliseconds(d))
	}
	t.Median, t.Max = milliseconds(quantile(times, 0.5)), milliseconds(times[len(times)-1])
	return t, nil
}

// settle is time for a waiter to go from its first look to waiting.
const settle = 300 * time.Millisecond

// trial kills one holder, delay after another process began to wait for its key,
// and returns how long that one had to wait from then on.
func trial(ctx context.Context, c claim, delay time.Duration) (took time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var holder, waiter *fleet.Process
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(holder, waiter)
	}()
	holder, err = fleet.Start(ctx, roleHolder, c)
	if err != nil {
		return 0, err
	}
	var said string
	if err := holder.Receive(&said); err != nil {
		return 0, err
	}
	waiter, err = fleet.Start(ctx, roleWaiter, c)
	if err != nil {
		return 0, err
	}
	if err := waiter.Receive(&said); err != nil {
		return 0, err
	}
	if err := timed.Sleep(ctx, delay); err != nil {
		return 0, err
	}
	killed := time.Now()
	if err := holder.Kill(); err != nil {
		return 0, err
	}
	if err := waiter.Receive(&said); err != nil {
		return 0, err
	}
	took = time.Since(killed)
	return took, waiter.Close()
}
