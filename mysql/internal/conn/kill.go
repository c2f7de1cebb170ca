package conn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// KillWait bounds a KILL: longer than that its answer is not worth waiting for.
const KillWait = time.Second

// Why a KILL was not sent, or has no known outcome.
var (
	ErrCannotKill     = errors.New("KILL is not possible here")
	ErrOtherServer    = fmt.Errorf("%w: the control connection reached another server", ErrCannotKill)
	ErrNotOurs        = fmt.Errorf("%w: the session runs no statement on the lock tables", ErrCannotKill)
	errShared         = fmt.Errorf("%w: a proxy shares sessions among clients", ErrCannotKill)
	ErrKillUnanswered = errors.New("KILL was not answered")
)

// Kill ends the running statement (QUERY) or the session (CONNECTION) of target
// from the control connection. KILL of one's own sessions needs no privilege:
// https://dev.mysql.com/doc/refman/9.7/en/kill.html
//
// A connection number means something only on one server between two of its
// starts: on another, or after a restart, it is a stranger's. The control
// connection proves both by itself: it reached the same server, and it was there
// when target was last heard of, a statement sent then was answered, and it is
// there now. Behind a proxy that proves less; see mayEnd.
//
// Whether KILL is possible at all is concluded from its answers. That the control
// connection reached another server than target says something of a proxy only if
// the two were opened together. Otherwise the address leads elsewhere since; then
// all that is idle is opened anew, so that the next two are of one time.
func (d *DB) Kill(ctx context.Context, target *Conn, what string, heard time.Time) error {
	if what == "CONNECTION" && target.pool.Holds && d.CannotKill.Load() {
		return ErrCannotKill // it may rest in a transaction, or run the caller's statement: nothing shows whose it is
	}
	control := d.controlOf(target.pool)
	if control == nil {
		return ErrCannotKill
	}
	ctl, err := control.Get(ctx)
	if err != nil {
		return err
	}
	defer ctl.Put()
	err = d.killFrom(ctx, ctl, target.ID, target.Server, what, heard, !target.pool.Holds)
	switch other := errors.Is(err, ErrOtherServer); {
	case err == nil:
		d.CannotKill.Store(false)
	case other && d.knownToLead(target): // to another server than new connections do
		ctl.Broken = ctl.Left()
	case killRefused(err), errors.Is(err, errShared), other && target.with(ctl):
		d.CannotKill.Store(true)
	case other:
		ctl.Broken = true
		d.Moved()
	}
	return err
}

// KillSession is kill of the statement of any session of our user, which was last
// heard of at the time heard.
func (d *DB) KillSession(ctx context.Context, id uint64, server string, heard time.Time) error {
	ctl, err := d.Control.Get(ctx)
	if err != nil {
		return err
	}
	defer ctl.Put()
	return d.killFrom(ctx, ctl, id, server, "QUERY", heard, true)
}

// Gone reports whether the server has no session any more with the number of target, whoever ended it. It needs no KILL, and
// no old control connection: after a restart of the server the session is gone too. The user's own sessions are shown without a
// privilege. Behind a proxy a number says nothing.
func (d *DB) Gone(ctx context.Context, target *Conn) bool {
	if d.CannotKill.Load() {
		return false
	}
	ctl, err := d.Control.Get(ctx)
	if err != nil {
		return false
	}
	defer ctl.Put()
	if ctl.Server != target.Server {
		return false
	}
	text := fmt.Sprintf("SELECT CONNECTION_ID()=%d AND NOT EXISTS(SELECT 1 FROM information_schema.processlist WHERE id=%d)", ctl.ID, target.ID)
	for range looks {
		if found, err := Query(ctx, ctl, 0, text, ScanOne[bool]); err != nil || len(found) != 1 || !found[0] {
			return false
		}
	}
	return true
}

// killFrom sends the KILL on the control connection ctl. A session is ended only if
// it is seen to run a statement on the lock tables, or nothing; but shown false says
// that what runs in it may be the caller's.
func (d *DB) killFrom(ctx context.Context, ctl *Conn, id uint64, server, what string, heard time.Time, shown bool) error {
	if ctl.Server != server {
		return fmt.Errorf("%w: %s is not %s", ErrOtherServer, ctl.Server, server)
	}
	if ctl.Ready.After(heard) {
		return fmt.Errorf("%w: the control connection is younger than the last answer", ErrCannotKill)
	}
	if what == "QUERY" || shown {
		if err := d.mayEnd(ctx, ctl, id, what != "QUERY"); err != nil {
			return err
		}
	}
	_, err := ctl.Exec(ctx, 0, fmt.Sprintf("KILL %s %d", what, id))
	if err != nil && Number(err) == 0 {
		return fmt.Errorf("%w: %w", ErrKillUnanswered, err)
	}
	return err
}

func killRefused(err error) bool { n := Number(err); return n == erKillDenied || n == erSpecificAccess }

// EndSession ends, in the background and at most for KillWait, the session of a
// connection that was closed while its statement may still run. Close waits for it. A session
// that does not end counts: see abandonedcommits.go.
func (d *DB) EndSession(c *Conn) {
	heard := c.Heard
	d.Abandoned.Add(c.Server, c.ID)
	d.Work(func() {
		ctx, cancel := context.WithTimeout(context.Background(), KillWait)
		defer cancel()
		_ = d.Kill(ctx, c, "CONNECTION", heard)
	})
}
