// Package work counts what runs in the background, so that Close can wait for it.
package work

import (
	"sync"
	"time"
)

// Group counts the goroutines and statements of a client, or of a Store, which its Close waits for.
// After Close nothing enters; what runs may go on and begin more. Other than to a sync.WaitGroup something may be added while
// it is waited for.
type Group struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   <-chan struct{} // of Close
	none   chan struct{}   // closed when nothing is under way; nil: nobody waits for that

	workers workers
}

// Go runs f in a goroutine. It is false, and f not called, when the work is closed.
func (w *Group) Go(f func()) bool {
	if !w.enter() {
		return false
	}
	w.start(f)
	return true
}

// Fork is Go for what is begun after Close too, such as what is itself part of the work begins.
func (w *Group) Fork(f func()) {
	w.Begin()
	w.start(f)
}

// ForkAfter is Fork after d.
func (w *Group) ForkAfter(d time.Duration, f func()) {
	if d <= 0 {
		w.Fork(f)
		return
	}
	w.Begin()
	time.AfterFunc(d, func() { w.run(f) })
}

// Do runs f in the caller's goroutine. It is false, and f not called, when the work is
// closed.
func (w *Group) Do(f func()) bool {
	if !w.enter() {
		return false
	}
	w.run(f)
	return true
}

func (w *Group) run(f func()) {
	defer w.End()
	f()
}

// Close lets nothing more enter. The channel is closed when nothing is under way.
func (w *Group) Close() (idle <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.idle = w.noneLocked()
		w.workers.end(len(w.workers.idle))
	}
	return w.idle
}

// Wait waits until nothing is under way. What is begun after that is not waited for.
func (w *Group) Wait() {
	w.mu.Lock()
	none := w.noneLocked()
	w.mu.Unlock()
	<-none
}

func (w *Group) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.n++
	return true
}

// Begin counts one more, also after Close; End ends it.
func (w *Group) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

// End ends what Begin began.
func (w *Group) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.endedLocked()
}

// noneLocked is closed when nothing is under way. An undo may go on after that.
func (w *Group) noneLocked() <-chan struct{} {
	if w.none == nil {
		w.none = make(chan struct{})
	}
	none := w.none
	w.endedLocked()
	return none
}

func (w *Group) endedLocked() {
	if w.n == 0 && w.none != nil {
		close(w.none)
		w.none = nil
	}
}
