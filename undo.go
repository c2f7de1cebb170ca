package rowlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// undoer ends, in the background, the holds whose outcome is unknown or that
// nobody wants: attempts without a reply, grants whose caller had gone, lost
// leases, releases that were not answered. It runs only while there are any.
type undoer struct {
	c *Client

	mu      sync.Mutex
	tasks   []*undoTask
	running bool
	wake    chan struct{}
	empty   chan struct{} // closed when the last task ends; nil: nobody asked
	stopped bool
}

// undoTask is one hold to end.
type undoTask struct {
	hold driver.Hold

	// acknowledged: the grant was seen, so any answer to the undo is final.
	// Otherwise an undo that found nothing may have overtaken the attempt, and is
	// repeated until an attempt still on its way would have arrived.
	acknowledged bool

	sent      time.Duration // the clock read after the attempt, renewal or release was last sent
	notBefore time.Duration // when the next try is due
	pause     time.Duration // before the try after that
	failing   bool          // the last try was not answered
	asked     bool          // one was; guarded by undoer.mu
	silence   silence

	// refused: the last try was refused for good, and nothing is on its way. It is tried
	// again now and then, because somebody may mend what it needs (a privilege), but
	// Close does not wait for that.
	refused error
	told    bool // the log has it
}

const (
	firstUndoPause = 20 * time.Millisecond
	lastUndoPause  = 5 * time.Second
	undoTimeout    = 3 * time.Second
)

func (u *undoer) init(c *Client) {
	u.c = c
	u.wake = make(chan struct{}, 1)
}

func (u *undoer) len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.tasks)
}

// isRefusal reports whether err says that a release will fail the same way next time,
// and that it did nothing.
func isRefusal(err error) bool { return driver.IsLasting(err) && driver.IsNotApplied(err) }

// refuse notes the refusal of a release or undo.
func (t *undoTask) refuse(c *Client, err error) {
	t.refused = err
	t.notBefore, t.pause = c.now()+lastUndoPause, lastUndoPause
	if !t.told {
		t.told = true
		c.troubles.refused.add("key", t.hold.Key, "token", t.hold.Token, "hold", t.hold.ID, "err", err)
	}
}

func (u *undoer) add(t undoTask) {
	t.pause = cmp.Or(t.pause, firstUndoPause)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return // Close has given up; the TTL frees the key
	}
	u.tasks = append(u.tasks, &t)
	if !u.running {
		u.running = true
		go u.run()
		return
	}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// arrival is when a statement sent before t.sent has arrived or never will.
func (u *undoer) arrival(t *undoTask) time.Duration {
	return t.sent + t.hold.TTL + u.c.limits.LockWait
}

// run sends what is due, in batches, until nothing is left.
func (u *undoer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, next := u.due()
		if len(batch) > 0 {
			u.send(batch)
			continue
		}
		if next == never {
			return
		}
		timer.Reset(max(next-u.c.now(), 0))
		select {
		case <-timer.C:
		case <-u.wake:
		case <-u.c.life.Done():
			return
		}
	}
}

// due takes the tasks that are due, or says when the first one will be. With no
// task left it ends the run.
func (u *undoer) due() (batch []*undoTask, next time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	next = never
	if u.empty != nil && u.settled() {
		close(u.empty)
		u.empty = nil
	}
	if len(u.tasks) == 0 || u.stopped {
		u.running = false
		return nil, next
	}
	now := u.c.now()
	seen := make(map[string]bool) // a call has no key twice
	for _, t := range u.tasks {
		if t.notBefore <= now && len(batch) < u.c.limits.Batch && !seen[t.hold.Key] {
			batch = append(batch, t)
			seen[t.hold.Key] = true
		} else if !seen[t.hold.Key] {
			next = min(next, t.notBefore)
		}
	}
	return batch, next
}

func (u *undoer) send(batch []*undoTask) {
	c := u.c
	holds := make([]driver.Hold, len(batch))
	for i, t := range batch {
		holds[i] = t.hold
	}
	ctx, cancel := context.WithTimeout(c.life, undoTimeout)
	start := c.now()
	c.calls.Add(1)
	results, err := c.store.Release(ctx, holds)
	cancel()
	if err == nil && len(results) != len(holds) {
		err = fmt.Errorf("the store gave %d answers for %d releases", len(results), len(holds))
	}
	ended := make(map[*undoTask]bool)
	now := c.now()
	for i, t := range batch {
		r := driver.Result{Err: err}
		if err == nil {
			r = results[i]
		}
		final := u.final(t, r, start, now)
		refused := !final && isRefusal(r.Err)
		t.fails(c, !final && !refused && r.Err != nil)
		if final {
			ended[t] = true
			if c.debug(context.Background()) {
				c.log.Debug("hold undone", "key", t.hold.Key, "hold", t.hold.ID, "answer", r.Status)
			}
			continue
		}
		if refused {
			u.mu.Lock()
			t.refuse(c, r.Err)
			u.mu.Unlock()
			continue
		}
		u.mu.Lock()
		t.refused = nil
		u.mu.Unlock()
		if r.Err != nil {
			c.troubles.undo.fail(context.Background(), 0, "key", t.hold.Key, "hold", t.hold.ID, "err", r.Err)
		}
		if r.Status != driver.Unknown {
			u.mu.Lock()
			t.asked = true
			u.mu.Unlock()
		}
		if driver.IsSilent(r.Err) {
			t.notBefore = now + t.silence.pause(now-start)
			continue
		}
		t.notBefore = now + t.pause
		t.pause = min(t.pause*2, lastUndoPause)
		if at := u.arrival(t) + time.Millisecond; t.notBefore > at && now < at {
			t.notBefore = at // the last one that is needed
		}
	}
	if err == nil {
		c.troubles.undo.ok()
	}
	u.remove(ended)
}

// fails notes whether the undo is answered.
func (t *undoTask) fails(c *Client, now bool) {
	switch {
	case now && !t.failing:
		c.troubles.undo.more(1)
	case !now && t.failing:
		c.troubles.undo.less(1)
	}
	t.failing = now
}

// final tells whether the hold of t cannot exist any more after the answer r to an
// undo that was sent at start.
func (u *undoer) final(t *undoTask, r driver.Result, start, now time.Duration) bool {
	gone := u.arrival(t) + max(t.hold.TTL, t.hold.Keep) // even a late attempt has expired by now
	if r.Status == driver.Unknown {
		return now > gone
	}
	return r.Final || t.acknowledged || start > u.arrival(t) || now > gone
}

// asks reports whether there is a hold of key whose undo was not answered yet.
func (u *undoer) asks(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.tasks, func(t *undoTask) bool { return t.hold.Key == key && !t.asked })
}

func (u *undoer) remove(ended map[*undoTask]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	kept := u.tasks[:0]
	for _, t := range u.tasks {
		if !ended[t] {
			kept = append(kept, t)
		}
	}
	clear(u.tasks[len(kept):])
	u.tasks = kept
}

// settled reports whether no task is left that Close should wait for. Called under u.mu.
func (u *undoer) settled() bool {
	return !slices.ContainsFunc(u.tasks, func(t *undoTask) bool { return t.refused == nil })
}

// wait waits until no task is left but those that the database refuses. When ctx ends
// first, or for those, it lists the keys that are left, and the last refusal. No task
// is taken on after it.
func (u *undoer) wait(ctx context.Context) (left []string, refusal error) {
	u.mu.Lock()
	empty := u.empty
	if empty == nil && !u.settled() {
		empty = make(chan struct{})
		u.empty = empty
	}
	u.mu.Unlock()
	if empty != nil {
		waitFor(ctx, empty)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	for _, t := range u.tasks {
		left = append(left, t.hold.Key)
		if t.refused != nil {
			refusal = t.refused
		}
	}
	return left, refusal
}
