package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// killWait bounds a KILL: longer than that its answer is not worth waiting for.
const killWait = time.Second

var errCannotKill = errors.New("KILL is not possible here")

// ender ends a statement that stays unanswered.
type ender struct {
	c     *conn
	timer *time.Timer
	done  chan struct{} // closed when the KILL was answered, or given up
	ok    atomic.Bool   // the server acknowledged the KILL
}

// endAfter ends the statement that is about to be sent on c by KILL QUERY if it
// is not answered within d. The caller calls stop as soon as it has its answer.
func (c *conn) endAfter(d time.Duration) *ender {
	e := &ender{c: c, done: make(chan struct{})}
	since := time.Now()
	e.timer = time.AfterFunc(d, func() {
		defer close(e.done)
		ctx, cancel := context.WithTimeout(context.Background(), killWait)
		defer cancel()
		e.ok.Store(c.s.kill(ctx, c, "QUERY", since) == nil)
	})
	return e
}

// stop is called when the statement was answered. A KILL that is on its way must
// not hit the next statement of the connection, so its own answer is waited for;
// where that does not come the connection is not used again. It tells whether a
// KILL was sent.
func (e *ender) stop(ctx context.Context) bool {
	if e.timer.Stop() {
		return false
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		e.c.broken = true
	}
	return true
}

// kill ends the running statement (QUERY) or the session (CONNECTION) of target
// from the control connection. KILL of one's own sessions needs no privilege.
//
// A connection number means something only on one server between two of its
// starts: on another, or after a restart, it is a stranger's. The control
// connection proves both by itself: it reached the same server, and it was open
// before the statement was sent and still is.
func (s *Store) kill(ctx context.Context, target *conn, what string, since time.Time) error {
	ctl, err := s.control.get(ctx)
	if err != nil {
		return err
	}
	defer s.control.put(ctl)
	if ctl.server != target.server {
		s.cannotKill.Store(true)
		return fmt.Errorf("%w: %s is not %s", errCannotKill, ctl.server, target.server)
	}
	if ctl.opened.After(since) {
		return fmt.Errorf("%w: the control connection is younger than the statement", errCannotKill)
	}
	_, err = ctl.exec(ctx, 0, fmt.Sprintf("KILL %s %d", what, target.id))
	switch number(err) {
	case erKillDenied, erSpecificAccess:
		s.cannotKill.Store(true) // a proxy, whose numbers are not the server's
	case 0:
		if err != nil {
			target.broken = true // it may still come
		}
	}
	return err
}

// endSession ends, in the background and at most for killWait, the session of a
// connection that was closed while its statement may still run. Close waits for it.
func (s *Store) endSession(c *conn) {
	since := c.opened
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		ctx, cancel := context.WithTimeout(context.Background(), killWait)
		defer cancel()
		_ = s.kill(ctx, c, "CONNECTION", since)
	}()
}
