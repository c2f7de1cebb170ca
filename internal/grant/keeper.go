package grant

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/undo"
)

// Keeper has the grants of a client. One goroutine starts their renewals and ends those
// whose deadline has passed; it never waits for a statement, so a server that hangs
// delays no loss signal.
type Keeper struct {
	store              *call.Store
	renewals, releases *batch.Batcher[driver.Hold]
	undoer             *undo.Undoer
	report             *logs.Report
	log                *slog.Logger
	keeping            context.Context

	lost      func(key string, token int64, reason Reason, cause error) error
	releasing func(g *Grant) (asks bool)
	over      func(g *Grant, end Over)

	renewed, losses, late atomic.Uint64

	mu      sync.Mutex
	grants  grantHeap
	running bool
	margin  time.Duration // the smallest among the grants since there was none
	sleeps  time.Duration // until when the goroutine sleeps
	wake    chan struct{}
}

// Config is what a Keeper works with.
type Config struct {
	Store   *call.Store
	Undoer  *undo.Undoer
	Report  *logs.Report
	Log     *slog.Logger
	Keeping context.Context // when it ends nothing is renewed any more

	// Lost makes the error of a loss, for the log.
	Lost func(key string, token int64, reason Reason, cause error) error

	// Releasing says that the release of g is about to be sent, and is asked whether its
	// answer should tell of a hint. Over says that it was answered, or that g ended without.
	Releasing func(g *Grant) (asks bool)
	Over      func(g *Grant, end Over)
}

// Over is how a grant is over for those who wait for its key.
type Over struct {
	Lost  bool        // it did not end by its release
	Hint  driver.Hint // on the key
	Known bool        // Hint is what the database has
}

// NewKeeper makes a Keeper. It starts nothing.
func NewKeeper(c Config) *Keeper {
	k := &Keeper{
		store: c.Store, undoer: c.Undoer, report: c.Report, log: c.Log, keeping: c.Keeping,
		lost: c.Lost, releasing: c.Releasing, over: c.Over,
		renewals: renewals(c.Store), releases: releases(c.Store), wake: make(chan struct{}, 1),
	}
	return k
}

// place is where a grant is in the keeper.
type place struct {
	due      time.Duration // when the keeper looks next: the renewal or the trust deadline
	renewing bool          // a renewal is on its way: due is the trust deadline
	index    int           // in the heap, + 1; 0: not in it
}

const forever time.Duration = 1<<63 - 1

// every is the distance of renewals.
func (k *Keeper) every(ttl time.Duration) time.Duration {
	if k.store.Limits.Heartbeat {
		return min(ttl/10, time.Second)
	}
	return ttl / 3
}

// Len is how many grants there are.
func (k *Keeper) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.grants)
}

// All lists them.
func (k *Keeper) All() []*Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*Grant(nil), k.grants...)
}

// Renewed, Losses and Late count renewals that were acknowledged, grants that were lost,
// and releases that were not answered in time.
func (k *Keeper) Renewed() uint64 { return k.renewed.Load() }
func (k *Keeper) Losses() uint64  { return k.losses.Load() }
func (k *Keeper) Late() uint64    { return k.late.Load() }

// Add takes a new grant on, with its first user.
func (k *Keeper) Add(g *Grant, user User) {
	g.k, g.user = k, user
	p := &g.place
	p.due = g.deadline
	if !g.noRenew {
		p.due = min(p.due, g.renewedAt+k.every(g.Terms.TTL))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.grants) == 0 || g.Terms.Margin < k.margin {
		k.margin = g.Terms.Margin
	}
	heap.Push(&k.grants, g)
	if !k.running {
		k.running = k.store.Work.Go(k.run) // false: Close is at work, and ends the grant
		return
	}
	if p.due < k.sleeps {
		k.nudge()
	}
}

func (k *Keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) remove(g *Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if g.place.index > 0 {
		heap.Remove(&k.grants, g.place.index-1)
	}
}

// plan plans the next look at a grant after a renewal was answered.
func (k *Keeper) plan(g *Grant, next time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := &g.place
	p.renewing = false
	if p.index == 0 {
		return
	}
	deadline := g.Deadline()
	p.due = min(next, deadline)
	if !g.renews() {
		p.due = deadline
	}
	heap.Fix(&k.grants, p.index-1)
	if p.due < k.sleeps {
		k.nudge()
	}
}

// run looks at each grant when it is due, and at least once in half a margin or a
// second: a timer of a machine that slept or a frozen process can be late.
func (k *Keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	woken := true // by a grant, not by the timer
	for {
		due, over := k.collect()
		for _, g := range over {
			g.Check()
		}
		if len(due) > 0 {
			k.renewals.Submit(due...)
		}
		k.mu.Lock()
		now := k.store.Now()
		sleep := min(time.Second, max(k.margin/2, time.Millisecond))
		if len(k.grants) == 0 {
			// Where leases are short the next one comes soon: it need not wake us.
			if sleep = time.Hour; woken {
				sleep = time.Second
			}
		} else if first := k.grants[0].place.due - now; first < sleep {
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
		case <-k.keeping.Done():
			return // Close has ended what was left
		}
	}
}

// collect begins the renewals that are due, with those that would be due soon, and lists
// the grants whose trust deadline has passed.
func (k *Keeper) collect() (due []*batch.Call[driver.Hold], over []*Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.store.Now()
	var back []*Grant
	var ahead time.Duration // how far ahead renewals are taken along
	for len(k.grants) > 0 && k.grants[0].place.due <= now+ahead {
		g := heap.Pop(&k.grants).(*Grant)
		back = append(back, g)
		p, deadline := &g.place, g.Deadline()
		if deadline <= now {
			over = append(over, g)
			p.due = forever
			continue
		}
		p.due = deadline
		if p.renewing || !g.renews() {
			continue // nothing to send: wait for the end
		}
		if r := g.newRenewal(); r != nil {
			ahead = max(ahead, k.every(g.Terms.TTL)/2)
			p.renewing = true
			due = append(due, &r.call)
		}
	}
	for _, g := range back {
		heap.Push(&k.grants, g)
	}
	return due, over
}

// grantHeap is a container/heap by due.
type grantHeap []*Grant

func (h grantHeap) Len() int           { return len(h) }
func (h grantHeap) Less(i, j int) bool { return h[i].place.due < h[j].place.due }
func (h grantHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place.index, h[j].place.index = i+1, j+1
}

func (h *grantHeap) Push(x any) {
	g := x.(*Grant)
	*h = append(*h, g)
	g.place.index = len(*h)
}

func (h *grantHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	g.place.index = 0
	return g
}
