package work

import (
	"slices"
	"time"
)

// workers are goroutines that have done their work and wait for more. The stack of a goroutine begins small, and is copied each
// time it has to grow: for each statement that would be a third of what the engine costs. Guarded by Group.mu.
type workers struct {
	idle   []*worker // the one that came last is the first to go
	pruned bool      // prune is planned
}

type worker struct {
	next chan func() // closed: there is no more
	long bool        // it was idle when prune came last
}

const (
	mostIdle = 16
	linger   = time.Second // a worker is idle for this long at least before it ends, and twice that at most
)

// start runs f, which has begun, in a goroutine.
func (w *Group) start(f func()) {
	w.mu.Lock()
	n := len(w.workers.idle) - 1
	if n < 0 {
		w.mu.Unlock()
		go w.work(f)
		return
	}
	idle := w.workers.idle[n]
	w.workers.idle[n] = nil
	w.workers.idle = w.workers.idle[:n]
	idle.long = false
	w.mu.Unlock()
	idle.next <- f
}

// work runs f, and what follows.
func (w *Group) work(f func()) {
	self := &worker{next: make(chan func(), 1)}
	under := true
	defer func() {
		if under { // f did not return
			w.End()
		}
	}()
	for f != nil {
		f()
		if under = false; !w.rest(self) {
			return
		}
		f = <-self.next
		under = f != nil
	}
}

// rest ends what the worker has done. false: it is not kept.
func (w *Group) rest(self *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.endedLocked()
	if w.closed || len(w.workers.idle) == mostIdle {
		return false
	}
	w.workers.idle = append(w.workers.idle, self)
	if !w.workers.pruned {
		w.workers.pruned = true
		time.AfterFunc(linger, w.prune)
	}
	return true
}

// prune ends workers that were idle all the time since it came last.
func (w *Group) prune() {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := slices.IndexFunc(w.workers.idle, func(idle *worker) bool { return !idle.long })
	if used < 0 {
		used = len(w.workers.idle)
	}
	w.workers.end(used)
	for _, idle := range w.workers.idle {
		idle.long = true
	}
	if w.workers.pruned = len(w.workers.idle) > 0; w.workers.pruned {
		time.AfterFunc(linger, w.prune)
	}
}

// end ends the n workers that have been idle for longest.
func (w *workers) end(n int) {
	for _, idle := range w.idle[:n] {
		close(idle.next)
	}
	w.idle = slices.Delete(w.idle, 0, n)
}
