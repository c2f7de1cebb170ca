package workload

import (
	"context"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

// grouped takes several keys at once that all want, each in a mode of its own, and uses them.
func (w *worker) grouped(ctx context.Context) {
	order := w.rand.Perm(len(w.space.groups))
	order = order[:2+w.rand.IntN(len(order)-1)]
	wants, modes := make([]rowlock.Want, len(order)), make([]mode, len(order))
	for i, n := range order {
		modes[i] = w.draw(35, 15)
		wants[i] = rowlock.Want{Key: w.space.groups[n], Options: modes[i].options()}
	}
	guarded := w.name != Mongo || w.chance(60)
	opts := w.terms(guarded)
	alone := w.chance(10)
	if alone {
		opts = append(opts, rowlock.NoRenew())
	}
	patience := w.patience()
	if w.chance(30) {
		patience = 6 * w.task.TTL
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if g := w.takeAll(wait, wants, modes, w.chance(20), opts); g != nil {
		g.use(ctx, guarded)
		if !alone || w.chance(70) {
			g.release(ctx)
		}
	}
	timed.Rest(ctx, w.upTo(w.task.TTL/20))
}

// group is several leases that live together, in the hands of a worker.
type group struct {
	*worker
	group *rowlock.Group
	holds []*hold
}

// takeAll acquires all keys, or tries to, and records it as an acquire of each of them. The
// group is nil if it got none.
func (w *worker) takeAll(ctx context.Context, wants []rowlock.Want, modes []mode, try bool, opts []rowlock.Option) *group {
	events := make([]history.Event, len(wants))
	begin := history.Now()
	for i, want := range wants {
		e := w.rec.Begin(w.event(history.Acquire, want.Key))
		e.Mode, e.Slots, e.Try, e.Begin = modes[i].mode, modes[i].slots, try, begin
		events[i] = e
		events[i].Group = events[0].ID
		if !try {
			w.rec.Add(events[i])
		}
	}
	var g *rowlock.Group
	var err error
	if try {
		g, err = w.locks.TryAcquireAll(ctx, wants, opts...)
	} else {
		g, err = w.locks.AcquireAll(ctx, wants, opts...)
	}
	end := history.Now()
	got := &group{worker: w, group: g}
	for i, e := range events {
		e.End = end
		e.Result, e.Error, e.Raised = acquired(err), text(err), raised(err)
		if err == nil {
			lease := g.Leases()[i]
			e.Token, e.Slot = lease.Token(), max(lease.Slot(), 0)
			got.holds = append(got.holds, &hold{worker: w, lease: lease, acquire: e})
		}
		w.rec.Add(e)
	}
	if err != nil {
		if acquired(err) == history.Failed && ctx.Err() == nil {
			timed.Rest(ctx, w.upTo(w.task.TTL/40))
		}
		return nil
	}
	return got
}

// use holds the keys and does what holders do.
func (g *group) use(ctx context.Context, guarded bool) {
	longest := g.task.TTL / 8
	if g.chance(10) {
		longest = 2 * g.task.TTL
	}
	end := history.Now() + g.upTo(longest)
	for steps := 0; ; steps++ {
		if lost := g.look(); ctx.Err() != nil || steps > 0 && history.Now() >= end || lost && g.chance(50) {
			return
		}
		switch one := g.holds[g.rand.IntN(len(g.holds))]; g.rand.IntN(4) {
		case 0:
			if guarded {
				commitAll(ctx, g.holds)
			}
		case 1:
			if guarded {
				one.commit(ctx)
			} else {
				one.renew(ctx)
			}
		default:
			timed.Rest(ctx, min(g.upTo(longest), max(0, end-history.Now())))
		}
	}
}

// look asks the group. Where it says that all is well, all of its leases are held.
func (g *group) look() (lost bool) {
	begin := history.Now()
	if g.group.Err() != nil {
		for _, h := range g.holds {
			h.look(false)
		}
		return true
	}
	for _, h := range g.holds {
		e := g.rec.Begin(h.event(history.Look))
		e.Begin, e.Result = begin, history.OK
		if !h.lost {
			g.rec.End(e)
		}
	}
	return false
}

// release gives all keys back. What each lease has to say of it is the same ever after.
func (g *group) release(ctx context.Context) {
	begin := history.Now()
	_ = g.group.Release(ctx)
	for _, h := range g.holds {
		err := h.lease.Release(ctx)
		e := g.rec.Begin(h.event(history.Release))
		e.Begin = begin
		e.Result, e.Error, e.Reason, e.Raised = held(err), text(err), reason(err), raised(err)
		g.rec.End(e)
	}
}
