//go:build unix

package guard

import (
	"encoding/gob"
	"os"
	"sync"
)

// orders are on their way to the guard. A goroutine of their own writes them: a guard that stands
// still reads nothing, and must keep nobody from killing it.
type orders struct {
	mu      sync.Mutex
	waiting []order
	more    chan struct{} // has room for one
	over    chan struct{}
	once    sync.Once
}

func newOrders() orders { return orders{more: make(chan struct{}, 1), over: make(chan struct{})} }

// add hands an order over. Of two that say nothing but until when the lease is trusted the newer one
// is enough.
func (q *orders) add(o order) {
	q.mu.Lock()
	if last := len(q.waiting) - 1; last >= 0 && q.waiting[last].onlyUntil() && o.onlyUntil() {
		q.waiting[last].Until = max(q.waiting[last].Until, o.Until)
	} else {
		q.waiting = append(q.waiting, o)
	}
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// write writes them, until close is called.
func (q *orders) write(pipe *os.File) {
	go func() {
		<-q.over
		_ = pipe.Close() // which ends a write that hangs
	}()
	encoder := gob.NewEncoder(pipe)
	for {
		q.mu.Lock()
		orders := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		for _, o := range orders {
			_ = encoder.Encode(o) // of a guard that is dead listen tells
		}
		select {
		case <-q.more:
		case <-q.over:
			return
		}
	}
}

func (q *orders) close() { q.once.Do(func() { close(q.over) }) }

func (o order) onlyUntil() bool {
	return o.Start == nil && o.Signal == 0 && !o.Go && !o.Stop && !o.Kill
}
