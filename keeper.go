package rowlock

import (
	"container/heap"
	"sync"
	"time"
)

// keeper is one goroutine for all leases of a client. It starts renewals and
// closes Done at trust deadlines; it never waits for a statement, so a server that
// hangs delays no loss signal.
type keeper struct {
	c *Client

	mu      sync.Mutex
	tasks   taskHeap
	running bool
	margin  time.Duration // the smallest among the leases since tasks was last empty
	sleeps  time.Duration // until when the goroutine sleeps
	wake    chan struct{}
}

// keeperTask is a lease's place in the keeper.
type keeperTask struct {
	lease    *Lease
	due      time.Duration // when the keeper looks next: the renewal or the trust deadline
	renewing bool          // a renewal is on its way: due is the trust deadline
	index    int           // in the heap, + 1; 0: not in it
}

const never = time.Duration(1<<63 - 1)

func (k *keeper) init(c *Client) {
	k.c = c
	k.wake = make(chan struct{}, 1)
}

func (k *keeper) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.tasks)
}

// renewEvery is the distance of renewals.
func (c *Client) renewEvery(ttl time.Duration) time.Duration {
	if c.limits.Heartbeat {
		return min(ttl/10, time.Second)
	}
	return ttl / 3
}

// add takes a new lease into care.
func (k *keeper) add(l *Lease) {
	t := &l.task
	t.due = l.deadline
	if !l.set.noRenew {
		t.due = min(t.due, l.renewedAt+k.c.renewEvery(l.set.ttl))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.tasks) == 0 || l.set.margin < k.margin {
		k.margin = l.set.margin
	}
	heap.Push(&k.tasks, t)
	if !k.running {
		k.running = k.c.work.goWork(k.run) // false: Close is at work, and ends the lease
		return
	}
	if t.due < k.sleeps {
		k.nudge()
	}
}

func (k *keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) remove(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.task.index > 0 {
		heap.Remove(&k.tasks, l.task.index-1)
	}
}

// renewed plans the next look at a lease after a renewal was answered, or failed.
func (k *keeper) renewed(l *Lease, next, deadline time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &l.task
	t.renewing = false
	if t.index == 0 {
		return
	}
	t.due = min(next, deadline)
	if l.set.noRenew {
		t.due = deadline
	}
	heap.Fix(&k.tasks, t.index-1)
	if t.due < k.sleeps {
		k.nudge()
	}
}

// all lists the leases in care.
func (k *keeper) all() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	leases := make([]*Lease, len(k.tasks))
	for i, t := range k.tasks {
		leases[i] = t.lease
	}
	return leases
}

// run looks at each lease when it is due, and at least once in half a margin or a
// second: a timer of a machine that slept or a frozen process can be late.
func (k *keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	woken := true // by a lease, not by the timer
	for {
		due, over := k.collect()
		for _, l := range over {
			_ = l.Err() // ends it
		}
		k.c.renews.add(due)
		k.mu.Lock()
		now := k.c.now()
		sleep := min(time.Second, max(k.margin/2, time.Millisecond))
		if len(k.tasks) == 0 {
			// Where leases are short the next one comes soon: it need not wake us.
			if sleep = time.Hour; woken {
				sleep = time.Second
			}
		} else if first := k.tasks[0].due - now; first < sleep {
			sleep = max(first, 0)
		}
		k.sleeps = now + sleep
		k.mu.Unlock()
		timer.Reset(sleep)
		select {
		case <-timer.C:
			woken = false
		case <-k.wake:
			woken = true
		case <-k.c.keeping.Done():
			return // Close has ended what was left
		}
	}
}

// collect takes the leases whose renewal is due, in batches of one TTL each, with
// those that would be due soon, and lists those whose trust deadline has passed.
func (k *keeper) collect() (due [][]*Lease, over []*Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.c.now()
	var back []*keeperTask
	var ahead time.Duration // how far ahead renewals are taken along
	open := make(map[time.Duration][]*Lease)
	for len(k.tasks) > 0 && k.tasks[0].due <= now+ahead {
		t := heap.Pop(&k.tasks).(*keeperTask)
		back = append(back, t)
		l := t.lease
		deadline := l.trustedUntil()
		switch {
		case deadline <= now:
			over = append(over, l)
			t.due = never
		case t.renewing || l.set.noRenew || l.maxHoldEnd() <= deadline:
			t.due = deadline // nothing to send: wait for the end
		case !l.renewalStarts():
			t.due = never // it has ended
		default:
			ahead = max(ahead, k.c.renewEvery(l.set.ttl)/2)
			t.renewing, t.due = true, deadline
			batch := append(open[l.set.ttl], l)
			if len(batch) == k.c.limits.Renewals {
				due = append(due, batch)
				batch = nil
			}
			open[l.set.ttl] = batch
		}
	}
	for _, t := range back {
		heap.Push(&k.tasks, t)
	}
	for _, batch := range open {
		if len(batch) > 0 {
			due = append(due, batch)
		}
	}
	return due, over
}

// trustedUntil is the trust deadline.
func (l *Lease) trustedUntil() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// taskHeap is a container/heap by due.
type taskHeap []*keeperTask

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *taskHeap) Push(x any) {
	t := x.(*keeperTask)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}
