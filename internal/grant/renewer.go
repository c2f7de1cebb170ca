package grant

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/undo"
)

// Renewer has the grants of a client. One goroutine starts their renewals and ends those
// whose deadline has passed; it never waits for a statement, so a server that hangs
// delays no loss signal.
type Renewer struct {
	store              *call.Store
	renewals, releases *batch.Batcher[driver.Hold]
	unresolved         *undo.Unresolved
	report             *logs.Report
	steps              *logs.Queue
	open               context.Context

	lost      func(key string, token int64, reason Reason, cause error) error
	releasing func(g *Grant) (asks bool, next *driver.Request)
	ended     func(g *Grant, o Outcome)
	watched   bool

	renewed, losses, late atomic.Uint64
	joined                atomic.Int64 // users beside the first of their grant

	mu          sync.Mutex
	grants      grantHeap
	running     bool
	margin      time.Duration // the smallest among the grants since there was none
	sleepsUntil time.Duration // of the goroutine
	wake        chan struct{}
}

// Config is what a Renewer works with.
type Config struct {
	Store      *call.Store
	Unresolved *undo.Unresolved
	Report     *logs.Report
	Steps      *logs.Queue
	Open       context.Context // when it ends nothing is renewed any more

	// Lost makes the error of a loss, for the log.
	Lost func(key string, token int64, reason Reason, cause error) error

	// Releasing says that the release of g is about to be sent, and is asked whether its
	// answer should have the hint, and for the request that stands in the line from then on; nil: none. Ended says that it was answered, or that g ended without one.
	Releasing func(g *Grant) (asks bool, next *driver.Request)
	Ended     func(g *Grant, o Outcome)

	Watched bool // users are told of answers: see Watcher
}

// Outcome says how a grant ended, for the callers that wait for its key.
type Outcome struct {
	Lost  bool        // it did not end by its release
	Hint  driver.Hint // on the key
	Known bool        // Hint is what the database has

	// Next is the ID of the request that was to stand in the line from the release on; zero: none. Stands: it does, or
	// has the key. Otherwise it may, if Unknown. Place and Standing are those of driver.Result.
	Next            driver.HoldID
	Stands, Unknown bool
	Place, Standing int
}

// NewRenewer makes a Renewer. It starts nothing.
func NewRenewer(c Config) *Renewer {
	rn := &Renewer{
		store: c.Store, unresolved: c.Unresolved, report: c.Report, steps: c.Steps, open: c.Open,
		lost: c.Lost, releasing: c.Releasing, ended: c.Ended, watched: c.Watched,
		renewals: renewals(c.Store), releases: releases(c.Store), wake: make(chan struct{}, 1),
	}
	return rn
}

// schedule says when the renewer checks a grant next.
type schedule struct {
	due      time.Duration // when the renewer checks next: for a renewal, or at the trust deadline
	renewing bool          // a renewal is on its way: due is the trust deadline
	beside   time.Duration // a renewal is on its way: when another is to leave beside it; 0: none is on its way, or not sent
	index    int           // in the heap, + 1; 0: not in it
}

const forever time.Duration = 1<<63 - 1

// interval is the time between two renewals of a grant.
func (rn *Renewer) interval(g *Grant) time.Duration {
	if rn.store.Limits.Heartbeat && g.Hold.Mode == driver.Exclusive {
		return min(g.Terms.TTL/10, time.Second)
	}
	return g.Terms.TTL / 3
}

// Len is how many users the grants have.
func (rn *Renewer) Len() int {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	return len(rn.grants) + int(rn.joined.Load())
}

// All lists them.
func (rn *Renewer) All() []*Grant {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	return append([]*Grant(nil), rn.grants...)
}

// Renewed, Losses and Late count renewals that were acknowledged, users that lost their grant,
// and releases that were not answered in time.
func (rn *Renewer) Renewed() uint64 { return rn.renewed.Load() }
func (rn *Renewer) Losses() uint64  { return rn.losses.Load() }
func (rn *Renewer) Late() uint64    { return rn.late.Load() }

// Add takes a new grant on, with its first user.
func (rn *Renewer) Add(g *Grant, user User) {
	g.rn, g.user, g.answered = rn, user, rn.store.Now()
	p := &g.schedule
	p.due = g.deadline
	if !g.noRenew {
		p.due = min(p.due, g.renewedAt+rn.interval(g))
		if g.passed > 0 {
			p.due = min(p.due, g.renewedAt+g.passed/2)
		}
	}
	rn.mu.Lock()
	defer rn.mu.Unlock()
	if len(rn.grants) == 0 || g.Terms.Margin < rn.margin {
		rn.margin = g.Terms.Margin
	}
	heap.Push(&rn.grants, g)
	if !rn.running {
		rn.running = rn.store.Work.Go(rn.run) // false: Close is at work, and ends the grant
		return
	}
	if p.due < rn.sleepsUntil {
		rn.wakeUp()
	}
}

func (rn *Renewer) wakeUp() {
	select {
	case rn.wake <- struct{}{}:
	default:
	}
}

func (rn *Renewer) remove(g *Grant) {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	if g.schedule.index > 0 {
		heap.Remove(&rn.grants, g.schedule.index-1)
	}
}

// plan plans the next check of a grant after a renewal was answered.
func (rn *Renewer) plan(g *Grant, next time.Duration) { rn.planAt(g, next, 0) }

// planBeside plans another renewal of a grant beside the one that is about to be sent.
func (rn *Renewer) planBeside(g *Grant, at time.Duration) { rn.planAt(g, at, at) }

func (rn *Renewer) planAt(g *Grant, next, beside time.Duration) {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	p := &g.schedule
	p.renewing, p.beside = false, beside
	if p.index == 0 {
		return
	}
	deadline := g.Deadline()
	p.due = min(next, deadline)
	if !g.renews() {
		p.due = deadline
	}
	heap.Fix(&rn.grants, p.index-1)
	if p.due < rn.sleepsUntil {
		rn.wakeUp()
	}
}

// run checks each grant when it is due, and at least once in half a margin or a second: a
// timer of a machine that slept or a frozen process can be late.
func (rn *Renewer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	woken := true // by a grant, not by the timer
	for {
		due, over := rn.collect()
		for _, g := range over {
			g.Check()
		}
		if len(due) > 0 {
			rn.renewals.Submit(due...)
		}
		rn.mu.Lock()
		now := rn.store.Now()
		sleep := min(time.Second, max(rn.margin/2, time.Millisecond))
		if len(rn.grants) == 0 {
			// Where leases are short the next one comes soon: it need not wake the goroutine.
			if sleep = time.Hour; woken {
				sleep = time.Second
			}
		} else if first := rn.grants[0].schedule.due - now; first < sleep {
			sleep = max(first, 0)
		}
		rn.sleepsUntil = now + sleep
		rn.mu.Unlock()
		timer.Reset(sleep)
		select {
		case <-timer.C:
			woken = false
		case <-rn.wake:
			woken = true
		case <-rn.open.Done():
			return // Close has ended what was left
		}
	}
}

// collect begins the renewals that are due, with those that would be due soon, and lists
// the grants whose trust deadline has passed.
func (rn *Renewer) collect() (due []*batch.Call[driver.Hold], over []*Grant) {
	rn.mu.Lock()
	defer rn.mu.Unlock()
	now := rn.store.Now()
	var back []*Grant
	var ahead time.Duration // how far ahead renewals are taken along
	for len(rn.grants) > 0 && rn.grants[0].schedule.due <= now+ahead {
		g := heap.Pop(&rn.grants).(*Grant)
		back = append(back, g)
		p, deadline := &g.schedule, g.Deadline()
		if deadline <= now {
			over = append(over, g)
			p.due = forever
			continue
		}
		if p.beside > now { // it is not taken along: the answer may come before
			p.due = min(p.beside, deadline)
			continue
		}
		p.due = deadline
		if p.renewing || !g.renews() {
			continue // nothing to send: wait for the end
		}
		if r := g.newRenewal(nil); r != nil {
			if p.beside == 0 {
				ahead = max(ahead, rn.interval(g)/2)
			}
			p.renewing, p.beside = true, 0
			due = append(due, &r.call)
		}
	}
	for _, g := range back {
		heap.Push(&rn.grants, g)
	}
	return due, over
}

// grantHeap is a container/heap by due.
type grantHeap []*Grant

func (h grantHeap) Len() int           { return len(h) }
func (h grantHeap) Less(i, j int) bool { return h[i].schedule.due < h[j].schedule.due }
func (h grantHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].schedule.index, h[j].schedule.index = i+1, j+1
}

func (h *grantHeap) Push(x any) {
	g := x.(*Grant)
	*h = append(*h, g)
	g.schedule.index = len(*h)
}

func (h *grantHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	g.schedule.index = 0
	return g
}
