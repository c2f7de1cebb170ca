package conn

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// watchdog ends statements that stay unanswered. It is one timer for all of them,
// which is left alone while statements are answered in time: arming a timer wakes
// the runtime's poller, which a statement of half a millisecond would feel.
type watchdog struct {
	db    *DB
	mu    sync.Mutex
	waits map[*watch]struct{}
	timer *time.Timer
	armed time.Time // when the timer fires; zero: it does not

	silent []*watch // to be asked about; see silence.go
	asking bool
}

// watch is the watch over one statement. A time that is zero does not come, or has
// come.
type watch struct {
	c     *Conn
	heard time.Time     // of c
	kill  time.Time     // when the statement is ended by KILL QUERY
	done  chan struct{} // nil: no KILL was sent; closed when it was answered, or given up
	open  bool          // then: it was not answered, so it may still come
	other bool          // then: it was not sent, because the session did something else

	start    time.Time
	ask      time.Time          // when the statement is asked about
	patience time.Duration      // until then, since the last time
	asked    bool               // it was asked about before
	silent   bool               // the connection was closed because it is dead
	cut      context.CancelFunc // makes the driver close the connection
}

// next is the earliest of the times; zero: none comes.
func (e *watch) next() (next time.Time) {
	for _, t := range [...]time.Time{e.kill, e.ask} {
		if next.IsZero() || !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

func newWatchdog(d *DB) *watchdog {
	return &watchdog{db: d, waits: make(map[*watch]struct{})}
}

// watch ends the statement that is about to be sent on c by KILL QUERY if it is not
// answered within the bound. After patience, if it is not 0, the server is asked about
// the statement, and c closed by cut if it is found dead. The caller calls stop as soon
// as it has its answer.
func (w *watchdog) watch(c *Conn, now time.Time, bound, patience time.Duration, cut context.CancelFunc) *watch {
	e := &watch{c: c, heard: c.Heard, start: now, patience: patience, cut: cut}
	if bound > 0 {
		e.kill = now.Add(bound)
	}
	if patience > 0 {
		e.ask = now.Add(patience)
	}
	next := e.next()
	if next.IsZero() {
		return e
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits[e] = struct{}{}
	w.arm(now, next)
	return e
}

// arm sees to it that the timer fires by then. The caller has the lock.
func (w *watchdog) arm(now, then time.Time) {
	if !w.armed.IsZero() && !w.armed.After(then) {
		return
	}
	w.armed = then
	if w.timer == nil {
		w.timer = time.AfterFunc(then.Sub(now), w.fire)
	} else {
		w.timer.Reset(then.Sub(now))
	}
}

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.armed = time.Time{}
	for e := range w.waits {
		if !e.kill.IsZero() && !e.kill.After(now) {
			e.kill = time.Time{}
			e.done = make(chan struct{})
			go w.send(e)
		}
		if !e.ask.IsZero() && !e.ask.After(now) {
			e.ask = time.Time{}
			w.silent = append(w.silent, e)
			if !w.asking {
				w.asking = true
				w.db.Work(w.ask)
			}
		}
		if next := e.next(); !next.IsZero() {
			w.arm(now, next)
		}
	}
}

func (w *watchdog) send(e *watch) {
	defer close(e.done)
	ctx, cancel := context.WithTimeout(context.Background(), KillWait)
	defer cancel()
	err := w.db.Kill(ctx, e.c, "QUERY", e.heard)
	e.open, e.other = errors.Is(err, ErrKillUnanswered), errors.Is(err, ErrNotOurs)
}

// stop is called when the statement was answered. A KILL that is on its way must
// not hit the next statement of the connection, so its own answer is waited for;
// where that does not come the connection is not used again. It reports whether a
// KILL was sent.
func (w *watchdog) stop(ctx context.Context, e *watch) bool {
	w.mu.Lock()
	delete(w.waits, e)
	done := e.done
	e.c.Broken = e.c.Broken || e.silent
	w.mu.Unlock()
	switch {
	case done == nil:
		return false
	case e.c.Broken:
		return true
	}
	select {
	case <-done:
		if e.open {
			e.c.Broken = true
		}
	case <-ctx.Done():
		e.c.Broken = true
	}
	return true
}

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
	ctl, err := d.Control.Get(ctx)
	if err != nil {
		return err
	}
	defer ctl.Put()
	err = d.killFrom(ctx, ctl, target.ID, target.Server, what, heard, !target.pool.Holds)
	switch other := errors.Is(err, ErrOtherServer); {
	case err == nil:
		d.CannotKill.Store(false)
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

// killFrom sends the KILL on the control connection ctl. A session is ended only if
// it is seen to run a statement on the lock tables, or nothing; but shown false says
// that what runs in it may be the caller's.
func (d *DB) killFrom(ctx context.Context, ctl *Conn, id uint64, server, what string, heard time.Time, shown bool) error {
	if ctl.Server != server {
		return fmt.Errorf("%w: %s is not %s", ErrOtherServer, ctl.Server, server)
	}
	if ctl.ready.After(heard) {
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

// EndSession ends, in the background and at most for killWait, the session of a
// connection that was closed while its statement may still run. Close waits for it.
func (d *DB) EndSession(c *Conn) {
	heard := c.Heard
	d.Work(func() {
		ctx, cancel := context.WithTimeout(context.Background(), KillWait)
		defer cancel()
		_ = d.Kill(ctx, c, "CONNECTION", heard)
	})
}
