package workload

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

// worker is a goroutine of a client that uses one space.
type worker struct {
	*space
	rand *rand.Rand
}

func newWorker(s *space, number int) *worker {
	h := fnv.New64a()
	fmt.Fprint(h, s.task.Name, s.name, number)
	return &worker{s, rand.New(rand.NewPCG(s.task.Seed, h.Sum64()))}
}

// chance is true in so many of a hundred cases.
func (w *worker) chance(percent int) bool { return w.rand.IntN(100) < percent }

// upTo is a time, more often short than long.
func (w *worker) upTo(d time.Duration) time.Duration {
	f := w.rand.Float64()
	return time.Duration(f * f * float64(d))
}

// event is the beginning of an event of this space.
func (w *worker) event(kind history.Kind, key string) history.Event {
	return history.Event{Kind: kind, Space: w.name, Key: key}
}

// acquired says what came of an acquire.
func acquired(err error) history.Result {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, rowlock.ErrHeld):
		return history.Refused
	}
	return history.Failed
}

// held says what a look at a lease saw, or a call that needs it.
func held(err error) history.Result {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, rowlock.ErrLost):
		return history.Lost
	case errors.Is(err, rowlock.ErrReleased):
		return history.Released
	}
	return history.Failed
}

// reason is why a lease was lost; empty: it was not.
func reason(err error) string {
	var lost *rowlock.LostError
	if errors.As(err, &lost) {
		return string(lost.Reason)
	}
	return ""
}

// text is an error as it is recorded.
func text(err error) string {
	if err == nil {
		return ""
	}
	t := err.Error()
	if len(t) > 300 {
		t = t[:300] + "…"
	}
	return t
}

// take acquires key, or tries to, and records it. The hold is nil if it got none.
func (w *worker) take(ctx context.Context, key string, try bool, opts ...rowlock.Option) *hold {
	return w.takeAs(ctx, key, mode{}, try, opts...)
}

// takeAs is take in a mode.
func (w *worker) takeAs(ctx context.Context, key string, m mode, try bool, opts ...rowlock.Option) *hold {
	e := w.rec.Begin(w.event(history.Acquire, key))
	e.Mode, e.Slots, e.Fair, e.Try = m.mode, m.slots, m.fair, try
	if !try {
		w.rec.Add(e) // a process that is killed while it waits has asked for the key
	}
	opts = append(opts, m.options()...)
	if m.fair {
		opts = append(opts, rowlock.Fair())
	}
	var lease *rowlock.Lease
	var err error
	if try {
		lease, err = w.locks.TryAcquire(ctx, key, opts...)
	} else {
		lease, err = w.locks.Acquire(ctx, key, opts...)
	}
	e.Result, e.Error, e.Raised = acquired(err), text(err), raised(err)
	if err != nil {
		w.rec.End(e)
		if e.Result == history.Failed && ctx.Err() == nil {
			timed.Rest(ctx, 5*time.Millisecond+w.upTo(40*time.Millisecond)) // a server that is down is not asked without pause
		}
		return nil
	}
	e.Token, e.Slot = lease.Token(), max(lease.Slot(), 0)
	w.rec.End(e)
	return &hold{worker: w, lease: lease, acquire: e}
}

// values makes the values for registers: each is written once in a round.
type values struct {
	client string
	last   atomic.Int64
}

// next is the client's number in the upper half, and a count.
func (v *values) next() int64 {
	var number int64
	_, _ = fmt.Sscanf(v.client, "p%d", &number)
	return number<<32 | v.last.Add(1)
}
