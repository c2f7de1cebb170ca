package workload

import (
	"context"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

// lead stands for election, leads for a while, and resigns.
func (w *worker) lead(ctx context.Context) {
	bound, cancel := context.WithTimeout(ctx, 4*w.task.TTL+w.upTo(8*w.task.TTL))
	defer cancel()
	acquire := w.rec.Open(w.event(history.Acquire, LeadKey(w.task.Round)))
	call := acquire.ID
	guarded := w.name != Mongo || w.chance(60)
	var h *hold
	var release history.Event // of its end: Lead sends nothing before fn has returned
	ended := func() {
		err := h.lease.Release(ctx) // says again what came of Lead's
		release.Result, release.Error, release.Reason, release.Raised = held(err), text(err), reason(err), raised(err)
		w.rec.End(release)
	}
	err := rowlock.Lead(bound, w.locks, LeadKey(w.task.Round), func(ctx context.Context, term *rowlock.Lease) error {
		if h != nil { // the last term was lost
			ended()
		}
		acquire.Result, acquire.Token = history.OK, term.Token()
		w.rec.End(acquire)
		h = &hold{worker: w, lease: term, acquire: acquire}
		e := w.rec.Begin(h.event(history.Term))
		e.Value = call
		h.use(ctx, w.upTo(2*w.task.TTL), guarded)
		e.Sent = history.Now()
		e.Result = held(term.Err())
		w.rec.End(e)
		h.over.Store(true)
		release = w.rec.Begin(h.event(history.Release))
		next := w.event(history.Acquire, LeadKey(w.task.Round)) // of the next term, if this one was lost
		next.Value = call
		acquire = w.rec.Open(next)
		return nil
	}, w.terms(guarded)...)
	if h != nil {
		ended()
	}
	acquire.Result, acquire.Error, acquire.Raised = acquired(err), text(err), raised(err)
	if err == nil {
		acquire.Result, acquire.Error = history.Failed, "it resigned"
	}
	w.rec.End(acquire)
	timed.Rest(ctx, w.upTo(w.task.TTL/4))
}

// follow is told who leads.
func (w *worker) follow(ctx context.Context) {
	bound, cancel := context.WithTimeout(ctx, 4*w.task.TTL+w.upTo(16*w.task.TTL))
	defer cancel()
	number := int64(0)
	for leader, err := range w.locks.Observe(bound, LeadKey(w.task.Round)) {
		e := w.rec.Begin(w.event(history.Leader, LeadKey(w.task.Round)))
		if number == 0 {
			number = e.ID
		}
		e.Value, e.Token, e.Owner, e.Error = number, leader.Token, leader.Owner, text(err)
		switch {
		case err != nil:
			e.Result = history.Failed
		case leader.Held:
			e.Result = history.Held
		default:
			e.Result = history.Free
		}
		w.rec.End(e)
	}
}
