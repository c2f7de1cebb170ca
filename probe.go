package rowlock

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
)

// prober asks, for all keys that somebody waits for, whether they are free: one
// statement for all that are due, paced so that a client sends at most about
// probeRate a second for any number of keys and waiters. It runs only while there
// are such keys. Guarded by Client.mu.
type prober struct {
	c       *Client
	spots   spotHeap
	running bool
	wake    chan struct{}
	tokens  float64 // statements that may be sent now
	counted time.Duration
}

// spot is a queue's place in the prober.
type spot struct {
	q       *queue
	due     time.Duration
	attempt bool // attempt when due, without a probe
	index   int  // in the heap, + 1; 0: not in it
}

const (
	probeRate    = 18 // statements a second, on average
	probeBurst   = 5
	probeTimeout = time.Second

	// localProbe is how often a key that this client holds is looked at: its end
	// wakes the queue, so this is for a key that an operator freed by force.
	localProbe = time.Second
)

func (p *prober) init(c *Client) {
	p.c = c
	p.wake = make(chan struct{}, 1)
	p.tokens = probeBurst
}

// add plans a look at q after d.
func (p *prober) add(q *queue, d time.Duration) {
	s := &q.spot
	s.q, s.due, s.attempt = q, p.c.now()+d, false
	if s.index > 0 {
		heap.Fix(&p.spots, s.index-1)
	} else {
		heap.Push(&p.spots, s)
	}
	if !p.running {
		p.running = true
		p.c.store.Work.Fork(p.run)
	} else if s.index == 1 {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

func (p *prober) remove(q *queue) {
	if q.spot.index > 0 {
		heap.Remove(&p.spots, q.spot.index-1)
	}
}

// run looks at what is due until nothing waits.
func (p *prober) run() {
	c := p.c
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, sleep, end := p.collect()
		if end {
			return
		}
		if len(due) > 0 {
			p.look(due)
			continue
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-c.open.Done():
		}
	}
}

// collect takes what is due, with what will be soon, and starts attempts that need
// no probe. Otherwise it tells how long to sleep.
func (p *prober) collect() (due []*queue, sleep time.Duration, end bool) {
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(p.spots) == 0 {
		p.running = false
		return nil, 0, true
	}
	now := c.now()
	p.tokens = min(probeBurst, p.tokens+(now-p.counted).Seconds()*probeRate)
	p.counted = now
	for len(p.spots) > 0 && p.spots[0].attempt && p.spots[0].due <= now {
		p.spots[0].q.attempt() // removes it
	}
	if len(p.spots) == 0 {
		return nil, 0, false
	}
	if wait := p.spots[0].due - now; wait > 0 {
		return nil, wait, false
	}
	if p.tokens < 1 {
		return nil, time.Duration((1-p.tokens)/probeRate*float64(time.Second)) + time.Millisecond, false
	}
	p.tokens--
	for len(p.spots) > 0 && len(due) < c.store.Limits.Batch {
		s := p.spots[0]
		if s.attempt || s.due > now+lastProbe/2 {
			break
		}
		heap.Pop(&p.spots)
		due = append(due, s.q)
	}
	return due, 0, false
}

// look probes the keys of the queues, and moves them.
func (p *prober) look(queues []*queue) {
	c := p.c
	keys := make([]string, len(queues))
	for i, q := range queues {
		keys[i] = q.key
	}
	infos, err := c.store.Inspect(keys, probeTimeout)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, q := range queues {
		if q.state != resting || q.spot.index > 0 || len(q.waiters) == 0 {
			continue // moved on meanwhile
		}
		if err == nil {
			q.fails(false)
		}
		switch {
		case err != nil:
			q.blocked(err)
			q.fails(true)
			c.report.Acquire.Fail(context.Background(), 0, "key", q.key, "err", err)
			if driver.IsLasting(err) {
				q.attempt() // tells the caller why
			} else {
				q.rest(q.pace.failed())
			}
		case infos[i].Held:
			h := &HeldError{Key: q.key, Owner: infos[i].Owner, Left: infos[i].Left, Pinned: infos[i].Pinned}
			q.blocked(h)
			q.pace.held(h)
			if c.local[q.key].leases > 0 {
				q.rest(localProbe)
			} else {
				q.series.contested = c.now() + contested
				q.rest(q.pace.next(c.watcher.live))
			}
		default:
			q.attempt()
		}
	}
	if err == nil {
		c.report.Acquire.OK()
	}
}

// pace says how long to wait before the next look at a key that is held: dense
// right after a refusal, then sparser, never past the end of the hold that is
// known.
type pace struct {
	step   int
	left   time.Duration // until the key is free by itself, if known
	pinned bool          // the last refusal was Pinned
	errs   int
	silent call.Silence
}

const (
	firstProbe = 2 * time.Millisecond
	lastProbe  = 70 * time.Millisecond
	lastRetry  = time.Second

	// refusedStep is where the pace goes on after a refusal of a key that goes round
	// among programs: whoever was faster has only just begun.
	refusedStep = 3
)

func (p *pace) reset() { *p = pace{} }

func (p *pace) held(h *HeldError) {
	p.left, p.pinned, p.errs, p.silent = h.Left, h.Pinned, 0, call.Silence{}
}

// With a live push it need not look often.
func (p *pace) next(push bool) time.Duration {
	d := min(firstProbe<<p.step, lastProbe)
	if d < lastProbe {
		p.step++
	}
	switch {
	case p.pinned:
		d = lastProbe
	case push:
		d = watchProbe
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

// jitter spreads d by a third, so that no program marches in step with the holds of
// another and never finds the key free. Who leaves the key for others to find waits
// for longer than the longest (see turn).
func jitter(d time.Duration) time.Duration {
	return d*2/3 + rand.N(d*2/3+1)
}

// spotHeap is a container/heap by due.
type spotHeap []*spot

func (h spotHeap) Len() int           { return len(h) }
func (h spotHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h spotHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *spotHeap) Push(x any) {
	s := x.(*spot)
	*h = append(*h, s)
	s.index = len(*h)
}

func (h *spotHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.index = 0
	return s
}
