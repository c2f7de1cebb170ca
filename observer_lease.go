package rowlock

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/keys"
)

// watched is one acquire under observation, and then its lease.
type watched struct {
	t     *teller
	ctx   context.Context // of AcquireStart, later of HoldStart too
	key   string
	name  string
	began time.Time // when the acquire began, later when the caller got the lease
	keys.Counts

	// Of the lease. Guarded by Lease.mu.
	holding  bool // HoldStart runs: the end is told after it
	over     bool // the end is told, or will be after HoldStart
	at       time.Time
	err      error
	late     bool
	renewals int
	least    time.Duration
}

// watch tells that an acquire begins; nil: there are no observers.
func (c *Client) watch(ctx context.Context, key string, s settings, try bool) *watched {
	t := c.teller
	if t == nil {
		return nil
	}
	w := &watched{t: t, ctx: ctx, key: key, name: c.nameOf(key), began: time.Now()}
	if t.starts {
		e := AcquireStart{Client: t.name, Key: key, Name: w.name, TTL: s.TTL, Mode: s.Mode, Try: try}
		t.each(func(o *Observer) {
			if o.AcquireStart == nil {
				return
			}
			if next := o.AcquireStart(w.ctx, e); next != nil {
				w.ctx = next
			}
		})
	}
	return w
}

// caller is who asks for a, as what waits for keys sees it. w is nil where there are no observers.
func (w *watched) caller(ctx context.Context, a keys.Ask) keys.Caller {
	if w == nil {
		return keys.Caller{Ctx: ctx, Ask: a}
	}
	return keys.Caller{Ctx: w.ctx, Ask: a, Counts: &w.Counts}
}

// end tells that the acquire has ended, and follows the lease from then on.
func (w *watched) end(l *Lease, err error) {
	if w == nil {
		return
	}
	t, now := w.t, time.Now()
	if t.ends {
		e := AcquireEnd{
			Client: t.name, Key: w.key, Name: w.name, Lease: l, Err: err, Waited: now.Sub(w.began),
			Ahead: w.Ahead, Attempts: w.Attempts, Local: l != nil && l.local,
		}
		t.each(func(o *Observer) {
			if o.AcquireEnd != nil {
				o.AcquireEnd(w.ctx, e)
			}
		})
	}
	if l == nil {
		return
	}
	w.began = now
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = w
	if l.ended != nil { // lost meanwhile
		w.at = time.Now()
		w.overLocked(l, l.ended, false)
	}
}

// holdStarts tells that a function begins under the lease. It makes the parent of the function's
// context.
func (l *Lease) holdStarts(ctx context.Context) context.Context {
	t := l.c.teller
	if t == nil || !t.holds {
		return ctx
	}
	l.mu.Lock()
	w := l.watched
	if w == nil || w.over {
		l.mu.Unlock()
		return ctx
	}
	w.holding = true
	l.mu.Unlock()
	held := ctx
	defer func() { // also if an observer ends the goroutine
		l.mu.Lock()
		defer l.mu.Unlock()
		w.holding = false
		w.ctx = &heldContext{Context: held, acquired: w.ctx}
		if w.over {
			w.tellLocked(l)
		}
	}()
	t.each(func(o *Observer) {
		if o.HoldStart == nil {
			return
		}
		if next := o.HoldStart(held, l); next != nil {
			held = next
		}
	})
	return held
}

// heldContext is the context of HoldStart with the values of that of AcquireStart.
type heldContext struct {
	context.Context
	acquired context.Context
}

// Value implements context.Context.
func (c *heldContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.acquired.Value(key)
}

// endsLocked notes that the lease has ended, with err. The end of one that was released is told
// when that is answered. Called under Lease.mu.
func (w *watched) endsLocked(l *Lease, err error, handedOff bool) {
	w.at = time.Now()
	if err != ErrReleased || handedOff {
		w.overLocked(l, err, false)
	}
}

// overLocked tells the end of the lease, once. Called under Lease.mu.
func (w *watched) overLocked(l *Lease, err error, late bool) {
	if w.over {
		return
	}
	if err == ErrReleased {
		err = nil
	}
	w.over, w.err, w.late = true, err, late
	if !w.holding {
		w.tellLocked(l)
	}
}

func (w *watched) tellLocked(l *Lease) {
	if w.t.leases {
		w.t.add(&event{kind: leaseEnded, ended: l}, true)
	}
}

// endEvent is what LeaseEnd is told of l, of which nothing changes once its end is in the queue.
func (l *Lease) endEvent() (context.Context, LeaseEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watched
	return context.WithoutCancel(w.ctx), LeaseEnd{
		Client: w.t.name, Key: w.key, Name: w.name, Lease: l, Token: l.token, At: w.at, Held: w.at.Sub(w.began),
		Err: w.err, Renewals: w.renewals, Least: w.least, Late: w.late,
	}
}

// ReleaseAnswered implements grant.Watcher.
func (u *user) ReleaseAnswered(reason grant.Reason, cause error, late bool) {
	l := (*Lease)(u)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watched
	if w == nil {
		return
	}
	err := error(nil)
	if reason != grant.Released {
		err = lostError(l.g.Hold.Key, l.token, reason, cause)
	}
	w.overLocked(l, err, late)
}

// RenewalAnswered implements grant.Watcher.
func (u *user) RenewalAnswered(r grant.Renewal) {
	l := (*Lease)(u)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watched
	if w == nil || w.over {
		return
	}
	if r.Err == nil && r.Lost == 0 {
		if w.renewals == 0 || r.Left < w.least {
			w.least = r.Left
		}
		w.renewals++
	}
	t := w.t
	if !t.renewals {
		return
	}
	err := r.Err
	if r.Lost != 0 {
		err = lostError(l.g.Hold.Key, l.token, r.Lost, r.Err)
	}
	t.add(&event{kind: leaseRenewed, renewed: &Renewed{
		Client: t.name, Key: w.key, Name: w.name, Token: l.token, At: time.Now(),
		Took: r.Took, Left: r.Left, Trust: r.Trust, TTL: l.g.Terms.TTL, Err: err,
	}}, false)
}
