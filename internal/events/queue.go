// Package events is between the engine and the observers of a client, which are user code: the
// engine puts an event into a [Queue], also under a lock, and one goroutine tells it later.
package events

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/internal/drain"
)

// Queue holds events until they are told, one after the other. Its goroutine runs only while
// there are any.
type Queue[E any] struct {
	tell func(*E)

	mu      sync.Mutex
	waiting []E
	spare   []E // for the next ones
	running bool
	timer   *time.Timer
	empty   chan struct{} // closed when none is left; nil: nobody asked

	told    atomic.Uint64
	dropped atomic.Uint64

	// Of the goroutine.
	now  []E
	next int
}

const (
	// Max bounds the events that wait. Those that are not urgent get a part of the room.
	Max       = 2000
	maxOthers = 1500

	// gather is how long the first event waits for others: they come together, and to wake a
	// goroutine costs more than to tell an event.
	gather = time.Millisecond
)

// New makes a Queue that tells events by calling tell, which may change its argument. It
// starts nothing.
func New[E any](tell func(*E)) *Queue[E] { return &Queue[E]{tell: tell} }

// Dropped is how many events found no room.
func (q *Queue[E]) Dropped() uint64 { return q.dropped.Load() }

// Add puts an event into the queue; it never blocks. urgent ones get room that others do not.
func (q *Queue[E]) Add(e *E, urgent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := maxOthers
	if urgent {
		most = Max
	}
	if len(q.waiting) >= most {
		q.dropped.Add(1)
		return
	}
	q.waiting = append(q.waiting, *e)
	switch {
	case q.running:
	case q.timer == nil:
		q.running = true
		q.timer = time.AfterFunc(gather, q.run)
	default:
		q.running = true
		q.timer.Reset(gather)
	}
}

// run tells events until there are none. If the user's code ends the goroutine
// (runtime.Goexit) another one goes on behind the event.
func (q *Queue[E]) run() {
	over := false
	defer func() {
		if !over {
			go q.run()
		}
	}()
	for q.more() {
		e := &q.now[q.next]
		q.next++
		q.told.Add(1)
		q.tell(e)
	}
	over = true
}

// more reports whether there is an event to tell.
func (q *Queue[E]) more() bool {
	if q.next < len(q.now) {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.now)
	done := q.now[:0]
	q.now, q.next = nil, 0
	if len(q.waiting) == 0 {
		q.spare = done
		q.running = false
		if q.empty != nil {
			close(q.empty)
			q.empty = nil
		}
		return false
	}
	q.now, q.waiting, q.spare = q.waiting, q.spare, nil
	if q.waiting == nil {
		q.waiting = done
	}
	return true
}

// Flush waits until every event was told, or ctx ends. User code that takes longer than
// patience for one event is not waited for: it may be waiting for the caller.
func (q *Queue[E]) Flush(ctx context.Context, patience time.Duration) {
	drain.Wait(ctx, patience, func() (<-chan struct{}, uint64) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.running {
			return nil, 0
		}
		if q.empty == nil {
			q.empty = make(chan struct{})
		}
		return q.empty, q.told.Load()
	})
}
