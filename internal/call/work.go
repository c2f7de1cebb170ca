package call

import (
	"sync"
	"time"
)

// Work counts the goroutines and statements of a client, which its Close waits for.
// After Close nothing enters; what runs may go on and begin more.
type Work struct {
	mu     sync.Mutex
	n      int
	closed bool
	isIdle bool
	idle   chan struct{} // closed when it is closed and nothing is under way
}

func (w *Work) init() { w.idle = make(chan struct{}) }

// Go runs f in a goroutine. It is false, and f not called, when the work is closed.
func (w *Work) Go(f func()) bool {
	if !w.enter() {
		return false
	}
	go w.run(f)
	return true
}

// Fork is Go for a caller that is itself part of the work: it runs f after Close too.
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
		w.idleLocked()
	}
	return w.idle
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
	w.idleLocked()
}

// idleLocked closes idle when the time has come. An undo may go on after that.
func (w *Work) idleLocked() {
	if w.closed && w.n == 0 && !w.isIdle {
		w.isIdle = true
		close(w.idle)
	}
}
