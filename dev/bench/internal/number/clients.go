package number

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
	"github.com/rowlock/rowlock/driver"
)

// clientSet is clients of one strategy, each with a store and connections of its own, as those of as
// many programs: between them only the database decides.
type clientSet struct {
	candidate
	clients []*side.Rowlock
}

// clientSet opens n clients, each of which has done one cycle.
func (b *Bench) clientSet(ctx context.Context, c candidate, n int) (*clientSet, error) {
	all := &clientSet{candidate: c, clients: make([]*side.Rowlock, n)}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			spec := c.server.Spec(c.kind, 1)
			if all.clients[i], errs[i] = side.OpenRowlock(spec); errs[i] == nil {
				_, errs[i] = measure.Cycle(ctx, all.clients[i], side.Key(i))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		all.close(b)
		return nil, err
	}
	return all, nil
}

// has reports whether the strategy has holds of a mode.
func (c *clientSet) has(m driver.Mode) bool { return c.clients[0].Store.Limits().Modes.Has(m) }

func (c *clientSet) close(b *Bench) {
	var wg sync.WaitGroup
	for _, r := range c.clients {
		if r != nil {
			wg.Go(func() { b.end("N11", c.candidate, r) })
		}
	}
	wg.Wait()
}

// part is what some callers do over and over: acquire a key, hold it, release it, pause.
type part struct {
	callers     []*side.Rowlock // a client for each caller; one may be there more than once
	options     []rowlock.Option
	hold, pause time.Duration
	turns       int  // of each caller, at most; 0: until the end
	finish      bool // the end cuts off no attempt: those that it would are paid for, too
}

// done is what came of a part.
type done struct {
	grants     int       // until the end
	late       int       // after it
	waits      []float64 // ms
	statements uint64
}

// rate is grants a second.
func (d done) rate(span time.Duration) float64 { return float64(d.grants) / span.Seconds() }

// warm lets each caller have its turn, so that what is measured then finds the key, and each
// caller its slot, as in the middle of much work.
func warm(ctx context.Context, key string, p part) error {
	p.turns = 2
	_, err := play(ctx, key, time.Minute, p)
	return err
}

// each is statements a grant.
func (d done) each() float64 { return float64(d.statements) / float64(max(d.grants+d.late, 1)) }

// play lets parts be played beside each other for a time, on one key.
func play(ctx context.Context, key string, span time.Duration, parts ...part) ([]done, error) {
	// Not a deadline: drivers end their statements a little before it, with errors of
	// their own.
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make([]done, len(parts))
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		first error
	)
	for i, p := range parts {
		found[i].statements -= sent(p.callers)
	}
	end := time.AfterFunc(span, cancel)
	defer end.Stop()
	for i, p := range parts {
		for _, r := range p.callers {
			wg.Go(func() {
				d, err := p.play(ctx, whole, r, key)
				mu.Lock()
				defer mu.Unlock()
				found[i].grants += d.grants
				found[i].late += d.late
				found[i].waits = append(found[i].waits, d.waits...)
				first = errors.Join(first, err)
			})
		}
	}
	wg.Wait()
	for i, p := range parts {
		found[i].statements += sent(p.callers)
	}
	return found, first
}

// play is what one caller does until ctx ends, or whole where that cuts off no attempt.
func (p part) play(ctx, whole context.Context, r *side.Rowlock, key string) (d done, err error) {
	acquire := ctx
	if p.finish {
		acquire = whole
	}
	for n := 0; ctx.Err() == nil && (p.turns == 0 || n < p.turns); n++ {
		began := time.Now()
		lease, err := r.Client.Acquire(acquire, key, p.options...)
		waited := measure.Millis(time.Since(began))
		switch {
		case err == nil:
		case acquire.Err() == nil:
			return d, err
		case waited > measure.Quantile(d.waits, 1): // the end cut it off, but it was the longest
			d.waits = append(d.waits, waited)
			return d, nil
		default:
			return d, nil
		}
		if ctx.Err() == nil {
			d.grants++
		} else {
			d.late++
		}
		d.waits = append(d.waits, waited)
		rest(ctx, p.hold)
		if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
			return d, fmt.Errorf("release: %w", err)
		}
		rest(ctx, p.pause)
	}
	return d, nil
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// sent is what the clients of some callers have sent.
func sent(callers []*side.Rowlock) (n uint64) {
	counted := map[*side.Rowlock]bool{}
	for _, r := range callers {
		if !counted[r] {
			counted[r] = true
			n += r.Statements()
		}
	}
	return n
}
