package keys

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// watcher is told by the store, where that is a driver.Waiter, that an observed key may be free: one stream for all keys of
// the client, open only while somebody observes. It only wakes; probes go on. Guarded by Table.mu.
type watcher struct {
	t       *Table
	store   driver.Waiter // nil: the store has no push
	running bool
}

const (
	watchLinger = 10 * time.Second // the stream stays open after the last loop of Observe
	watchPause  = 200 * time.Millisecond
	watchPauses = 30 * time.Second
)

// start opens the stream if there is one and it is not open. Called under
// Table.mu.
func (w *watcher) start() {
	if w.store == nil || w.running || w.t.closed {
		return
	}
	w.running = true
	w.t.Store.Work.Fork(w.run)
}

// run keeps the stream open until nobody has observed for a while.
func (w *watcher) run() {
	ctx, cancel := context.WithCancel(w.t.Open)
	defer cancel()
	go w.linger(ctx, cancel)
	pause := watchPause
	for ctx.Err() == nil {
		err := w.store.Watch(ctx, func() {
			w.opened()
			pause = watchPause
			w.t.Report.Watch.OK()
		}, w.free)
		if ctx.Err() != nil {
			break
		}
		w.t.Report.Watch.Fail(context.Background(), 1, "err", err)
		if driver.IsLasting(err) {
			pause = watchPauses
		}
		timer := time.NewTimer(pause*2/3 + rand.N(pause*2/3+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, watchPauses)
	}
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.running = false
	if w.needed() {
		w.start()
	}
}

// needed reports whether a key is observed.
func (w *watcher) needed() bool { return len(w.t.Observers.keys) > 0 }

// linger ends the stream when nobody has observed for a while.
func (w *watcher) linger(ctx context.Context, end context.CancelFunc) {
	tick := time.NewTicker(watchLinger / 2)
	defer tick.Stop()
	for quiet := 0; quiet < 2; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		w.t.mu.Lock()
		if quiet++; w.needed() {
			quiet = 0
		}
		w.t.mu.Unlock()
	}
	end()
}

// opened: keys that were released before the stream opened are probed once more.
func (w *watcher) opened() {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	for name := range w.t.Observers.keys {
		w.t.Observers.wake(name)
	}
}

// free is told that a key may be free.
func (w *watcher) free(name string) {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.t.Observers.wake(name)
}
