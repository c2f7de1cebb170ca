package rowlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/grant"
)

// queue is the local FIFO of one key: however many callers wait, one attempt of
// this client is under way. It is a machine without a goroutine of its own, moved
// by what happens: a caller comes or leaves, an answer, a probe, a push, the end
// of a local lease. It lives while somebody waits. Guarded by Client.mu.
type queue struct {
	c       *Client
	key     string
	waiters []*waiter
	room    []*waiter // where waiters began, for reuse
	state   queueState
	sent    *waiter // whose attempt is under way
	pace    pace
	spot    spot               // its place in the prober
	leave   context.CancelFunc // ends a wait in the server's queue
	series  series             // whose turn it is
	offered bool               // the key was left to others, and no push has come since
	failing bool               // the last attempt or probe was not answered
}

type queueState uint8

const (
	idle       queueState = iota
	attempting            // an attempt is in the lane or on its way
	resting               // the prober looks at the key, or wakes the queue
	queued                // in the server's queue (driver.Queuer)
)

// waiter is one caller of Acquire or TryAcquire, and its attempt.
type waiter struct {
	c     *Client
	queue *queue          // nil: TryAcquire
	ctx   context.Context // the caller's; only for what is logged
	set   settings
	try   batch.Call[driver.Request]
	by    *batch.Batcher[driver.Request] // which sends it

	// Of TryAcquire. Guarded by Client.mu.
	silence call.Silence
	ghost   bool          // an attempt of its own may hold the key: it is being undone
	first   time.Duration // when the first attempt was sent

	// Guarded by Client.mu.
	gone  bool // the caller has left
	lease *Lease
	err   error
	last  error // what stood in the way last

	prev, next *waiter // in Client.attempts

	ready chan struct{} // gets one value with lease or err
}

// newWaiter reuses one that was answered. (Not by a sync.Pool: a channel belongs
// to its testing/synctest bubble, as the client does.) Called under Client.mu.
func (c *Client) newWaiter(ctx context.Context, s settings) *waiter {
	if n := len(c.spare); n > 0 {
		w := c.spare[n-1]
		c.spare = c.spare[:n-1]
		w.ctx, w.set = ctx, s
		return w
	}
	return &waiter{c: c, ctx: ctx, set: s, ready: make(chan struct{}, 1)}
}

// maxSpare bounds the waiters kept for reuse.
const maxSpare = 64

// wait gets key for one caller.
func (c *Client) wait(ctx context.Context, key string, s settings, once bool) (*Lease, error) {
	w := c.join(ctx, key, s, once)
	if w == nil {
		return nil, fmt.Errorf("acquire %q: %w", key, ErrClosed)
	}
	var left error
	select {
	case <-w.ready:
	case <-ctx.Done():
		if c.leave(w) {
			left = waitError(ctx, w.last)
		} else {
			<-w.ready // answered at the same moment
		}
	case <-c.open.Done():
		if c.leave(w) {
			left = ErrClosed
		} else {
			<-w.ready
		}
	}
	if left != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, left) // its attempt may be on its way: not reused
	}
	lease, err := w.lease, w.err
	c.mu.Lock()
	if len(c.spare) < maxSpare {
		*w = waiter{c: c, ready: w.ready}
		c.spare = append(c.spare, w)
	}
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	if c.debug(ctx) {
		c.log.DebugContext(ctx, "acquired", "key", key, "token", lease.token, "hold", lease.g.Hold.ID)
	}
	return lease, nil
}

// join begins a wait; nil: the client is closed.
func (c *Client) join(ctx context.Context, key string, s settings, once bool) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	w := c.newWaiter(ctx, s)
	if once {
		c.submit(key, w, false)
		return w
	}
	c.waiting++
	q := c.queues[key]
	if q == nil {
		q = c.newQueue(key)
	}
	w.queue = q
	q.waiters = append(q.waiters, w)
	if q.state == idle {
		if c.local[key].leases > 0 {
			q.rest(localProbe)
		} else {
			q.begin()
		}
	}
	return w
}

// submit sends an attempt of w. Called under c.mu.
func (c *Client) submit(key string, w *waiter, pinned bool) {
	c.attempts.add(w)
	w.try = batch.Call[driver.Request]{Q: c.newRequest(key, w.set, pinned), Class: w.set.TTL, Owner: (*attempt)(w)}
	w.by = c.acquires
	if pinned {
		w.by = c.pinned
	}
	w.by.Submit(&w.try)
}

// attempt is a waiter as the owner of its call.
type attempt waiter

// Patience implements batch.Owner.
func (a *attempt) Patience(time.Duration) time.Duration { return a.set.TTL - a.set.Margin }

// withdraw takes back the attempt of w, for a caller that has left; false: it is on
// its way, or was answered. Called under c.mu.
func (c *Client) withdraw(w *waiter) bool {
	if !w.by.Withdraw(&w.try) {
		return false
	}
	c.attempts.remove(w)
	return true
}

// attempts is a list of the waiters whose attempts were submitted and not answered:
// what Close names if it cannot wait for them. Guarded by Client.mu.
type attempts struct{ first *waiter }

func (a *attempts) add(w *waiter) {
	if w.next = a.first; w.next != nil {
		w.next.prev = w
	}
	a.first = w
}

func (a *attempts) remove(w *waiter) {
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		a.first = w.next
	}
	w.prev, w.next = nil, nil
}

// leave takes a caller that gave up out; false: it has been answered.
func (c *Client) leave(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.lease != nil || w.err != nil {
		return false
	}
	w.gone = true
	q := w.queue
	if q == nil {
		c.withdraw(w)
		return true
	}
	if here := c.heldHere(q.key); here != nil {
		w.last = here
	} else if q.state == queued && w.last == nil {
		w.last = &HeldError{Key: q.key} // who stands in the server's queue waits for another
	}
	c.waiting--
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
	q.endIfEmpty()
	return true
}

// endIfEmpty forgets a queue that nobody waits in. An attempt that has not left is
// withdrawn; one on its way is answered to nobody, and given back. Called under
// Client.mu.
func (q *queue) endIfEmpty() {
	if len(q.waiters) > 0 || q.c.queues[q.key] != q {
		return
	}
	c := q.c
	q.fails(false)
	delete(c.queues, q.key)
	c.keepSeries(q.key, q.series)
	c.prober.remove(q)
	if q.state == attempting && c.withdraw(q.sent) {
		q.state = idle
	}
	if q.leave != nil {
		q.leave()
	}
	if q.state == idle && len(c.spareQueues) < maxSpare { // nothing on its way comes back to it
		*q = queue{c: c, waiters: q.room[:0], room: q.room[:0]}
		c.spareQueues = append(c.spareQueues, q)
	}
}

// newQueue opens the queue of key. Called under Client.mu.
func (c *Client) newQueue(key string) *queue {
	var q *queue
	if n := len(c.spareQueues); n > 0 {
		q, c.spareQueues = c.spareQueues[n-1], c.spareQueues[:n-1]
	} else {
		q = &queue{c: c, room: make([]*waiter, 0, 4)}
		q.waiters = q.room
	}
	q.key = key
	c.queues[key] = q
	return q
}

// tell ends w's wait. Called under Client.mu.
func (w *waiter) tell(l *Lease, err error) {
	w.lease, w.err = l, err
	w.ready <- struct{}{}
}

// pop takes the head out and tells it.
func (q *queue) pop(l *Lease, err error) {
	w := q.waiters[0]
	q.waiters[0] = nil
	q.waiters = q.waiters[1:]
	q.c.waiting--
	w.tell(l, err)
}

// Answered implements batch.Owner.
func (a *attempt) Answered(r driver.Result, sent, got time.Duration) {
	w := (*waiter)(a)
	c := w.c
	lease, err := c.outcome(w.ctx, &w.try.Q, w.set, r, sent, got)
	if w.queue != nil {
		w.queue.answered(w.ctx, w.set, lease, err, got-sent)
		return
	}
	c.mu.Lock()
	c.attempts.remove(w)
	gone := w.gone
	if !gone && lease == nil {
		if pause, again := w.goesAgain(err, sent, got); again {
			w.sendAgain(pause)
			c.mu.Unlock()
			return
		}
		if c.closed && driver.IsSilent(err) {
			err = ErrClosed // as a caller hears that left in time
		}
	}
	if !gone {
		w.tell(lease, err)
	}
	c.mu.Unlock()
	if gone && lease != nil {
		lease.g.End(grant.Unwanted, nil)
	}
}

// answered moves the queue after an attempt with the settings s that took so long. ctx
// is that of the caller for whom it was made.
func (q *queue) answered(ctx context.Context, s settings, lease *Lease, err error, took time.Duration) {
	c := q.c
	c.mu.Lock()
	was := q.state
	if was == attempting {
		c.attempts.remove(q.sent)
	}
	q.state, q.leave = idle, nil
	held := refusal(err)
	if lease != nil || held != nil {
		q.fails(false)
		c.report.Acquire.OK()
	}
	if lease != nil {
		if q.series.since == 0 {
			q.series.since = max(lease.g.Began, 1)
		}
		if q.offered && c.watcher.live {
			q.series.contested = 0 // nobody else has come for it
		}
		q.series.own, q.offered, q.series.last = false, false, true
		// The caller may have left; the next one takes what it would have asked for.
		if len(q.waiters) > 0 && q.waiters[0].set == s {
			q.pop(lease, nil)
			lease = nil
		}
		q.pace.reset()
		if len(q.waiters) > 0 {
			q.rest(localProbe)
		}
		q.endIfEmpty()
		c.mu.Unlock()
		if lease != nil {
			lease.g.End(grant.Unwanted, nil)
		}
		return
	}
	defer c.mu.Unlock()
	if len(q.waiters) == 0 {
		q.endIfEmpty()
		return
	}
	switch {
	case errors.Is(err, ErrClosed) || driver.IsLasting(err):
		q.pop(nil, err)
		q.pace.reset()
		if len(q.waiters) > 0 {
			q.attempt() // each hears it from its own attempt
		}
		q.endIfEmpty()
	case held != nil:
		if c.now() < q.series.contested {
			q.pace.step = refusedStep
		}
		q.series.others(c.now())
		q.offered = false
		q.blocked(held)
		q.pace.held(held)
		if c.queuer != nil && was == attempting && !held.Pinned {
			q.enqueue(q.refused)
		} else {
			q.refused()
		}
	default:
		q.blocked(err)
		q.fails(true)
		c.report.Acquire.Fail(ctx, 0, "key", q.key, "err", err)
		if !driver.IsSilent(err) {
			q.rest(q.pace.failed())
			q.spot.attempt = true
		} else if d := q.pace.silent.Pause(took); d > 0 {
			q.rest(d)
			q.spot.attempt = true
		} else {
			q.attempt() // its place is the head's, as before
		}
	}
}

// refusal is the *HeldError in err; nil: there is none.
func refusal(err error) *HeldError {
	if err == nil {
		return nil
	}
	var held *HeldError
	errors.As(err, &held)
	return held
}

// attempt sends an attempt for the head. Called under Client.mu.
func (q *queue) attempt() {
	if q.c.closed || len(q.waiters) == 0 {
		return
	}
	q.c.prober.remove(q)
	q.state, q.sent = attempting, q.waiters[0]
	q.c.submit(q.key, q.sent, q.pace.pinned)
}

// rest leaves the key to the prober, which looks at it after d. Called under
// Client.mu.
func (q *queue) rest(d time.Duration) {
	q.state = resting
	q.c.prober.add(q, d)
}

// refused rests until a probe or a push says that the key may be free. Called
// under Client.mu.
func (q *queue) refused() {
	q.c.watcher.start()
	q.rest(q.pace.next(q.c.watcher.live))
}

// wake is a reason to try now: a local lease has ended, a push came. Called under
// Client.mu.
func (q *queue) wake() {
	if q.state != resting && q.state != idle {
		return
	}
	if q.c.queuer != nil && q.c.now() < q.series.contested {
		q.enqueue(q.attempt) // others are in the server's queue: a try would be refused
		return
	}
	q.attempt()
}

// fails notes whether the database answers about the key. Called under Client.mu.
func (q *queue) fails(now bool) {
	switch {
	case now && !q.failing:
		q.c.report.Acquire.More(1)
	case !now && q.failing:
		q.c.report.Acquire.Less(1)
	}
	q.failing = now
}

// blocked notes what stands in the way, for the error of a wait that ends.
func (q *queue) blocked(err error) {
	for _, w := range q.waiters {
		w.last = err
	}
}
