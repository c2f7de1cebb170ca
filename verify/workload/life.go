package workload

import (
	"context"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/verify/history"
	"github.com/rowlock/rowlock/verify/timed"
)

// light takes a key of the own client and gives it back.
func (w *worker) light(ctx context.Context) {
	key := w.space.light[w.rand.IntN(lightKeys)]
	bound, cancel := context.WithTimeout(ctx, 2*w.task.TTL)
	defer cancel()
	h := w.take(bound, key, w.chance(50))
	if h == nil {
		return
	}
	h.look(w.chance(5))
	if w.chance(2) {
		timed.Rest(ctx, w.upTo(2*w.task.TTL))
		h.look(true)
	}
	if w.chance(3) {
		h.renew(ctx)
	}
	h.release(ctx)
}

// hot takes a key that all want, and uses it.
func (w *worker) hot(ctx context.Context) {
	number := min(w.rand.IntN(hotKeys), w.rand.IntN(hotKeys))
	key := w.space.hot[number]
	longest, unrenewed := 30*time.Millisecond, 10
	if number >= hotKeys/2 && w.chance(60) {
		longest, unrenewed = 2*w.task.TTL, 40
	}
	var opts []rowlock.Option
	if w.name == Mongo && w.chance(60) {
		opts = append(opts, rowlock.Guarded())
	}
	alone := w.chance(unrenewed)
	if alone {
		opts = append(opts, rowlock.NoRenew())
	}
	wait, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	guarded := w.name != Mongo || len(opts) > 0 && !alone || len(opts) > 1
	switch w.rand.IntN(10) {
	case 0:
		w.do(wait, key, w.upTo(longest), guarded, opts)
	case 1, 2:
		if h := w.take(wait, key, true, opts...); h != nil {
			h.use(ctx, w.upTo(longest), guarded)
			h.end(ctx, alone)
		}
	case 3:
		w.read(ctx, key)
		if w.chance(50) {
			timed.Rest(ctx, w.upTo(20*time.Millisecond))
		}
	default:
		if h := w.take(wait, key, false, opts...); h != nil {
			h.use(ctx, w.upTo(longest), guarded)
			h.end(ctx, alone)
		}
	}
	timed.Rest(ctx, w.upTo(20*time.Millisecond))
}

// patience is how long a worker waits for a key: often not long enough.
func (w *worker) patience() time.Duration {
	switch w.rand.IntN(5) {
	case 0:
		return w.upTo(20 * time.Millisecond)
	case 1:
		return w.upTo(w.task.TTL)
	}
	return w.task.TTL + w.upTo(2*w.task.TTL)
}

// do is the same by rowlock.Do, which acquires and releases by itself.
func (w *worker) do(ctx context.Context, key string, d time.Duration, guarded bool, opts []rowlock.Option) {
	acquire := w.rec.Begin(w.event(history.Acquire, key))
	var h *hold
	var release history.Event
	err := rowlock.Do(ctx, w.locks, key, func(ctx context.Context, lease *rowlock.Lease) error {
		acquire.Result, acquire.Token = history.OK, lease.Token()
		w.rec.End(acquire)
		h = &hold{worker: w, lease: lease, acquire: acquire}
		h.use(ctx, d, guarded)
		h.over.Store(true)
		release = w.rec.Begin(h.event(history.Release))
		return nil
	}, opts...)
	if h != nil {
		release.Result, release.Error = held(err), text(err)
		w.rec.End(release)
		return
	}
	acquire.Result, acquire.Error = acquired(err), text(err)
	w.rec.End(acquire)
	if acquire.Result == history.Failed && ctx.Err() == nil {
		timed.Rest(ctx, w.upTo(40*time.Millisecond))
	}
}

// use holds the key for about d and does what holders do. After a loss it may go on
// for a while, as a program would that did not look.
func (h *hold) use(ctx context.Context, d time.Duration, guarded bool) {
	h.watch()
	end := history.Now() + d
	for steps := 0; ; steps++ {
		h.look(h.chance(40))
		if ctx.Err() != nil || steps > 0 && history.Now() >= end || h.lost && h.chance(50) {
			return
		}
		switch h.rand.IntN(8) {
		case 0, 1:
			if guarded {
				h.commit(ctx)
			}
		case 2, 3:
			h.write(ctx)
		case 4:
			h.read(ctx, h.lease.Key())
		case 5:
			h.renew(ctx)
		default:
			timed.Rest(ctx, min(h.upTo(d+time.Millisecond), max(0, end-history.Now())))
		}
	}
}

// end releases the hold, or leaves it to expire if nobody renews it.
func (h *hold) end(ctx context.Context, alone bool) {
	if alone && h.chance(30) {
		return
	}
	h.release(ctx)
}
