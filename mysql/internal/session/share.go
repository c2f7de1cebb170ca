package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Readers and slots have no session: each is a row of the share table, in a phase of the key's
// lease row, as package share has them. Only where a phase begins and where it ends does the row
// lock matter: see beginPhase and throughPhase.

// acquireShares takes keys for requests of Mode Shared and Slot.
func (f *ForUpdate) acquireShares(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	seen := make(map[string]driver.Hint) // of keys that sessions have
	results, err := f.lease.Join(ctx, reqs, func(ctx context.Context, c *conn.Conn, r *driver.Request) (driver.Result, bool, error) {
		b := beginning{f: f, c: c, r: r}
		result, found, err := b.begin(ctx)
		if result.Status == driver.Held {
			seen[r.Key] = b.wanted
		}
		return result, found, err
	})
	f.sawPhases(reqs, results)
	for i, r := range results {
		if wanted, ok := seen[reqs[i].Key]; ok {
			f.refused(ctx, reqs[i], r, wanted)
		}
	}
	return results, err
}

// sawPhases notes which keys are in a phase, as the answers to requests of Mode Shared and Slot tell.
func (f *ForUpdate) sawPhases(reqs []driver.Request, results []driver.Result) {
	for i, r := range results {
		if r.Status == driver.Granted || r.Shared {
			f.phases.saw(reqs[i].Key, true)
		}
	}
}

// waitForPhase waits for the row lock in the server's queue, among those that want the key
// for themselves alone, and begins a phase when it comes. The session that has waited has the
// row locked until the request is answered.
func (f *ForUpdate) waitForPhase(ctx context.Context, r driver.Request, begin func()) driver.Result {
	defer f.hinter.join(r)()
	for {
		n, err := f.session(ctx, r.TTL)
		if errors.Is(err, errNoRoom) {
			err = fmt.Errorf("%w: %w", driver.ErrNoPlace, err) // readers and slots can do without
		}
		if err != nil {
			return driver.Result{Err: conn.NotSent(f.lease.What("wait"), err)}
		}
		found, err := f.waitForRow(ctx, n, f.shareRow(r.Key))
		if err != nil {
			if err = f.endWait(ctx, &Attempt{f: f, r: r, session: n}, err); err == nil {
				continue
			}
			return driver.Result{Err: err}
		}
		// As in AcquireWait.
		steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.TTL)
		defer cancel()
		begin()
		results, err := f.lease.Join(steps, []driver.Request{r}, func(ctx context.Context, c *conn.Conn, r *driver.Request) (driver.Result, bool, error) {
			b := beginning{f: f, c: c, r: r, session: n}
			b.t0, b.locked = tokenIn(found)
			result, there, err := b.begin(ctx)
			return result, there, err
		})
		if rollBack(steps, n) != nil {
			f.endSession(f.life, n) // its lock keeps exclusive attempts out
		}
		n.Put()
		if err != nil {
			return driver.Result{Err: err}
		}
		f.sawPhases([]driver.Request{r}, results)
		return results[0]
	}
}

// split runs two steps side by side: one for the entries that are exclusive, one for the
// others. Each gets the entries in their order, and its answers go where they belong.
func split[T any](ctx context.Context, entries []T, exclusive func(*T) bool, alone, shared func(context.Context, []T) ([]driver.Result, error)) ([]driver.Result, error) {
	var parts [2][]int
	for i := range entries {
		n := 0
		if !exclusive(&entries[i]) {
			n = 1
		}
		parts[n] = append(parts[n], i)
	}
	switch {
	case len(parts[1]) == 0:
		return alone(ctx, entries)
	case len(parts[0]) == 0:
		return shared(ctx, entries)
	}
	results := make([]driver.Result, len(entries))
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for n, step := range []func(context.Context, []T) ([]driver.Result, error){alone, shared} {
		wg.Go(func() {
			some := make([]T, len(parts[n]))
			for k, i := range parts[n] {
				some[k] = entries[i]
			}
			var answers []driver.Result
			answers, errs[n] = step(ctx, some)
			for k, i := range parts[n] {
				if errs[n] != nil {
					results[i] = driver.Result{Err: errs[n]}
				} else {
					results[i] = answers[k]
				}
			}
		})
	}
	wg.Wait()
	if errs[0] != nil && errs[1] != nil {
		return nil, leastSure(errs[0], errs[1])
	}
	return results, nil
}

// leastSure is the one of two errors that says less: that something may have been applied.
func leastSure(a, b error) error {
	if driver.IsNotApplied(a) {
		return b
	}
	return a
}

func exclusiveRequest(r *driver.Request) bool { return r.Mode == driver.Exclusive }
func exclusiveHold(h *driver.Hold) bool       { return h.Mode == driver.Exclusive }
