package workload

import (
	"context"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
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
	guarded := w.name != Mongo || w.chance(60)
	if w.name == Mongo && guarded {
		opts = append(opts, rowlock.Guarded())
	}
	if w.chance(8) { // so short that a hold is over by it a TTL after its grant
		opts = append(opts, rowlock.MinHold(w.upTo(w.task.TTL/2)))
	}
	if w.chance(8) {
		opts = append(opts, rowlock.MaxHold(w.task.TTL+w.upTo(w.task.TTL)))
	}
	alone := w.chance(unrenewed)
	if alone {
		opts = append(opts, rowlock.NoRenew())
	}
	wait, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	switch w.rand.IntN(11) {
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
	case 4:
		w.locked(ctx, w.tx[w.rand.IntN(len(w.tx))])
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
		release.Result, release.Error, release.Raised = held(err), text(err), raised(err)
		w.rec.End(release)
		return
	}
	acquire.Result, acquire.Error, acquire.Raised = acquired(err), text(err), raised(err)
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
		switch h.rand.IntN(9) {
		case 0, 1:
			if guarded {
				h.commit(ctx)
			}
		case 8:
			if guarded {
				h.once(ctx)
			}
		case 2, 3:
			if h.acquire.Mode == "" { // tokens of others are not in one order
				h.write(ctx)
			}
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

// kept holds a key of the own client for as long as it can, and looks at the lease all
// the time: it tells a lease that was lost for want of a renewal from a process that
// got no processor.
func (w *worker) kept(ctx context.Context) {
	bound, cancel := context.WithTimeout(ctx, 2*w.task.TTL)
	defer cancel()
	h := w.take(bound, KeptKey(w.task.Round, w.task.Name), false)
	if h == nil {
		return
	}
	step := w.task.TTL / 100
	last, said := history.Now(), time.Duration(0)
	var slept longest
	for end := last + 8*w.task.TTL; ctx.Err() == nil && last < end; {
		timed.Rest(ctx, step)
		e := w.rec.Begin(h.event(history.Look))
		slept.add(e.Begin, max(e.Begin-last-step, 1))
		last = e.Begin
		err := h.lease.Err()
		e.Result, e.Error, e.Reason = held(err), text(err), reason(err)
		if err != nil {
			e.Age = slept.since(e.Begin - w.task.TTL)
			w.rec.End(e)
			break
		}
		if e.Begin-said > w.task.TTL/25 { // each would be too many
			said = e.Begin
			w.rec.End(e)
		}
	}
	h.release(ctx)
}

// longest keeps times that something took, and when that was.
type longest []struct{ at, took time.Duration }

func (l *longest) add(at, took time.Duration) {
	*l = append(*l, struct{ at, took time.Duration }{at, took})
}

// since is the longest from a moment on.
func (l longest) since(from time.Duration) (most time.Duration) {
	for _, s := range l {
		if s.at >= from {
			most = max(most, s.took)
		}
	}
	return most
}
