package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

// hold is a lease in the hands of a worker. What is done with it is recorded.
type hold struct {
	*worker
	lease   *rowlock.Lease
	acquire history.Event // that it came from
	over    atomic.Bool   // released, as far as its holder is concerned
	lost    bool          // a look said so
}

// event is the beginning of an event about the lease.
func (h *hold) event(kind history.Kind) history.Event {
	return history.Event{Kind: kind, Space: h.name, Key: h.lease.Key(), Lease: h.acquire.ID, Token: h.lease.Token()}
}

// watch records the end of the lease if its holder did not bring it about.
func (h *hold) watch() {
	go func() {
		<-h.lease.Done()
		if !h.over.Load() {
			e := h.rec.Begin(h.event(history.Done))
			e.Error, e.Reason = text(h.lease.Err()), reason(h.lease.Err())
			h.rec.End(e)
		}
	}()
}

// look asks the lease. A look that found nothing new is recorded if keep says so.
func (h *hold) look(keep bool) {
	e := h.rec.Begin(h.event(history.Look))
	err := h.lease.Err()
	e.Result, e.Error, e.Reason, e.Raised = held(err), text(err), reason(err), raised(err)
	if keep && !h.lost || e.Result != history.OK && !h.lost {
		h.rec.End(e)
	}
	h.lost = h.lost || e.Result != history.OK
}

func (h *hold) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.task.TTL/2)
	defer cancel()
	e := h.rec.Begin(h.event(history.Renew))
	err := h.lease.Renew(ctx)
	e.Result, e.Error, e.Reason, e.Raised = held(err), text(err), reason(err), raised(err)
	h.rec.End(e)
}

// commit adds a row to the key's ledger, or to that of its slot, or of its readers.
func (h *hold) commit(ctx context.Context) { commitAll(ctx, []*hold{h}) }

// commitName names the commit of a reader.
func commitName(client string, event int64) string { return fmt.Sprintf("%s.%d", client, event) }

// commitAll adds a row for each hold, in one transaction that is guarded with all of them.
func commitAll(ctx context.Context, holds []*hold) {
	w := holds[0].worker
	ctx, cancel := context.WithTimeout(ctx, w.task.TTL)
	defer cancel()
	events, rows, leases := make([]history.Event, len(holds)), make([]row, len(holds)), make([]*rowlock.Lease, len(holds))
	for i, h := range holds {
		e := w.rec.Begin(h.event(history.Commit))
		e.Mode, e.Slot = h.acquire.Mode, h.acquire.Slot
		if len(holds) > 1 {
			e.Group = h.acquire.Group
		}
		if e.Mode == history.Shared {
			e.Run = commitName(w.task.Name, e.ID)
		}
		events[i], leases[i] = e, h.lease
		rows[i] = row{Space: w.name, Client: w.task.Name, Event: e.ID, Token: e.Token, Mode: e.Mode, Slot: e.Slot}
	}
	pause := time.Duration(0)
	if w.chance(10) {
		pause = w.upTo(w.task.TTL / 2) // between the guard and the commit
	}
	err := w.backend.commit(ctx, leases, rows, w.chance(40), func(numbers []int64) {
		timed.Rest(ctx, pause)
		for i := range events {
			events[i].Value, events[i].Sent = numbers[i], history.Now()
			w.rec.Add(events[i]) // before it is sent: the reply may never come
		}
	})
	for _, e := range events {
		e.Result, e.Error, e.Raised = committed(err), text(err), raised(err)
		w.rec.End(e)
	}
}

// once makes the effect of a run that others try too, in this moment or in one just past.
func (h *hold) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.task.TTL)
	defer cancel()
	e := h.event(history.Once)
	e.Run = fmt.Sprintf("%s.%d", h.name, int64(history.Now()/(h.task.TTL/3))-h.rand.Int64N(3))
	e = h.rec.Open(e)
	mark := e.Run
	if h.task.Break == bugMark {
		mark = fmt.Sprintf("%s.%s.%d", mark, h.task.Name, e.ID)
	}
	r := row{Space: h.name, Client: h.task.Name, Event: e.ID, Token: h.lease.Token(), Run: e.Run}
	err := h.backend.once(ctx, h.lease, mark, r, h.chance(40))
	e.Result, e.Error, e.Raised = ran(err), text(err), raised(err)
	h.rec.End(e)
}

// locked makes the next effect of a key under LockTx.
func (w *worker) locked(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, w.task.TTL)
	defer cancel()
	e := w.rec.Open(w.event(history.Locked, key))
	pause := time.Duration(0)
	if w.chance(10) {
		pause = w.upTo(w.task.TTL / 4)
	}
	err := w.backend.locked(ctx, key, row{Space: w.name, Client: w.task.Name, Event: e.ID}, func(run string) {
		timed.Rest(ctx, pause)
		e.Run = run
		w.rec.Add(e) // before it is sent: the reply may never come
	})
	e.Result, e.Error, e.Raised = committed(err), text(err), raised(err)
	w.rec.End(e)
}

// write writes to the key's register, which has nothing to do with the lease but its
// token.
func (h *hold) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.task.TTL)
	defer cancel()
	e := h.event(history.Write)
	e.Value = h.values.next()
	e = h.rec.Open(e)
	err := h.backend.write(ctx, h.lease.Key(), h.lease.Token(), e.Value)
	e.Result, e.Error = written(h.backend, err), text(err)
	h.rec.End(e)
}

// read reads the key's register.
func (w *worker) read(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, w.task.TTL)
	defer cancel()
	e := w.rec.Open(w.event(history.Read, key))
	var err error
	if e.Value, e.Token, err = w.backend.read(ctx, key); err != nil {
		e.Result, e.Error = history.Failed, text(err)
	} else {
		e.Result = history.OK
	}
	w.rec.End(e)
}

// release ends the hold. A context that has ended makes no difference.
func (h *hold) release(ctx context.Context) {
	if h.chance(20) {
		dead, cancel := context.WithCancel(ctx)
		cancel()
		ctx = dead
	}
	h.over.Store(true)
	e := h.rec.Begin(h.event(history.Release))
	err := h.lease.Release(ctx)
	e.Result, e.Error, e.Reason, e.Raised = held(err), text(err), reason(err), raised(err)
	h.rec.End(e)
}
