package keys

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/key"
)

// enqueue waits for the key in the server's own queue (driver.Queuer), for the first
// caller. It ends with an answer, or when nobody waits here any more. Called under Table.mu.
func (k *keyEntry) enqueue() {
	t := k.t
	first := k.waiters[0]
	caller, asked := first.Ctx, first.Ask
	if first.Counts != nil {
		first.Counts.Attempts++
	}
	req := t.newRequest(&first.Ask, notPinned, true)
	k.phases(&req, first)
	ctx, cancel := context.WithCancel(t.Open)
	k.leave, k.queued = cancel, true
	t.Store.Work.Fork(func() {
		defer cancel()
		a := asked
		r := t.Store.AcquireWait(ctx, t.queuer, req)
		if errors.Is(r.Err, driver.ErrNoPlace) {
			k.noPlace()
			return
		}
		got, err := t.outcome(caller, &req, &a, r.Results[0], r.Sent, r.Got, false)
		k.answered(caller, a, got, err, gateOf(&req, r.Results[0]), r.Got-r.Sent)
	})
}

// noPlace goes on without the server's queue.
func (k *keyEntry) noPlace() {
	t := k.t
	t.mu.Lock()
	defer t.mu.Unlock()
	k.leave = nil
	if len(k.waiters) == 0 {
		t.forget(k)
		return
	}
	k.step(key.Event{Kind: key.NoPlace})
}

// leaveQueue leaves the server's queue.
func (k *keyEntry) leaveQueue() {
	if k.leave != nil {
		k.leave()
		k.leave = nil
	}
}
