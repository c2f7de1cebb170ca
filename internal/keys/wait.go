package keys

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/repeat"
	"github.com/rowlock/rowlock/internal/undo"
)

// Waiter is one caller of Acquire or TryAcquire, and its attempt.
type Waiter struct {
	t   *Table
	key *keyEntry // nil: TryAcquire
	Caller
	try batch.Call[driver.Request]
	by  *batch.Batcher[driver.Request] // which sends it

	stood  bool      // the attempt refreshes a place in the line
	before undo.Left // what this client had left of the key when the attempt was sent

	// Of TryAcquire. Guarded by Table.mu.
	sent      bool // the attempt, and it was not answered
	silence   repeat.Silence
	maybeHeld bool          // an earlier attempt of this caller may hold the key: it is being undone
	pinned    pinning       // what the last attempt said of the key
	first     time.Duration // when the first attempt was sent

	// Guarded by Table.mu.
	Since  time.Duration // when the caller began to wait
	gone   bool          // the caller has left
	got    grant.Used    // what the caller gets
	err    error         // why not
	Last   error         // why the key could not be had last
	metOwn bool          // that is by a hold of this client's

	noRoom chan struct{} // gets a value when there is no connection left for the key; nil: the caller waits on
	full   error         // says so

	prev, next *Waiter // in Table.attempts

	ready chan struct{} // gets one value with got or err
}

// newWaiter reuses one that was answered. (Not by a sync.Pool: a channel belongs
// to its testing/synctest bubble, as the client does.) Called under Table.mu.
func (t *Table) newWaiter(by Caller) *Waiter {
	var w *Waiter
	if n := len(t.free); n > 0 {
		w = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		w = &Waiter{t: t, ready: make(chan struct{}, 1)}
	}
	w.Caller = by
	return w
}

// maxFree bounds the waiters kept for reuse.
const maxFree = 64

// Await waits for the answer to w, or until ctx or the client ends. ended: ctx has, and err is why the key could not be had.
func (t *Table) Await(ctx context.Context, w *Waiter) (got grant.Used, ended bool, err error) {
	answered := false
	select {
	case <-w.ready:
		answered = true
	case <-ctx.Done():
		if t.leave(w) { // its attempt may be on its way: w is not reused
			return none, true, w.Last
		}
	case <-t.Open.Done():
		if t.leave(w) {
			return none, false, driver.ErrClosed
		}
	case <-w.noRoom:
		if t.leave(w) {
			return none, false, w.full
		}
	}
	if !answered {
		<-w.ready // at the same moment
	}
	got, err = w.got, w.err
	t.mu.Lock()
	if len(t.free) < maxFree {
		*w = Waiter{t: t, ready: w.ready}
		t.free = append(t.free, w)
	}
	t.mu.Unlock()
	return got, false, err
}

// Join begins a wait; nil: the client is closed.
func (t *Table) Join(by Caller, once bool) *Waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	w := t.newWaiter(by)
	if w.Mode == driver.Shared {
		if got := t.joinGrant(w.ID(), w.Terms); got != none {
			w.answer(got, nil)
			return w
		}
	}
	if once {
		t.submit(w, notPinned)
		return w
	}
	k := t.key(w.ID())
	w.key, w.Since = k, t.Now()
	if w.Counts != nil {
		w.Counts.Ahead = len(k.waiters)
	}
	k.waiters = append(k.waiters, w)
	k.waits(1)
	k.do(k.Step(key.Event{Kind: key.Join}, w.Since, k.env()))
	return w
}

// JoinInRoom is join for a caller that has other keys. Its wait ends when there is no connection left for this one.
func (t *Table) JoinInRoom(by Caller) *Waiter {
	w := t.Join(by, false)
	if w != nil {
		t.mu.Lock()
		w.noRoom = make(chan struct{}, 1)
		t.mu.Unlock()
	}
	return w
}

// JoinAll makes one attempt for each of many callers that leave together: in one batch, where they
// fit; nil: the client is closed.
func (t *Table) JoinAll(all []Caller) []*Waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	waiters := make([]*Waiter, len(all))
	calls := make([]*batch.Call[driver.Request], 0, len(all))
	for i, by := range all {
		w := t.newWaiter(by)
		waiters[i] = w
		t.ready(w, notPinned)
		calls = append(calls, &w.try)
	}
	t.acquires.Submit(calls...)
	return waiters
}

// submit sends an attempt of w. Called under Table.mu.
func (t *Table) submit(w *Waiter, last pinning) {
	t.ready(w, last)
	if !t.prober.tries.add(w) {
		w.by.Submit(&w.try)
	}
}

// ready makes an attempt of w that is about to be sent. Called under Table.mu.
func (t *Table) ready(w *Waiter, last pinning) {
	t.attempts.add(w)
	w.sent = true
	if w.Counts != nil {
		w.Counts.Attempts++
	}
	w.try = batch.Call[driver.Request]{Q: t.newRequest(&w.Ask, last, w.key != nil), Class: class(w.Ask.TTL), Owner: (*attempt)(w)}
	switch {
	case w.key == nil:
	case t.liner != nil:
		w.key.stand(&w.try.Q)
		w.stood = w.key.place.stood
	default:
		w.key.phases(&w.try.Q, w)
	}
	w.before = t.left(w.ID())
	w.by = t.acquires
	if last != notPinned {
		w.by = t.pinned
	}
}

// class puts attempts together that may go in one batch, which has one deadline. Many keys are refreshed together,
// so these may have TTLs of which none is more than twice another.
func class(ttl time.Duration) time.Duration { return 1 << bits.Len64(uint64(ttl)) }

// attempt is a waiter as the owner of its call.
type attempt Waiter

// Patience implements batch.Owner.
func (a *attempt) Patience(time.Duration) time.Duration { return a.Ask.TTL - a.Ask.Margin }

// withdraw takes back the attempt of w, for a caller that has left; false: it is on
// its way, or was answered. Called under Table.mu.
func (t *Table) withdraw(w *Waiter) bool {
	if !w.by.Withdraw(&w.try) {
		return false
	}
	t.attempts.remove(w)
	return true
}

// attempts is a list of the waiters whose attempts were submitted and not answered:
// what Close names if it cannot wait for them. Guarded by Table.mu.
type attempts struct{ first *Waiter }

func (a *attempts) add(w *Waiter) {
	if w.next = a.first; w.next != nil {
		w.next.prev = w
	}
	a.first = w
}

func (a *attempts) remove(w *Waiter) {
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		a.first = w.next
	}
	w.prev, w.next = nil, nil
}

// leave removes a caller that gave up; false: it has been answered.
func (t *Table) leave(w *Waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.got != none || w.err != nil {
		return false
	}
	w.gone = true
	k := w.key
	if k == nil {
		if w.sent && !t.withdraw(w) {
			t.givenUp[w.ID()]++
		}
		return true
	}
	if here := t.heldHere(k.id); here != nil {
		w.Last = here
	} else if w.metOwn || t.left(k.id).Had() {
		w.Last = ByOwnRelease
	} else if k.Mode == key.Queued && w.Last == nil {
		w.Last = &Refusal{} // in the server's queue behind another client
	}
	k.waits(-1)
	if i := slices.Index(k.waiters, w); i >= 0 {
		k.waiters = slices.Delete(k.waiters, i, i+1)
	}
	k.step(key.Event{Kind: key.Left})
	return true
}

// answer ends w's wait. Called under Table.mu.
func (w *Waiter) answer(got grant.Used, err error) {
	w.got, w.err = got, err
	w.ready <- struct{}{}
}

// Answered implements batch.Owner.
func (a *attempt) Answered(r driver.Result, sent, at time.Duration) {
	w := (*Waiter)(a)
	t := w.t
	got, err := t.outcome(w.Ctx, &w.try.Q, &w.Ask, r, sent, at, w.stood)
	if w.key != nil {
		w.key.answered(w.Ctx, w.Ask, got, err, gateOf(&w.try.Q, r), at-sent)
		return
	}
	t.mu.Lock()
	t.slowest.note(at-sent, at)
	t.attempts.remove(w)
	w.sent = false
	if w.Loop != nil && Refused(err) != nil {
		w.Loop.Worked()
	}
	gone := w.gone
	if gone {
		t.givenUpEnds(w.ID())
	}
	if !gone && got == none {
		if pause, again := w.retries(err, sent, at); again {
			w.resend(pause)
			t.mu.Unlock()
			return
		}
		if t.closed && driver.IsSilent(err) {
			err = driver.ErrClosed // as for a caller that left in time
		}
		if t.metOwn(w.ID(), Refused(err), w.before) {
			err = ByOwnRelease // most likely it met that hold
		}
	}
	if !gone {
		w.answer(got, err)
	}
	t.mu.Unlock()
	if gone && got != none {
		got.Grant.EndUnwanted(got.User)
	}
}
