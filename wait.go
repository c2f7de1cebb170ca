package rowlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/undo"
)

// waiter is one caller of Acquire or TryAcquire, and its attempt.
type waiter struct {
	c   *Client
	key *keyEntry       // nil: TryAcquire
	ctx context.Context // the caller's; only for what is logged
	set settings
	try batch.Call[driver.Request]
	by  *batch.Batcher[driver.Request] // which sends it

	before undo.Left // what this client had left of the key when the attempt was sent

	// Of TryAcquire. Guarded by Client.mu.
	sent      bool // the attempt, and it was not answered
	silence   call.Silence
	maybeHeld bool          // an earlier attempt of this caller may hold the key: it is being undone
	pinned    pinning       // what the last attempt said of the key
	first     time.Duration // when the first attempt was sent

	// Guarded by Client.mu.
	watched *watched      // nil: there are no observers
	since   time.Duration // when the caller began to wait

	gone   bool // the caller has left
	lease  *Lease
	err    error
	last   error // why the key could not be had last
	metOwn bool  // that is by a hold of this client's

	noRoom chan struct{} // gets a value when there is no connection left for the key; nil: the caller waits on
	full   error         // says so

	prev, next *waiter // in Client.attempts

	ready chan struct{} // gets one value with lease or err
}

// newWaiter reuses one that was answered. (Not by a sync.Pool: a channel belongs
// to its testing/synctest bubble, as the client does.) Called under Client.mu.
func (c *Client) newWaiter(ctx context.Context, s settings, by *watched) *waiter {
	var w *waiter
	if n := len(c.free); n > 0 {
		w = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		w = &waiter{c: c, ready: make(chan struct{}, 1)}
	}
	w.ctx, w.set = ctx, s
	if by != nil {
		w.ctx, w.watched = by.ctx, by
	}
	return w
}

// maxFree bounds the waiters kept for reuse.
const maxFree = 64

// wait gets key for one caller.
func (c *Client) wait(ctx context.Context, name string, s settings, once bool, by *watched) (*Lease, error) {
	w := c.join(ctx, name, s, once, by)
	if w == nil {
		return nil, fmt.Errorf("acquire %q: %w", name, ErrClosed)
	}
	lease, err := c.await(ctx, name, w)
	if err != nil && once {
		err = c.nameHolder(ctx, keyID{name, s.Mode}, s.Slots, err)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", name, err)
	}
	return lease, nil
}

// waitInRoom gets the key for a caller that has others. It ends when there is no connection
// left for it, with that error.
func (c *Client) waitInRoom(ctx context.Context, k *groupKey) (*Lease, error) {
	w := c.join(ctx, k.name, k.set, false, k.watched)
	if w == nil {
		return nil, fmt.Errorf("acquire %q: %w", k.name, ErrClosed)
	}
	c.mu.Lock()
	w.noRoom = make(chan struct{}, 1)
	c.mu.Unlock()
	return c.await(ctx, k.name, w)
}

// await waits for the answer to w, or until ctx or the client ends.
func (c *Client) await(ctx context.Context, name string, w *waiter) (*Lease, error) {
	var left error
	select {
	case <-w.ready:
	case <-ctx.Done():
		if c.leave(w) {
			left = waitError(ctx, c.waitCause(w.last))
		} else {
			<-w.ready // answered at the same moment
		}
	case <-c.open.Done():
		if c.leave(w) {
			left = ErrClosed
		} else {
			<-w.ready
		}
	case <-w.noRoom:
		if c.leave(w) {
			left = w.full
		} else {
			<-w.ready
		}
	}
	if left != nil {
		return nil, left // its attempt may be on its way: not reused
	}
	lease, err := w.lease, w.err
	c.mu.Lock()
	if len(c.free) < maxFree {
		*w = waiter{c: c, ready: w.ready}
		c.free = append(c.free, w)
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c.logs.Step(ctx, "acquired", &lease.g.Hold, lease.token)
	return lease, nil
}

// join begins a wait; nil: the client is closed.
func (c *Client) join(ctx context.Context, name string, s settings, once bool, by *watched) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	w := c.newWaiter(ctx, s, by)
	if s.Mode == driver.Shared {
		if l := c.joinGrant(keyID{name, s.Mode}, s.Terms); l != nil {
			w.answer(l, nil)
			return w
		}
	}
	if once {
		if err := c.othersFirst(keyID{name, s.Mode}, s); err != nil {
			w.answer(nil, err)
		} else {
			c.submit(name, w, notPinned)
		}
		return w
	}
	k := c.key(keyID{name, s.Mode})
	w.key, w.since = k, c.now()
	if by != nil {
		by.ahead = len(k.waiters)
	}
	k.waiters = append(k.waiters, w)
	k.waits(1)
	k.act(k.Step(key.Event{Kind: key.Join}, w.since, k.env()))
	return w
}

// joinAll makes one attempt for each of keys that leave together: in one batch, where they
// fit; nil: the client is closed.
func (c *Client) joinAll(ctx context.Context, keys []groupKey) []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	waiters := make([]*waiter, len(keys))
	calls := make([]*batch.Call[driver.Request], 0, len(keys))
	for i, k := range keys {
		w := c.newWaiter(ctx, k.set, k.watched)
		waiters[i] = w
		if err := c.othersFirst(keyID{k.name, k.set.Mode}, k.set); err != nil {
			w.answer(nil, err)
			continue
		}
		c.ready(k.name, w, notPinned)
		calls = append(calls, &w.try)
	}
	c.acquires.Submit(calls...)
	return waiters
}

// submit sends an attempt of w. Called under c.mu.
func (c *Client) submit(name string, w *waiter, last pinning) {
	c.ready(name, w, last)
	if !c.prober.tries.add(w) {
		w.by.Submit(&w.try)
	}
}

// ready makes an attempt of w that is about to be sent. Called under c.mu.
func (c *Client) ready(name string, w *waiter, last pinning) {
	c.attempts.add(w)
	w.sent = true
	if w.watched != nil {
		w.watched.attempts++
	}
	w.try = batch.Call[driver.Request]{Q: c.newRequest(name, w.set, last, w.key != nil), Class: w.set.TTL, Owner: (*attempt)(w)}
	if w.key != nil {
		w.key.phases(&w.try.Q, w)
	}
	w.before = c.left(w.id())
	c.showTicket(&w.try.Q, w.key)
	if w.key != nil && w.key.first(c.now()) {
		w.try.Q.Fair = false
	}
	w.by = c.acquires
	if last != notPinned {
		w.by = c.pinned
	}
}

// attempt is a waiter as the owner of its call.
type attempt waiter

// Patience implements batch.Owner.
func (a *attempt) Patience(time.Duration) time.Duration { return a.set.TTL - a.set.Margin }

// withdraw takes back the attempt of w, for a caller that has left; false: it is on
// its way, or was answered. Called under c.mu.
func (c *Client) withdraw(w *waiter) bool {
	if !w.by.Withdraw(&w.try) {
		return false
	}
	c.attempts.remove(w)
	return true
}

// attempts is a list of the waiters whose attempts were submitted and not answered:
// what Close names if it cannot wait for them. Guarded by Client.mu.
type attempts struct{ first *waiter }

func (a *attempts) add(w *waiter) {
	if w.next = a.first; w.next != nil {
		w.next.prev = w
	}
	a.first = w
}

func (a *attempts) remove(w *waiter) {
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
func (c *Client) leave(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.lease != nil || w.err != nil {
		return false
	}
	w.gone = true
	k := w.key
	if k == nil {
		if w.sent && !c.withdraw(w) {
			c.givenUp[w.id()]++
		}
		return true
	}
	if here := c.heldHere(k.id); here != nil {
		w.last = here
	} else if w.metOwn || c.left(k.id).Had() {
		w.last = ErrReleasing
	} else if k.Mode == key.Queued && w.last == nil {
		w.last = &HeldError{Key: k.id.name} // in the server's queue behind another client
	}
	k.waits(-1)
	if i := slices.Index(k.waiters, w); i >= 0 {
		k.waiters = slices.Delete(k.waiters, i, i+1)
	}
	k.step(key.Event{Kind: key.Left})
	return true
}

// id is what w waits for.
func (w *waiter) id() keyID { return keyID{w.try.Q.Key, w.set.Mode} }

// answer ends w's wait. Called under Client.mu.
func (w *waiter) answer(l *Lease, err error) {
	w.lease, w.err = l, err
	w.ready <- struct{}{}
}

// Answered implements batch.Owner.
func (a *attempt) Answered(r driver.Result, sent, got time.Duration) {
	w := (*waiter)(a)
	c := w.c
	lease, err := c.outcome(w.ctx, &w.try.Q, w.set, r, sent, got)
	if w.key != nil {
		w.key.answered(w.ctx, w.set, lease, err, gateOf(&w.try.Q, r), got-sent)
		return
	}
	c.mu.Lock()
	c.attempts.remove(w)
	w.sent = false
	gone := w.gone
	if gone {
		c.givenUpEnds(w.id())
	}
	if !gone && lease == nil {
		if pause, again := w.retries(err, sent, got); again {
			w.resend(pause)
			c.mu.Unlock()
			return
		}
		if c.closed && driver.IsSilent(err) {
			err = ErrClosed // as for a caller that left in time
		}
		if c.metOwn(w.id(), refusal(err), w.before) {
			err = ErrReleasing // most likely it met that hold
		}
	}
	if !gone {
		w.answer(lease, err)
	}
	c.mu.Unlock()
	if gone && lease != nil {
		lease.g.EndUnwanted((*user)(lease))
	}
}
