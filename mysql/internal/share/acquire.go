package share

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/order"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// attempt is one Acquire.
type attempt struct {
	*Table
	keys    row.Attempt      // of the exclusive requests
	reqs    []driver.Request // sorted by key: all batches lock rows in one order
	results []driver.Result  // of reqs
	begins  Begin            // of a strategy whose rows do not tell whether a key is free; nil: they do
}

func newAttempt(l *Table, sorted []driver.Request, begins Begin) attempt {
	results := make([]driver.Result, len(sorted))
	return attempt{Table: l, keys: row.Attempt{Table: l.Table, Reqs: sorted, Results: results}, reqs: sorted, results: results, begins: begins}
}

// Begin begins the phase of a key for a request of Mode Shared or Slot, if the key is free, on
// the connection. An answer that is Unknown without an error says that there is a phase;
// found, that it was not this call that began it.
type Begin func(ctx context.Context, c *conn.Conn, r *driver.Request) (answer driver.Result, found bool, err error)

// Join answers requests of Mode Shared and Slot, where phases begin by begins.
func (l *Table) Join(ctx context.Context, reqs []driver.Request, begins Begin) ([]driver.Result, error) {
	return l.acquire(ctx, reqs, begins)
}

// Acquire is one upsert for all exclusive requests, and a second look at what it left open;
// then the joins of the others, and the takes of keys that are in a phase.
func (l *Table) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	return l.acquire(ctx, reqs, nil)
}

func (l *Table) acquire(ctx context.Context, reqs []driver.Request, begins Begin) ([]driver.Result, error) {
	sorted := order.Sort(reqs, func(r driver.Request) string { return r.Key }, order.ByBytes)
	a := newAttempt(l, sorted.Items, begins)
	hinted := true
	for _, r := range reqs {
		hinted = hinted && r.Pinned
	}
	if hinted {
		// Pinned keys share one connection, so that however many there are they leave
		// the others to the rest.
		if err := l.DB.TakeSlow(ctx); err != nil {
			return nil, err
		}
		defer l.DB.GiveSlow()
	}
	if err := l.DB.Step(ctx, l.DB.Acquires, func(c *conn.Conn) error { return a.all(ctx, c) }); err != nil {
		return nil, err
	}
	return order.Unsort(sorted, a.results), nil
}

// all answers all requests on one connection. Its error says that no key has an answer.
func (a *attempt) all(ctx context.Context, c *conn.Conn) error {
	exclusive := make([]int, 0, len(a.reqs))
	var shares []int
	for i := range a.reqs {
		if a.reqs[i].Mode == driver.Exclusive {
			exclusive = append(exclusive, i)
		} else {
			shares = append(shares, i)
		}
	}
	if err := a.keys.Run(ctx, c, exclusive); err != nil {
		return err
	}
	if len(shares) > 0 {
		if err := a.join(ctx, c, shares); err != nil {
			return err
		}
	}
	a.takeAll(ctx, c)
	return nil
}

// phasePatience is how long the keys of a call that are in a phase may keep the others
// waiting for their answers: each costs statements of its own.
const phasePatience = 50 * time.Millisecond

// takeAll goes on with the exclusive requests that met a phase.
func (a *attempt) takeAll(ctx context.Context, c *conn.Conn) {
	start := time.Now()
	for i := range a.reqs {
		r := &a.reqs[i]
		if r.Mode != driver.Exclusive || a.results[i].Status != driver.Held || !a.results[i].Shared {
			continue
		}
		if len(a.reqs) > 1 && !r.Apart && time.Since(start) > phasePatience {
			a.results[i] = driver.Result{Status: driver.Pinned, Apart: true}
			continue
		}
		a.results[i] = a.takeLined(ctx, c, i)
	}
}
