package session

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// failure is an attempt whose outcome is not known, or a hold whose release is not.
// Its session is never used again.
type failure struct {
	key     string
	session *conn.Conn // may still live on the server; nil: it is gone
	keeps   bool       // the lease row may say that MinHold keeps the key, or to another run that it is held
	gated   bool       // its gate may stand in a phase of the key
	late    bool       // (3), with a MinHold, was not answered: it may still arrive
	granted bool       // the session had the key: once nobody has, it cannot get it any more

	queuedTo time.Time // until when it may stand in the server's queue; zero: it does not
	until    time.Time
}

// waited reports whether the session was that of a wait for an exclusive hold, whose lock others see.
func (x *failure) waited(m driver.Mode) bool { return m == driver.Exclusive && !x.queuedTo.IsZero() }

// Fail notes what an undo has to do after an error, if there is anything. What
// (3) may have written grants nothing without the session; all that can remain of
// it is MinHold.
func (a *Attempt) Fail(lost bool, err error) error {
	// Or, after a failover, that the hold may be trusted: see serverrun.go.
	keeps := a.sent && (a.r.Keep > 0 || lost)
	if !lost && !keeps && !a.gated {
		return conn.NotSent(a.f.lease.What("acquire"), err)
	}
	x := &failure{key: a.r.Key, keeps: keeps, gated: a.gated, late: a.r.Keep > 0 && a.token == 0, queuedTo: a.queuedTo}
	if lost {
		x.session = a.session
	}
	a.f.note(a.r.ID, x, max(a.r.TTL, a.r.Keep))
	return conn.MaybeApplied(a.f.lease.What("acquire"), err)
}

// note keeps a failure until it was undone, or cannot matter any more.
func (f *ForUpdate) note(id driver.HoldID, x *failure, d time.Duration) {
	now := time.Now()
	x.until = now.Add(2*d + time.Minute)
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, old := range f.failed {
		if now.After(old.until) {
			delete(f.failed, id)
		}
	}
	f.failed[id] = x
}

// undo makes sure that the session of a failure is gone and MinHold taken back.
func (f *ForUpdate) undo(ctx context.Context, q driver.Hold, x *failure) driver.Result {
	f.mu.Lock()
	n, keeps, gated := x.session, x.keeps, x.gated
	f.mu.Unlock()
	var ungated error
	if gated { // first, because nobody can have the key while it stands, and a session may take long to end
		ungated = f.UndoStep(ctx, func(c *conn.Conn) error {
			return conn.Classify(f.lease.What("undo"), f.ungate(ctx, c, q.Key, q.ID))
		})
	}
	if n != nil {
		if _, gone := f.endSession(ctx, n); gone {
			n = nil
		} else if locked, others, err := f.lockedBy(ctx, q); err == nil && !time.Now().Before(x.queuedTo) && (others || x.waited(q.Mode) && !locked) {
			n = nil // it has not got the row, and waits for nothing any more
		} else if err != nil || locked {
			// Whoever has the row: wait_timeout ends the session, see release.
			return driver.Result{Err: conn.MaybeApplied(f.lease.What("undo"), errors.Join(errors.New("the session of the attempt could not be ended yet"), err))}
		} else if x.granted {
			n = nil
		}
	}
	if keeps {
		affected, err := f.takeBack(ctx, q)
		if err != nil {
			return driver.Result{Err: err}
		}
		keeps = affected == 0 && x.late
	}
	if ungated != nil {
		return driver.Result{Err: ungated}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x.session, x.keeps = n, keeps
	if n != nil || keeps {
		return driver.Result{Status: driver.Removed}
	}
	delete(f.failed, q.ID)
	return driver.Result{Status: driver.Released, Final: true}
}

// UndoStep runs f on a connection for releases, and leaves one to releases: undos are one by one, and after an outage there are
// hundreds.
func (f *ForUpdate) UndoStep(ctx context.Context, step func(*conn.Conn) error) error {
	select {
	case f.undoing <- struct{}{}:
		defer func() { <-f.undoing }()
	case <-ctx.Done():
		return conn.NotSent("wait for a connection", ctx.Err())
	}
	return f.db.Step(ctx, f.db.Releases, step)
}

// takeBack ends the MinHold of a hold in the lease row.
func (f *ForUpdate) takeBack(ctx context.Context, q driver.Hold) (affected int64, err error) {
	err = f.UndoStep(ctx, func(c *conn.Conn) error {
		res, err := c.Exec(ctx, f.db.Bound(0), f.revoke(q.Key, q.ID))
		if err == nil {
			affected, err = res.RowsAffected()
		}
		if errors.Is(err, conn.ErrBlocked) {
			err = &driver.Error{NotApplied: true, Err: err}
		}
		return conn.Classify(f.lease.What("undo"), err)
	})
	return affected, err
}

// ungate clears the gate of an attempt, unless another transaction has locked the lease row:
// then it ends by itself.
func (f *ForUpdate) ungate(ctx context.Context, c *conn.Conn, key string, id driver.HoldID) error {
	err := f.lease.ClearGate(ctx, c, key, &id)
	if errors.Is(err, conn.ErrBlocked) {
		return nil
	}
	return err
}

// lockedBy reports whether any session has the row of a hold's key locked, and whether that is another's, which was granted the key.
func (f *ForUpdate) lockedBy(ctx context.Context, q driver.Hold) (locked, others bool, err error) {
	err = f.UndoStep(ctx, func(c *conn.Conn) error {
		states, err := f.read(ctx, c, []string{q.Key})
		s := states[q.Key]
		locked, others = s.locked, s.confirmed && s.ID != q.ID && s.ID != driver.HoldID{}
		return conn.NotSent(f.lease.What("undo"), err)
	})
	return locked, others, err
}
