package rowlock

import "sync"

// activity counts the goroutines and statements that Close waits for.
type activity struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when it is closed and nothing is under way
}

func (a *activity) init() { a.idle = make(chan struct{}) }

// enter begins something; false: the client is closed.
func (a *activity) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.n++
	return true
}

// more begins something within what was entered.
func (a *activity) more() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
}

// exit ends what enter or more began.
func (a *activity) exit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n--; a.n == 0 && a.closed {
		close(a.idle)
	}
}

// close lets nothing more enter; false: it was closed before.
func (a *activity) close() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.closed = true
	if a.n == 0 {
		close(a.idle)
	}
	return true
}

// goWork runs f in a goroutine that Close waits for. It is false, and f not
// called, when the client is closed.
func (a *activity) goWork(f func()) bool {
	if !a.enter() {
		return false
	}
	go func() {
		defer a.exit()
		f()
	}()
	return true
}
