package keys

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
)

// round gathers the attempts that the prober makes at one time, so that they leave together. One
// by one some would be statements of their own: as many as the scheduler lets leave before the
// next is submitted. Guarded by Table.mu, under which it begins and ends.
type round struct {
	open    bool
	waiters []*Waiter
	batches []batchOf // that they make
}

// batchOf is what the attempts in one batch have alike.
type batchOf struct {
	by  *batch.Batcher[driver.Request]
	ttl time.Duration
}

// add takes an attempt; false: it is to leave at once.
func (r *round) add(w *Waiter) bool {
	if !r.open {
		return false
	}
	r.waiters = append(r.waiters, w)
	if b := (batchOf{w.by, w.try.Class}); !slices.Contains(r.batches, b) {
		r.batches = append(r.batches, b)
	}
	return true
}

// submit ends the round: the attempts leave, in so many statements.
func (r *round) submit(batchers ...*batch.Batcher[driver.Request]) (statements int) {
	for _, by := range batchers {
		var calls []*batch.Call[driver.Request]
		for _, w := range r.waiters {
			if w.by == by {
				calls = append(calls, &w.try)
			}
		}
		if len(calls) > 0 {
			by.Submit(calls...)
		}
	}
	statements = len(r.batches)
	clear(r.waiters)
	r.open, r.waiters, r.batches = false, r.waiters[:0], r.batches[:0]
	return statements
}
