package rowlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/key"
)

// watcher is told by the store, where that is a driver.Waiter, that a waited or observed key
// may be free: one stream for all keys of the client, open only while a caller waits or observes. It only
// wakes; probes go on, slower while the stream is open. Guarded by Client.mu.
type watcher struct {
	c       *Client
	store   driver.Waiter // nil: the store has no push
	running bool
	live    bool // the stream is open: it misses no release
}

const (
	watchLinger = 10 * time.Second // the stream stays open after the last waiter
	watchPause  = 200 * time.Millisecond
	watchPauses = 30 * time.Second
)

// start opens the stream if there is one and it is not open. Called under
// Client.mu.
func (w *watcher) start() {
	if w.store == nil || w.running || w.c.closed {
		return
	}
	w.running = true
	w.c.store.Work.Fork(w.run)
}

// run keeps the stream open until nobody has waited for a while.
func (w *watcher) run() {
	ctx, cancel := context.WithCancel(w.c.open)
	defer cancel()
	go w.linger(ctx, cancel)
	pause := watchPause
	for ctx.Err() == nil {
		err := w.store.Watch(ctx, func() {
			w.set(true)
			pause = watchPause
			w.c.report.Watch.OK()
		}, w.free)
		w.set(false)
		if ctx.Err() != nil {
			break
		}
		w.c.report.Watch.Fail(context.Background(), 1, "err", err)
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
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.running = false
	if w.needed() {
		w.start()
	}
}

// needed reports whether a caller waits for a key, or observes one.
func (w *watcher) needed() bool { return w.c.waiting > 0 || len(w.c.observers.keys) > 0 }

// linger ends the stream when nobody has waited for a while.
func (w *watcher) linger(ctx context.Context, end context.CancelFunc) {
	tick := time.NewTicker(watchLinger / 2)
	defer tick.Stop()
	for quiet := 0; quiet < 2; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		w.c.mu.Lock()
		if quiet++; w.needed() {
			quiet = 0
		}
		w.c.mu.Unlock()
	}
	end()
}

// set notes whether the stream is open. Keys that were released before it opened are probed
// once more.
func (w *watcher) set(live bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.live = live
	for _, k := range w.c.keys {
		k.step(key.Event{Kind: key.Stream})
	}
	if live {
		for name := range w.c.observers.keys {
			w.c.observers.wake(name)
		}
	}
}

// free is told that a key may be free.
func (w *watcher) free(name string) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, k := range w.c.entries(name) {
		if k != nil {
			k.step(key.Event{Kind: key.Woken})
		}
	}
	w.c.observers.wake(name)
}
