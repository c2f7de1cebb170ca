package call

import (
	"sync"
	"time"
)

// Work counts the goroutines and statements of a client, or of a Store, which its Close waits for.
// After Close nothing enters; what runs may go on and begin more. Other than to a sync.WaitGroup something may be added while
// it is waited for.
type Work struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   <-chan struct{} // of Close
	none   chan struct{}   // closed when nothing is under way; nil: nobody waits for that
}

// Go runs f in a goroutine. It is false, and f not called, when the work is closed.
func (w *Work) Go(f func()) bool {
	if !w.enter() {
		return false
	}
	go w.run(f)
	return true
}

// Fork is Go for what is begun after Close too, such as what is itself part of the work begins.
func (w *Work) Fork(f func()) {
	w.more()
	go w.run(f)
}

// ForkAfter is Fork after d.
func (w *Work) ForkAfter(d time.Duration, f func()) {
	if d <= 0 {
		w.Fork(f)
		return
	}
	w.more()
	time.AfterFunc(d, func() { w.run(f) })
}

// Do runs f in the caller's goroutine. It is false, and f not called, when the work is
// closed.
func (w *Work) Do(f func()) bool {
	if !w.enter() {
		return false
	}
	w.run(f)
	return true
}

func (w *Work) run(f func()) {
	defer w.exit()
	f()
}

// Close lets nothing more enter. The channel is closed when nothing is under way.
func (w *Work) Close() (idle <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.idle = w.noneLocked()
	}
	return w.idle
}

// Wait waits until nothing is under way. What is begun after that is not waited for.
func (w *Work) Wait() {
	w.mu.Lock()
	none := w.noneLocked()
	w.mu.Unlock()
	<-none
}

func (w *Work) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.n++
	return true
}

func (w *Work) more() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *Work) exit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.endedLocked()
}

// noneLocked is closed when nothing is under way. An undo may go on after that.
func (w *Work) noneLocked() <-chan struct{} {
	if w.none == nil {
		w.none = make(chan struct{})
	}
	none := w.none
	w.endedLocked()
	return none
}

func (w *Work) endedLocked() {
	if w.n == 0 && w.none != nil {
		close(w.none)
		w.none = nil
	}
}
