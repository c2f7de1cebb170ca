package rowlock

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/internal/queue"
)

// teller tells the observers of a client what happens: some functions in the goroutine of the
// caller, the others from a queue.
type teller struct {
	c         *Client
	observers []*watching
	name      string // Options.Name
	queue     *queue.Queue[event]
	dropped   atomic.Uint64 // events that found no room

	// Whether an observer has the function.
	starts, ends, holds, leases, renewals, calls, reaps bool
}

// watching is an Observer of a client.
type watching struct {
	Observer
	number int         // 1 for the first
	off    atomic.Bool // it has panicked
}

// event is one that is told from the queue. It is copied into the queue and cleared in it, so that
// its size is a part of its price: of the two kinds that each acquire has, LeaseEnd is made when it
// is told.
type event struct {
	kind    eventKind // says which of the others is set
	ended   *Lease
	renewed *Renewed
	called  Called
	reaped  *Reaped
}

type eventKind uint8

const (
	leaseEnded eventKind = iota
	leaseRenewed
	storeCalled
	rowsReaped
)

// newTeller makes the teller of a client; nil: it has no observers.
func newTeller(c *Client, o Options) *teller {
	if len(o.Observers) == 0 {
		return nil
	}
	t := &teller{c: c, name: o.Name}
	t.queue = queue.New(t.tell, nil)
	for i, of := range o.Observers {
		t.observers = append(t.observers, &watching{Observer: *of, number: i + 1})
		t.starts = t.starts || of.AcquireStart != nil
		t.ends = t.ends || of.AcquireEnd != nil
		t.holds = t.holds || of.HoldStart != nil
		t.leases = t.leases || of.LeaseEnd != nil
		t.renewals = t.renewals || of.Renewed != nil
		t.calls = t.calls || of.Called != nil
		t.reaps = t.reaps || of.Reaped != nil
	}
	return t
}

// checkObservers checks Options.Observers.
func checkObservers(all []*Observer) error {
	for i, o := range all {
		switch {
		case o == nil:
			return fmt.Errorf("%w: observer %d of %d is nil: leave it out", ErrInvalid, i+1, len(all))
		case slices.Index(all, o) < i:
			return fmt.Errorf("%w: observers %d and %d are the same: it would be told of everything twice", ErrInvalid, slices.Index(all, o)+1, i+1)
		}
	}
	return nil
}

// each calls f for each observer that is not switched off, and switches off what panics. f does
// nothing for an observer that lacks the function.
func (t *teller) each(f func(o *Observer)) {
	for _, o := range t.observers {
		if !o.off.Load() {
			t.call(o, f)
		}
	}
}

func (t *teller) call(o *watching, f func(*Observer)) {
	over := false
	defer func() {
		if over {
			return
		}
		panicked := recover() // nil: runtime.Goexit, which goes on
		if !o.off.Swap(true) {
			t.c.log.Error("an observer panicked and is switched off", "client", t.name, "observer", o.number, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
		}
	}()
	f(&o.Observer)
	over = true
}

const (
	// Events that wait, at most. Those that are not urgent get a part of the room.
	maxEvents = 2000
	maxOthers = 1500
)

// add puts an event into the queue, unless that is full.
func (t *teller) add(e *event, urgent bool) {
	room := maxOthers
	if urgent {
		room = maxEvents
	}
	if !t.queue.Add(e, room, false) {
		t.dropped.Add(1)
	}
}

// tell tells one event of the queue.
func (t *teller) tell(e *event) {
	var (
		ctx context.Context
		end LeaseEnd
	)
	if e.kind == leaseEnded {
		ctx, end = e.ended.endEvent()
	}
	t.each(func(o *Observer) {
		switch {
		case e.kind == leaseEnded && o.LeaseEnd != nil:
			o.LeaseEnd(ctx, end)
		case e.kind == leaseRenewed && o.Renewed != nil:
			o.Renewed(*e.renewed)
		case e.kind == storeCalled && o.Called != nil:
			o.Called(e.called)
		case e.kind == rowsReaped && o.Reaped != nil:
			o.Reaped(*e.reaped)
		}
	})
}

// called is told of a call of the store.
func (t *teller) called(op string, keys int, took time.Duration, err error) {
	t.add(&event{kind: storeCalled, called: Called{Client: t.name, Op: op, Keys: keys, Took: took, Err: err}}, false)
}

// reaped is told of a round of the reaper.
func (t *teller) reaped(rows int, took time.Duration, err error) {
	if t.calls {
		t.called("reap", rows, took, err)
	}
	if t.reaps {
		t.add(&event{kind: rowsReaped, reaped: &Reaped{Client: t.name, Rows: rows, Err: err}}, false)
	}
}

// begin and end tell the observers of the client itself.
func (t *teller) begin() {
	t.each(func(o *Observer) {
		if o.ClientStart != nil {
			o.ClientStart(t.c)
		}
	})
}

func (t *teller) end(ctx context.Context) {
	t.queue.Flush(ctx, t.c.opts.ReleaseWait)
	t.each(func(o *Observer) {
		if o.ClientEnd != nil {
			o.ClientEnd(t.c)
		}
	})
}

// nameOf is what Options.KeyName makes of a key.
func (c *Client) nameOf(key string) (name string) {
	if c.opts.KeyName == nil || c.keyNamesOff.Load() {
		return ""
	}
	over := false
	defer func() {
		if over {
			return
		}
		panicked := recover()
		if !c.keyNamesOff.Swap(true) {
			c.log.Error("KeyName panicked and is switched off", "key", key, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
		}
	}()
	name = c.opts.KeyName(key)
	over = true
	return name
}
