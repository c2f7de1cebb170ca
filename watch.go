package rowlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// watcher hears from the store, where it can tell (driver.Waiter), that a waited
// key may be free: one stream for all keys of the client, open only while somebody
// waits. What it says only wakes; probing goes on underneath, slowly while the
// stream lives. Guarded by Client.mu.
type watcher struct {
	c       *Client
	store   driver.Waiter // nil: the store has no push
	running bool
	live    bool // nothing that happens is missed
}

const (
	watchLinger = 10 * time.Second // the stream stays open after the last waiter
	watchProbe  = time.Second      // the slow probe beside a live stream
	watchPause  = 200 * time.Millisecond
	watchPauses = 30 * time.Second

	// watchStart is what a client that had the key lately gives the others: two that
	// are a little faster than the rest would pass it to each other for ever.
	watchStart = 2 * time.Millisecond
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
		timer := time.NewTimer(jitter(pause))
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
	if len(w.c.queues) > 0 {
		w.start()
	}
}

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
		if quiet++; len(w.c.queues) > 0 {
			quiet = 0
		}
		w.c.mu.Unlock()
	}
	end()
}

// set notes whether the stream lives. Whatever was freed before it did is looked
// at once more.
func (w *watcher) set(live bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.live = live
	w.c.forgetOwn()
	for _, q := range w.c.queues {
		if q.state == resting && w.c.local[q.key].leases == 0 {
			q.rest(rand.N(firstProbe))
		}
	}
}

// free is told that key may be free. What this client has released itself is for
// others first.
func (w *watcher) free(key string) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	q := w.c.queues[key]
	switch {
	case q == nil:
		w.c.setOwn(key, false)
	case q.series.own:
		q.series.own = false
	case w.c.local[key].leases > 0:
	case q.series.last && q.state == resting:
		q.series.last, q.offered = false, false
		q.rest(rand.N(watchStart))
		q.spot.attempt = true
	default:
		q.offered = false
		q.wake()
	}
}

// releasing notes that a release of key is about to be sent, of which a live stream
// will tell.
func (w *watcher) releasing(key string) {
	if w.store == nil {
		return
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.setOwn(key, w.live)
}
