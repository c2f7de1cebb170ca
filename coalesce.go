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
// on their way the next one gathers. A lone caller waits for nobody; see crowd.
//
// How many batches are under way adapts: up to Limits.Flights start at once; when
// the oldest has been away for Limits.SlowFlight, which means slow commits or a
// blocked key, one more may start, up to maxFlights.
type lane[Q any] struct {
	c    *Client
	key  func(*Q) string
	send func(context.Context, []Q) ([]driver.Result, error)

	mu      sync.Mutex
	waiting []*call[Q]
	flights []*flight[Q] // the oldest first
	spare   []*flight[Q]
	timer   *time.Timer // starts one more flight
	crowd   crowd
}

// maxFlights bounds the batches of a lane that are under way.
const maxFlights = 4

// call is one request in a lane.
type call[Q any] struct {
	q        Q
	class    time.Duration // calls of different classes go apart: their deadlines differ much
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

// flight is a batch on its way. It is reused, with its memory.
type flight[Q any] struct {
	lane  *lane[Q]
	since time.Duration
	full  chan struct{} // not nil: before it leaves it waits for this, at most so long
	wait  time.Duration
	calls []*call[Q]
	qs    []Q
}

// submit puts q into the next batch. Where that may leave at once, the caller
// lets it: by run in a goroutine, or by lead in its own. The caller has entered
// the client.
func (l *lane[Q]) submit(q *call[Q]) *flight[Q] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, q)
	l.crowd.come(l.c.now(), len(l.waiting))
	return l.mayStart()
}

// withdraw takes a call back that no batch has taken yet; false: one has.
func (l *lane[Q]) withdraw(q *call[Q]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, q)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	l.crowd.leave(1)
	return true
}

// mayStart adds a flight if one more may start now. Otherwise it sees to it that
// the question is asked again. Called under l.mu.
func (l *lane[Q]) mayStart() *flight[Q] {
	n := len(l.flights)
	switch {
	case len(l.waiting) == 0 || l.crowd.full != nil:
		return nil
	case l.c.limits.Flights == 0:
	case n >= maxFlights:
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
	var f *flight[Q]
	if n := len(l.spare); n > 0 {
		f, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		f = &flight[Q]{lane: l}
	}
	f.since = l.c.now()
	if l.c.limits.Flights > 0 {
		f.full, f.wait = l.crowd.wait()
	}
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
func (l *lane[Q]) run(f *flight[Q]) {
	f.gather()
	for l.take(f) {
		l.fly(f)
	}
	l.c.work.exit()
}

// lead sends the next batch in the caller's goroutine and leaves those after it to
// another.
func (l *lane[Q]) lead(f *flight[Q]) {
	f.gather()
	if l.take(f) {
		l.fly(f)
		if l.take(f) {
			go func() {
				l.fly(f)
				l.run(f)
			}()
			return
		}
	}
	l.c.work.exit()
}

// gather waits for the others of a crowd.
func (f *flight[Q]) gather() {
	if f.full == nil {
		return
	}
	t := time.NewTimer(f.wait)
	defer t.Stop()
	select {
	case <-f.full:
	case <-t.C:
	}
}

// take chooses the next batch: the first that waits and those behind it that have
// the same class and other keys. With nothing left it ends the flight.
func (l *lane[Q]) take(f *flight[Q]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.full != nil {
		f.full, l.crowd.full = nil, nil
		defer l.another() // for those that cannot go with the others
	}
	l.flights = slices.DeleteFunc(l.flights, func(g *flight[Q]) bool { return g == f })
	clear(f.calls)
	clear(f.qs)
	f.calls, f.qs = f.calls[:0], f.qs[:0]
	if len(l.waiting) == 0 {
		l.spare = append(l.spare, f)
		return false
	}
	f.since = l.c.now()
	l.flights = append(l.flights, f)
	if len(l.waiting) == 1 || l.c.limits.Flights == 0 {
		f.calls = append(f.calls, l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
		return true
	}
	class := l.waiting[0].class
	seen := make(map[string]bool, len(l.waiting))
	rest := l.waiting[:0]
	for _, q := range l.waiting {
		if key := l.key(&q.q); len(f.calls) < l.c.limits.Batch && q.class == class && !seen[key] {
			seen[key] = true
			f.calls = append(f.calls, q)
		} else {
			rest = append(rest, q)
		}
	}
	clear(l.waiting[len(rest):])
	l.waiting = rest
	return true
}

// another starts one more flight if it may. Called under l.mu.
func (l *lane[Q]) another() {
	if f := l.mayStart(); f != nil {
		go l.run(f)
	}
}

// landed notes that n calls were answered, after a flight of that length; 0: without one.
func (l *lane[Q]) landed(n int, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crowd.leave(n)
	if took > 0 {
		l.crowd.took(took)
	}
}

// fly sends the batch of f and hands out its answers.
func (l *lane[Q]) fly(f *flight[Q]) {
	sent := l.c.now()
	patience := f.calls[0].patience
	inTime := f.calls[:0]
	for _, q := range f.calls {
		if q.by > 0 && q.by <= sent {
			q.answer.answered(driver.Result{Err: errTooLate}, sent, sent)
			continue
		}
		patience = min(patience, q.patience)
		if q.by > 0 {
			patience = min(patience, q.by-sent)
		}
		f.qs = append(f.qs, q.q)
		inTime = append(inTime, q)
	}
	n := len(f.calls)
	f.calls = inTime
	if len(f.calls) == 0 {
		l.landed(n, 0)
		return
	}
	ctx := l.c.within(patience)
	l.c.calls.Add(1)
	results, err := l.send(ctx, f.qs)
	ctx.end()
	got := l.c.now()
	l.landed(n, got-sent)
	if err == nil && len(results) != len(f.calls) {
		err = fmt.Errorf("the store gave %d answers for %d requests", len(results), len(f.calls))
	}
	for i, q := range f.calls {
		r := driver.Result{Err: err}
		if err == nil {
			r = results[i]
		}
		q.answer.answered(r, sent, got)
	}
}
