package batch

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
)

// Batcher gathers the calls of one kind: acquires, renewals or releases.
//
// How many batches are on their way adapts: up to Config.AtOnce start at once; when the
// oldest has been away for Config.Slow, which means slow commits or a blocked key, one
// more may start, up to Config.Most. A call with little time left waits for none.
//
// It is safe for concurrent use. Its lock is the last one taken: no other is taken under
// it, and no user code, statement or answer runs under it.
type Batcher[Q any] struct {
	c Config[Q]

	mu       sync.Mutex
	waiting  []*Call[Q]
	unsorted bool        // see order
	sending  []*batch[Q] // the oldest first
	free     []*batch[Q] // for reuse
	timer    *time.Timer // starts one more batch
	delay    delay
}

// Config says what a Batcher sends, and how.
type Config[Q any] struct {
	Store *call.Store
	Send  func(qs []Q, patience time.Duration) call.Answers
	Entry func(*Q) (key, id string) // what goes in one batch: see call.Entries

	Size   int           // calls in a batch, at most
	Alone  bool          // each call is a batch, and leaves at once
	AtOnce int           // batches on their way
	Slow   time.Duration // when the oldest has been away for so long one more may start
	Most   int           // batches on their way, at most
	Dead   time.Duration // a batch away for so long counts no more; 0: it does
	Urgent time.Duration // a call with less time left than this waits for no batch; 0: each waits
	Gather bool          // a batch waits a moment for callers that come together: see delay
}

// Most is how many batches of acquires, and how many of releases, are on their way at
// most: it bounds the connections of a store.
const Most = 4

// Call is one caller's part of a batch.
type Call[Q any] struct {
	Q        Q
	Class    time.Duration // calls of different classes go apart: their deadlines differ much
	Deadline time.Duration // the nearest goes first; 0 for all: in their order
	Now      bool          // waits for no batch, and goes before all others
	Owner    Owner
}

// Owner made a call.
type Owner interface {
	// Patience is how long the answer is worth waiting for if the call is sent now. A
	// batch is given the least of its calls. Not more than 0: the call is not sent, and
	// answered with ErrTooLate.
	Patience(now time.Duration) time.Duration

	// Answered gets the answer, with the clock read before the send and after the reply.
	// The error of a whole batch comes as an Unknown with Err.
	Answered(r driver.Result, sent, got time.Duration)
}

// ErrTooLate: a call waited in its batcher for as long as its answer was worth.
var ErrTooLate = &driver.Error{NotApplied: true, Err: errors.New("the database did not answer the statements before it in time")}

// batch is in flight, or about to leave. It is reused, with its memory.
type batch[Q any] struct {
	of    *Batcher[Q]
	since time.Duration
	extra bool          // it left beside as many as may be in flight, for an urgent call
	full  chan struct{} // not nil: before it leaves it waits for this, for at most wait
	wait  time.Duration
	calls []*Call[Q]
	qs    []Q
	start func() // run
}

// New makes a Batcher. It starts nothing.
func New[Q any](c Config[Q]) *Batcher[Q] { return &Batcher[Q]{c: c} }

// Submit puts calls into the next batch. Their answers come from another goroutine.
func (b *Batcher[Q]) Submit(calls ...*Call[Q]) {
	if next := b.add(calls...); next != nil {
		b.c.Store.Work.Fork(next.start)
	}
}

// SubmitHere is Submit of a call whose caller waits for the answer in any case: where the
// batch may leave at once, this goroutine sends it.
func (b *Batcher[Q]) SubmitHere(q *Call[Q]) {
	if next := b.add(q); next != nil {
		next.runOnce()
	}
}

// Withdraw takes back a call that no batch has taken yet; false: one has.
func (b *Batcher[Q]) Withdraw(q *Call[Q]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, q)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.delay.leave(1)
	return true
}

func (b *Batcher[Q]) add(calls ...*Call[Q]) *batch[Q] {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.c.Store.Now()
	for _, q := range calls {
		if n := len(b.waiting); n > 0 && order(q, b.waiting[n-1]) < 0 {
			b.unsorted = true
		}
		b.waiting = append(b.waiting, q)
		b.delay.come(now, len(b.waiting))
	}
	return b.start(now)
}

// start adds a batch if calls wait and one more may start now. Called under mu.
func (b *Batcher[Q]) start(now time.Duration) *batch[Q] {
	if len(b.waiting) == 0 || b.delay.full != nil {
		return nil
	}
	may, extra := b.mayStart(now)
	if !may {
		return nil
	}
	var next *batch[Q]
	if n := len(b.free); n > 0 {
		next, b.free = b.free[n-1], b.free[:n-1]
	} else {
		next = &batch[Q]{of: b}
		next.start = next.run
	}
	next.since, next.extra = now, extra
	if b.c.Gather && !b.c.Alone {
		next.full, next.wait = b.delay.wait(b.c.Most, len(b.waiting))
	}
	b.sending = append(b.sending, next)
	return next
}

// mayStart reports whether a batch may start beside those that are on their way, and
// whether only because a call is urgent. If not, it sees to it that the question is asked
// again. Called under mu, while calls wait.
func (b *Batcher[Q]) mayStart(now time.Duration) (may, extra bool) {
	wait := b.busy(now)
	if wait == 0 {
		return true, false
	}
	if b.urgent(now) {
		return true, true
	}
	if b.timer == nil && wait < forever {
		b.timer = time.AfterFunc(wait, b.startLater)
	}
	return false, false
}

// busy is how long no other batch may start, at least; 0: one may. It is forever where
// only the end of a batch changes that, after which the same goroutine sends the next.
// Called under mu.
func (b *Batcher[Q]) busy(now time.Duration) time.Duration {
	n, oldest := 0, time.Duration(0)
	for _, s := range b.sending {
		if age := now - s.since; b.c.Dead == 0 || age < b.c.Dead {
			n, oldest = n+1, max(oldest, age)
		}
	}
	wait := time.Duration(forever)
	switch {
	case n < b.c.AtOnce || b.c.Alone:
		return 0
	case n < b.c.Most:
		wait = max(b.c.Slow-oldest, 0)
	}
	if b.c.Dead > 0 {
		wait = min(wait, b.c.Dead-oldest)
	}
	return wait
}

const forever = 1<<63 - 1

// urgent reports whether a call waits that can wait for no batch. Called under mu.
func (b *Batcher[Q]) urgent(now time.Duration) bool {
	b.sort()
	first := b.waiting[0]
	return first.Now || b.c.Urgent > 0 && first.Deadline-now < b.c.Urgent
}

// sort puts the calls in the order in which they go. Called under mu.
func (b *Batcher[Q]) sort() {
	if b.unsorted {
		b.unsorted = false
		slices.SortStableFunc(b.waiting, order[Q])
	}
}

// order compares two calls by the order in which they go: Now before others, then by
// deadline.
func order[Q any](x, y *Call[Q]) int {
	if x.Now != y.Now {
		if x.Now {
			return -1
		}
		return 1
	}
	return cmp.Compare(x.Deadline, y.Deadline)
}

func (b *Batcher[Q]) startLater() {
	b.mu.Lock()
	b.timer = nil
	next := b.start(b.c.Store.Now())
	b.mu.Unlock()
	if next != nil {
		b.c.Store.Work.Fork(next.start)
	}
}
