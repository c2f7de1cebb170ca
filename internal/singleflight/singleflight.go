// Package singleflight runs work once for all who need it at the time, as golang.org/x/sync/singleflight does, with
// two differences: a run outlives the caller that began it, and each caller waits within its own context.
//
// # The model
//
// A Group is idle, or has one run.
//
//   - Do of an idle Group begins a run, in a goroutine of its own and with a context of its own: nothing of a
//     caller's context reaches the work, neither its values nor its end.
//   - Do of a Group that has a run joins it.
//   - The run returns: all callers that still wait get its answer, and the Group is idle. No answer is kept, and
//     an error is an answer: whoever comes next begins a new run.
//   - The context of a caller ends: this caller leaves, and the run goes on for the others.
//   - The last caller leaves: the run goes on for as long as Alone says. Until then the next caller joins it. Then its
//     context ends, the Group is idle at once, and what the run still does is nobody's answer.
//   - The run panics: the program ends, as with a panic in any goroutine.
//
// A Group that is used once is a call that outlives its caller.
//
// It is for the engine and for stores.
package singleflight

import (
	"context"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Group has the runs of one piece of work, one at a time. Its fields are set before the first Do.
type Group[T any] struct {
	Life context.Context   // runs end with it
	Go   func(func()) bool // begins the goroutine of a run; false: nothing begins any more

	// Alone is how long a run of this age goes on when its last caller has left. If Alone is nil, the run is not
	// ended: it knows itself when to end.
	Alone func(age time.Duration) time.Duration

	mu  sync.Mutex
	now *run[T] // nil if the Group is idle
}

// run is one run. callers, until and late are guarded by Group.mu.
type run[T any] struct {
	begun   time.Time
	cancel  context.CancelFunc
	callers int
	until   time.Time     // when it ends, if it has no callers by then
	late    *time.Timer   // to end it; nil until its last caller leaves
	done    chan struct{} // closed when value and err are there
	value   T
	err     error
}

// Result is what a call of Do gets.
type Result[T any] struct {
	Value  T
	Err    error // of the run, of the caller's context if Left, or driver.ErrClosed if Go has refused
	Joined bool  // another caller had begun the run
	Left   bool  // the caller's context ended before the run
}

// Do begins f, or joins the run that is under way, and waits for its answer within ctx.
func (g *Group[T]) Do(ctx context.Context, f func(context.Context) (T, error)) Result[T] {
	r, joined := g.join(f)
	if r == nil {
		return Result[T]{Err: driver.ErrClosed}
	}
	select {
	case <-r.done: // also if ctx has ended just now
	default:
		select {
		case <-r.done:
		case <-ctx.Done():
			g.leave(r)
			return Result[T]{Err: ctx.Err(), Joined: joined, Left: true}
		}
	}
	return Result[T]{Value: r.value, Err: r.err, Joined: joined}
}

// join returns the run that is under way, or a new one, or nil if none can begin.
func (g *Group[T]) join(f func(context.Context) (T, error)) (r *run[T], joined bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now != nil {
		g.now.callers++
		return g.now, true
	}
	r = &run[T]{begun: time.Now(), callers: 1, done: make(chan struct{})}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(g.Life)
	if !g.Go(func() { g.run(ctx, r, f) }) {
		r.cancel()
		return nil, false
	}
	g.now = r
	return r, false
}

func (g *Group[T]) run(ctx context.Context, r *run[T], f func(context.Context) (T, error)) {
	defer r.cancel()
	r.value, r.err = f(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == r {
		g.now = nil
	}
	if r.late != nil {
		r.late.Stop()
	}
	close(r.done)
}

// leave is for a caller that does not wait for the run any more.
func (g *Group[T]) leave(r *run[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.callers--
	if r.callers > 0 || g.Alone == nil {
		return
	}
	now := time.Now()
	alone := g.Alone(now.Sub(r.begun))
	r.until = now.Add(alone)
	switch {
	case alone <= 0:
		g.endLocked(r)
	case r.late == nil:
		r.late = time.AfterFunc(alone, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.endLocked(r)
		})
	default:
		r.late.Reset(alone)
	}
}

// endLocked ends a run that was alone for long enough.
func (g *Group[T]) endLocked(r *run[T]) {
	if r.callers > 0 || time.Now().Before(r.until) {
		return
	}
	if g.now == r {
		g.now = nil // whoever comes now begins anew
	}
	r.cancel()
}
