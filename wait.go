package rowlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// queue is the local FIFO of one key: however many callers wait, one attempt or
// probe of this client is under way. Its server is one goroutine that lives while
// somebody waits. Guarded by Client.mu.
type queue struct {
	key     string
	waiters []*waiter
	wake    chan struct{} // a reason to look now: a local release or loss
}

// waiter is one caller of Acquire.
type waiter struct {
	ctx   context.Context
	set   settings
	ready chan struct{} // closed when lease or err is set
	lease *Lease
	err   error
	last  error // what stood in the way last; guarded by Client.mu
}

// wait queues for key.
func (c *Client) wait(ctx context.Context, key string, s settings) (*Lease, error) {
	w := &waiter{ctx: ctx, set: s, ready: make(chan struct{})}
	if !c.join(key, w) {
		return nil, fmt.Errorf("acquire %q: %w", key, ErrClosed)
	}
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	select {
	case <-w.ready:
	case <-ctx.Done():
		if c.leave(key, w) {
			return nil, fmt.Errorf("acquire %q: %w", key, waitError(ctx, w.last))
		}
		<-w.ready // granted at the same moment
	case <-c.open.Done():
		if c.leave(key, w) {
			return nil, fmt.Errorf("acquire %q: %w", key, ErrClosed)
		}
		<-w.ready
	}
	if w.err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, w.err)
	}
	return w.lease, nil
}

func (c *Client) join(key string, w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	q := c.queues[key]
	if q == nil {
		q = &queue{key: key, wake: make(chan struct{}, 1)}
		c.queues[key] = q
		c.busy++
		go func() {
			defer c.exit()
			c.serve(q)
		}()
	}
	q.waiters = append(q.waiters, w)
	return true
}

// leave takes w out of the queue; false: it has been answered.
func (c *Client) leave(key string, w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[key]
	if q == nil {
		return false
	}
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return false
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	if len(q.waiters) == 0 {
		q.nudge() // its server ends
	}
	return true
}

func (q *queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// localEnd notes that a lease of key has ended, and its release was answered.
func (c *Client) localEnd(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.local[key]--; c.local[key] <= 0 {
		delete(c.local, key)
	}
	if q := c.queues[key]; q != nil {
		q.nudge()
	}
}

// head is the next to serve, and whether a lease of this client has the key. With
// nobody left the queue ends.
func (c *Client) head(q *queue) (w *waiter, local bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		for _, w := range q.waiters {
			w.err = ErrClosed
			close(w.ready)
		}
		q.waiters = nil
	}
	if len(q.waiters) == 0 {
		delete(c.queues, q.key)
		return nil, false
	}
	return q.waiters[0], c.local[q.key] > 0
}

// answer ends w's wait. false: it has gone.
func (c *Client) answer(q *queue, w *waiter, l *Lease, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return false
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	w.lease, w.err = l, err
	close(w.ready)
	return true
}

// blocked notes what stands in the way, for the error of a wait that ends.
func (c *Client) blocked(q *queue, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range q.waiters {
		w.last = err
	}
}

// serve attempts for the head of the queue, and between attempts probes until the
// key looks free.
func (c *Client) serve(q *queue) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var p pace
	for {
		w, local := c.head(q)
		if w == nil {
			return
		}
		if local {
			// Our own lease has the key: its end wakes us. The rare look is for a
			// key that an operator freed by force.
			c.sleep(q, timer, localProbe)
			if w, local = c.head(q); w == nil {
				return
			} else if local && !c.looksFree(q, &p) {
				continue
			}
			p.reset()
		}
		lease, err := c.attempt(q.key, w.set, p.pinned)
		var held *HeldError
		switch {
		case err == nil:
			if !c.answer(q, w, lease, nil) {
				c.giveBack(lease)
			}
			p.reset()
		case errors.Is(err, ErrClosed) || driver.IsLasting(err):
			c.answer(q, w, nil, err)
			p.reset()
		case errors.As(err, &held):
			c.blocked(q, held)
			p.step = 0
			p.held(held)
			for {
				c.sleep(q, timer, p.next())
				if w, local = c.head(q); w == nil || local || c.looksFree(q, &p) {
					break
				}
			}
		default:
			c.blocked(q, err)
			c.log.Warn("acquire failed, trying again", "key", q.key, "err", err)
			c.sleep(q, timer, p.failed())
		}
	}
}

// localProbe is how often a key that this client holds is looked at.
const localProbe = time.Second

// sleep waits for d, or until the queue is nudged or the client closed.
func (c *Client) sleep(q *queue, timer *time.Timer, d time.Duration) {
	timer.Reset(d)
	select {
	case <-timer.C:
	case <-q.wake:
	case <-c.open.Done():
	}
}

// looksFree probes the key. An attempt is worth while if it looks free, and also
// if the probe failed for good, because the attempt gives the caller the reason.
func (c *Client) looksFree(q *queue, p *pace) bool {
	ctx, cancel := context.WithTimeout(c.life, probeTimeout)
	defer cancel()
	c.calls.Add(1)
	infos, err := c.store.Inspect(ctx, []string{q.key})
	if err == nil && len(infos) != 1 {
		err = fmt.Errorf("the store gave %d answers for one key", len(infos))
	}
	if err != nil {
		c.blocked(q, err)
		return driver.IsLasting(err)
	}
	i := infos[0]
	if i.Held {
		h := &HeldError{Key: q.key, Owner: i.Owner, Left: i.Left, Pinned: i.Pinned}
		c.blocked(q, h)
		p.held(h)
		return false
	}
	return true
}

const probeTimeout = 2 * time.Second

// pace says how long to wait before the next look at a key that is held: dense
// right after a refusal, then sparser, never past the end of the lease that is
// known. The sum stays under 20 statements a second.
type pace struct {
	step   int
	left   time.Duration // until the key is free by itself, if known
	pinned bool          // the last refusal was Pinned
	errs   int
}

const (
	firstProbe = 2 * time.Millisecond
	lastProbe  = 100 * time.Millisecond
	lastRetry  = time.Second
)

func (p *pace) reset() { *p = pace{} }

func (p *pace) held(h *HeldError) {
	p.left, p.pinned, p.errs = h.Left, h.Pinned, 0
}

func (p *pace) next() time.Duration {
	d := min(firstProbe<<p.step, lastProbe)
	if d < lastProbe {
		p.step++
	}
	if p.pinned {
		d = lastProbe
	}
	d = jitter(d)
	if p.left > 0 && p.left < d {
		d = p.left
	}
	return d
}

// failed is the pause after an attempt without an answer.
func (p *pace) failed() time.Duration {
	d := min(10*time.Millisecond<<p.errs, lastRetry)
	if d < lastRetry {
		p.errs++
	}
	return jitter(d)
}

// jitter spreads d by a quarter, so that programs do not march in step.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
