// Package queue is between the engine and code of the user's (log handlers, observers), which may block, and may call the
// client: the engine adds an item, also under a lock, and one goroutine hands it over later.
package queue

import (
	"context"
	"sync"
	"time"
)

// Queue holds items until they are handed over, one after the other. Its goroutine runs only while there are any.
type Queue[E any] struct {
	hand  func(*E)
	after func()

	mu      sync.Mutex
	items   []E // from head on
	head    int
	running bool // the goroutine, or it is about to
	timer   *time.Timer
	empty   chan struct{} // closed when none is left; nil: nobody asked

	taken uint64 // since the queue was made

	// Of the goroutine.
	now    E
	worked bool // an item was handed over since after was called
}

// gather is how long the first item waits for others: they come together, and to wake a goroutine costs more than to
// hand an item over.
const gather = time.Millisecond

// New makes a Queue that hands items over by calling hand, which may change its argument; and that calls after, unless it is
// nil, when none is left. It starts nothing.
func New[E any](hand func(*E), after func()) *Queue[E] { return &Queue[E]{hand: hand, after: after} }

// Add puts an item into the queue, unless it has room of them already: false. It never blocks. hurry: it is handed over
// at once.
func (q *Queue[E]) Add(e *E, room int, hurry bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items)-q.head >= room {
		return false
	}
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, *e)
	switch {
	case q.running:
		return true
	case hurry:
		go q.run()
	case q.timer == nil:
		q.timer = time.AfterFunc(gather, q.run)
	default:
		q.timer.Reset(gather)
	}
	q.running = true
	return true
}

// run hands items over until there are none. If the user's code ends the goroutine (runtime.Goexit) another one goes on
// behind the item.
func (q *Queue[E]) run() {
	over := false
	defer func() {
		if !over {
			go q.run()
		}
	}()
	for q.next() {
		q.hand(&q.now)
	}
	over = true
}

// next takes the oldest item. Where there is none the goroutine is over.
func (q *Queue[E]) next() bool {
	q.mu.Lock()
	if q.head == len(q.items) && q.worked && q.after != nil {
		q.worked = false
		q.mu.Unlock()
		q.after()
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	if q.head < len(q.items) {
		q.now, q.worked = q.items[q.head], true
		clear(q.items[q.head : q.head+1])
		q.head++
		q.taken++
		return true
	}
	q.items, q.head, q.running = q.items[:0], 0, false
	if q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
	return false
}

// Flush waits until every item was handed over, or ctx ends. User code that takes longer than patience for one item is not
// waited for: it may be waiting for the caller.
func (q *Queue[E]) Flush(ctx context.Context, patience time.Duration) {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for first, before := true, uint64(0); ; first = false {
		empty, taken := q.state()
		if empty == nil || !first && taken == before {
			return
		}
		before = taken
		select {
		case <-empty:
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// state is what is closed when no item is left, or nil if none is, and how many were taken since the queue was made.
func (q *Queue[E]) state() (empty <-chan struct{}, taken uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running {
		return nil, 0
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	return q.empty, q.taken
}
