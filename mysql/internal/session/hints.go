package session

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Under SelectForUpdate the hint is in the lease row. No statement of a refused
// attempt, or of one that waits in the server's queue, writes: the session must not, its
// transaction stays open. So the hint is a statement of its own, and is sent only where it
// is due:
//
//   - after a refusal, if the read that tells who has the key shows none that stands;
//   - for all keys for which this Store waits in the server's queue, one every half of a
//     hint's time. Most waits end before the first one. It does not come when a wait
//     begins, because the attempt that was refused before has left the hint;
//   - a grant out of the queue leaves one for those behind it: see QueueClient.
type hinter struct {
	f *ForUpdate

	mu      sync.Mutex
	waiting map[waiter]int // in the server's queue; how many
	ticks   bool           // a goroutine renews their hints
	due     map[waiter]bool
	done    chan struct{} // closed when those that are due now were sent
	sends   bool          // a goroutine sends them
}

// waiter is a client that waits for a key.
type waiter struct {
	client uint32
	key    string
}

// remindMost is the largest number of keys in one statement, which has all their lease
// rows locked for a moment.
const remindMost = 100

// refused leaves the hint of a request that was answered Held, unless one that was seen
// stands.
func (f *ForUpdate) refused(ctx context.Context, r driver.Request, result driver.Result, seen driver.Hint) {
	if result.Status == driver.Held && row.HintDue(&r, seen) {
		f.hinter.leave(ctx, waiter{r.Client, r.Key})
	}
}

// leave sends hints, together with those of others, and waits until they were. Whether
// they were written does not matter.
func (h *hinter) leave(ctx context.Context, due ...waiter) {
	h.mu.Lock()
	if h.done == nil {
		h.due, h.done = make(map[waiter]bool), make(chan struct{})
	}
	for _, w := range due {
		h.due[w] = true
	}
	done := h.done
	h.sends = h.sends || h.f.work(h.sendAll)
	begun := h.sends
	h.mu.Unlock()
	if begun {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// sendAll sends what is due until nothing is.
func (h *hinter) sendAll() {
	for {
		h.mu.Lock()
		due, done := h.due, h.done
		h.due, h.done = nil, nil
		h.sends = len(due) > 0
		h.mu.Unlock()
		if len(due) == 0 {
			return
		}
		keys := make(map[uint32][]string)
		for w := range due {
			keys[w.client] = append(keys[w.client], w.key)
		}
		for client, k := range keys {
			slices.Sort(k) // all statements lock rows in one order
			for part := range slices.Chunk(k, remindMost) {
				h.send(client, part)
			}
		}
		close(done)
	}
}

// send writes hints, on the connection for what may be slow: they wait for no guarded
// transaction, but for who has locked the lease row. The others of their statement do not
// wait for that one, and have their rows locked no longer than those of any batch.
func (h *hinter) send(client uint32, keys []string) {
	ctx, cancel := context.WithTimeout(h.f.life, driver.HintTime)
	defer cancel()
	_ = h.f.db.Slow(ctx, func(c *conn.Conn) error {
		lease := h.f.lease
		err := conn.ErrBlocked
		if !h.f.db.CannotKill.Load() {
			err = lease.Remind(ctx, c, client, keys)
		}
		if errors.Is(err, conn.ErrBlocked) {
			var free map[string]bool
			if free, err = lease.Writable(ctx, c, len(keys), func(i int) string { return keys[i] }); len(free) > 0 {
				err = lease.Remind(ctx, c, client, slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !free[k] }))
			}
		}
		return conn.NotSent(lease.What("wait"), err)
	})
}

// join begins a wait in the server's queue, leave ends it.
func (h *hinter) join(r driver.Request) (leave func()) {
	if !row.LeavesHint(&r) {
		return func() {}
	}
	w := waiter{r.Client, r.Key}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(map[waiter]int)
	}
	h.waiting[w]++
	h.ticks = h.ticks || h.f.work(h.tick)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.waiting[w]--; h.waiting[w] == 0 {
			delete(h.waiting, w)
		}
	}
}

// tick renews the hints of those who wait in the queue, until nobody does.
func (h *hinter) tick() {
	for conn.Sleep(h.f.life, driver.HintTime/2) {
		var due []waiter
		h.mu.Lock()
		for w := range h.waiting {
			due = append(due, w)
		}
		h.ticks = len(due) > 0
		h.mu.Unlock()
		if len(due) == 0 {
			return
		}
		h.leave(h.f.life, due...)
	}
}

// hint is what was seen at the grant, if it still stands: who left it cannot have had the
// key since.
func (h *hold) hint() driver.Hint {
	left := h.wanted.Left - (clock.Now() - h.seen)
	if h.wanted.Client == 0 || left <= 0 {
		return driver.Hint{}
	}
	return driver.Hint{Client: h.wanted.Client, Left: left}
}

// tellWanted reads the hints of keys that were released, where somebody asks and none is
// known: one plain read for all.
func (f *ForUpdate) tellWanted(ctx context.Context, holds []driver.Hold, results []driver.Result) {
	var some []int
	for i, h := range holds {
		if h.Asks && results[i].Status == driver.Released && results[i].Wanted.Client == 0 {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return
	}
	_ = f.db.Step(ctx, f.db.Releases, func(c *conn.Conn) error {
		rows, err := f.lease.Rows(ctx, c, len(some), func(n int) string { return holds[some[n]].Key })
		for _, i := range some {
			results[i].Wanted = rows[holds[i].Key].Wanted
		}
		return conn.NotSent(f.lease.What("release"), err)
	})
}
