package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/clock"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Attempt is one attempt to take one key. A test may make its steps one by one: Begin, Lock, Write, Confirm,
// Fail.
type Attempt struct {
	f       *ForUpdate
	r       driver.Request
	session *conn.Conn
	started time.Duration // before anything was sent
	hasRow  bool          // the session may have the row locked
	locked  bool          // (1) and (2) are done
	t0      int64         // the token of the lease row before the grant
	token   int64         // the one that (3) wrote
	wanted  driver.Hint   // as last seen
	inQueue bool          // somebody had the key while this waited in the server's queue

	gated    bool      // a gate may stand that the answer does not tell of
	sent     bool      // (3) was sent, and is not known to have changed nothing
	queuedTo time.Time // until when a lost session may stand in the server's queue; zero: it does not
}

// Acquire takes each key with a session of its own, all at the same time, and those of readers
// and slots without any.
func (f *ForUpdate) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, conn.NotSent(f.lease.What("acquire"), err)
	}
	return split(ctx, reqs, exclusiveRequest, f.acquire, f.acquireShares)
}

func (f *ForUpdate) acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	results := make([]driver.Result, len(reqs))
	parallel(len(reqs), func(i int) { results[i] = f.acquireOne(ctx, reqs[i]) })
	return batchError(ctx, results)
}

// parallel runs f for each of n, side by side.
func parallel(n int, f func(int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// batchError makes one error of a call that its context cut off before any answer.
func batchError(ctx context.Context, results []driver.Result) ([]driver.Result, error) {
	if ctx.Err() == nil {
		return results, nil
	}
	var err error
	for _, r := range results {
		if r.Status != driver.Unknown {
			return results, nil
		}
		if err == nil || !driver.IsNotApplied(r.Err) {
			err = r.Err
		}
	}
	return nil, err
}

// acquireOne takes one key. A session at rest that turns out to be dead is not the
// attempt's fault: it goes on with another. One that is lost while its answer is awaited may have
// locked the row: that is for an undo.
func (f *ForUpdate) acquireOne(ctx context.Context, r driver.Request) driver.Result {
	if h := f.get(r.Key, r.ID); h != nil {
		return f.again(ctx, h)
	}
	a := f.Attempt(r)
	for try := 1; ; try++ {
		switch pinned, err := f.place(ctx, r); {
		case err != nil:
			return driver.Result{Err: f.noRoom(a.Fail(false, err))}
		case pinned:
			return driver.Result{Status: driver.Pinned, Gated: a.gated}
		}
		n, err := a.Begin(ctx)
		if err != nil {
			f.leave()
			return driver.Result{Err: f.noRoom(a.Fail(false, err))}
		}
		result, err := a.Run(ctx)
		f.leave()
		if err == nil && result.Status == driver.Granted {
			return result
		}
		died := n.Broken
		n.Put()
		if conn.IsElsewhere(err) {
			f.db.Moved()
		}
		if err == nil && result.Err == nil {
			f.refused(ctx, r, result, a.wanted)
			result.Gated = result.Gated || a.gated // by the try before
			return result
		}
		if err == nil {
			err = result.Err
		}
		lost := died && (a.sent || !f.sessionOver(ctx, a, err))
		if died && !lost && try < 3 && ctx.Err() == nil && f.life.Err() == nil {
			continue
		}
		return driver.Result{Err: f.noRoom(a.Fail(lost, err))}
	}
}

// again answers an acquire that finds its own hold: with the stored token, if the
// session still lives.
func (f *ForUpdate) again(ctx context.Context, h *hold) driver.Result {
	stale, err := f.startBeat(h, h.ttl).wait(ctx.Done())
	switch {
	case err != nil:
		return driver.Result{Err: conn.MaybeApplied(f.lease.What("acquire"), err)}
	case stale:
		return driver.Result{Err: conn.MaybeApplied(f.lease.What("acquire"), fmt.Errorf("the hold of %q has ended", h.key))}
	}
	return driver.Result{Status: driver.Granted, Token: h.token, Stored: h.token}
}

// Attempt is one that has not begun.
func (f *ForUpdate) Attempt(r driver.Request) *Attempt {
	return &Attempt{f: f, r: r, started: clock.Now()}
}

// Begin takes a session for the steps. The caller puts it back, unless the key is granted.
func (a *Attempt) Begin(ctx context.Context) (n *conn.Conn, err error) {
	a.hasRow, a.locked, a.token = false, false, 0
	a.session, err = a.f.session(ctx, a.r.TTL)
	return a.session, err
}

// Run makes the steps. Unless it was granted, or the session is broken, the
// session has no lock afterwards.
func (a *Attempt) Run(ctx context.Context) (driver.Result, error) {
	result, err := a.steps(ctx)
	if err == nil && result.Status == driver.Granted && a.session.Broken {
		// It was found silent in the moment of an answer, and is being ended: the row would be free.
		result, err = driver.Result{}, conn.ErrSilent
	}
	if err == nil && result.Status == driver.Granted {
		h := &hold{
			key: a.r.Key, id: a.r.ID, token: a.token, ttl: a.r.TTL, keeps: a.r.Keep > 0, session: a.session, sem: make(chan struct{}, 1),
			granted: a.started, heard: a.started, rowUntil: a.started + a.r.TTL, trusted: a.started + a.r.TTL,
			wanted: a.wanted, seen: clock.Now(),
		}
		a.f.phases.saw(a.r.Key, false)
		if a.f.put(h) {
			return result, nil
		}
		a.session.Broken = true
		return driver.Result{}, conn.ErrClosed()
	}
	if a.session.Broken {
		return result, err
	}
	if rolled := rollBack(ctx, a.session); rolled != nil && err == nil {
		err = rolled // the answer stands, but the lock may too
	}
	return result, err
}
