package rowlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// lane gathers the calls of one kind and sends them in batches: while batches are
// on their way the next one gathers. A lone caller waits for nobody.
//
// How many batches are under way adapts: up to Limits.Flights start at once; when
// the oldest has been away for Limits.SlowFlight, which means slow commits or a
// blocked key, one more may start, up to maxFlights.
type lane[Q any] struct {
	c    *Client
	key  func(*Q) string
	ttl  func(*Q) time.Duration // calls of different TTLs go apart: they have different deadlines
	send func(context.Context, []Q) ([]driver.Result, error)

	mu      sync.Mutex
	waiting []*call[Q]
	flights []*flight
	timer   *time.Timer // starts one more flight
}

// maxFlights bounds the batches of a lane that are under way.
const maxFlights = 4

// call is one request in a lane.
type call[Q any] struct {
	q        Q
	patience time.Duration // how long the answer is worth waiting for, from the send
	by       time.Duration // and when it is worth nothing any more; 0: no such time
	answer   answerer
}

// errTooLate: a call waited in its lane for as long as its answer was worth.
var errTooLate = &driver.Error{NotApplied: true, Err: errors.New("the database did not answer the statements before it in time")}

// answerer gets the answer to its call, with the clock read before the send and
// after the reply. The error of a whole batch comes as an Unknown with Err.
type answerer interface {
	answered(r driver.Result, sent, got time.Duration)
}

// flight is a batch on its way.
type flight struct{ since time.Duration }

// submit puts q into the next batch. Where that may leave at once, the caller
// lets it: by run in a goroutine, or by lead in its own. The caller has entered
// the client.
func (l *lane[Q]) submit(q *call[Q]) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, q)
	return l.mayStart()
}

// lead sends the next batch in the caller's goroutine and leaves those after it to
// another.
func (l *lane[Q]) lead(f *flight) {
	if batch := l.take(f); len(batch) > 0 {
		l.fly(batch)
		l.mu.Lock()
		more := len(l.waiting) > 0
		if !more {
			l.land(f)
		}
		l.mu.Unlock()
		if more {
			go l.run(f)
			return
		}
	}
	l.c.work.exit()
}

// land ends a flight. Called under l.mu.
func (l *lane[Q]) land(f *flight) {
	l.flights = slices.DeleteFunc(l.flights, func(g *flight) bool { return g == f })
}

// mayStart adds a flight if one more may start now. Otherwise it sees to it that
// the question is asked again.
func (l *lane[Q]) mayStart() *flight {
	n := len(l.flights)
	switch {
	case len(l.waiting) == 0 || n >= maxFlights:
		return nil
	case n >= l.c.limits.Flights:
		age := l.c.now() - l.flights[0].since
		if wait := l.c.limits.SlowFlight - age; wait > 0 {
			if l.timer == nil {
				l.timer = time.AfterFunc(wait, l.again)
			}
			return nil
		}
	}
	f := &flight{since: l.c.now()}
	l.flights = append(l.flights, f)
	l.c.work.more()
	return f
}

func (l *lane[Q]) again() {
	l.mu.Lock()
	l.timer = nil
	start := l.mayStart()
	l.mu.Unlock()
	if start != nil {
		l.run(start)
	}
}

// run sends batches until nothing waits.
func (l *lane[Q]) run(f *flight) {
	defer l.c.work.exit()
	for {
		batch := l.take(f)
		if len(batch) == 0 {
			return
		}
		l.fly(batch)
	}
}

// take chooses the next batch: the first that waits and those behind it that have
// the same TTL and other keys. With nothing left it ends the flight.
func (l *lane[Q]) take(f *flight) []*call[Q] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.land(f)
	if len(l.waiting) == 0 {
		return nil
	}
	f.since = l.c.now()
	l.flights = append(l.flights, f)
	if len(l.waiting) == 1 {
		batch := l.waiting
		l.waiting = nil
		return batch
	}
	ttl := l.ttl(&l.waiting[0].q)
	seen := make(map[string]bool, len(l.waiting))
	var batch, rest []*call[Q]
	for _, q := range l.waiting {
		if key := l.key(&q.q); len(batch) < l.c.limits.Batch && l.ttl(&q.q) == ttl && !seen[key] {
			seen[key] = true
			batch = append(batch, q)
		} else {
			rest = append(rest, q)
		}
	}
	l.waiting = rest
	return batch
}

// fly sends one batch and hands out its answers.
func (l *lane[Q]) fly(batch []*call[Q]) {
	c := l.c
	sent := c.now()
	qs := make([]Q, 0, len(batch))
	patience := batch[0].patience
	late := batch[:0:0]
	for i, q := range batch {
		if q.by > 0 && q.by <= sent {
			late = append(late, q)
			batch[i] = nil
			continue
		}
		qs = append(qs, q.q)
		patience = min(patience, q.patience)
		if q.by > 0 {
			patience = min(patience, q.by-sent)
		}
	}
	for _, q := range late {
		q.answer.answered(driver.Result{Err: errTooLate}, sent, sent)
	}
	if batch = slices.DeleteFunc(batch, func(q *call[Q]) bool { return q == nil }); len(batch) == 0 {
		return
	}
	ctx := c.within(patience)
	c.calls.Add(1)
	results, err := l.send(ctx, qs)
	ctx.end()
	got := c.now()
	if err == nil && len(results) != len(batch) {
		err = fmt.Errorf("the store gave %d answers for %d requests", len(results), len(batch))
	}
	for i, q := range batch {
		r := driver.Result{Err: err}
		if err == nil {
			r = results[i]
		}
		q.answer.answered(r, sent, got)
	}
}
