package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// killWait bounds a KILL: longer than that its answer is not worth waiting for.
const killWait = time.Second

var (
	errCannotKill     = errors.New("KILL is not possible here")
	errKillUnanswered = errors.New("KILL was not answered")
)

// watchdog ends statements that stay unanswered. It is one timer for all of them,
// which is left alone while statements are answered in time: arming a timer wakes
// the runtime's poller, which a statement of half a millisecond would feel.
type watchdog struct {
	s     *Store
	mu    sync.Mutex
	waits map[*ender]struct{}
	timer *time.Timer
	armed time.Time // when the timer fires; zero: it does not
}

// ender is the watch over one statement.
type ender struct {
	c     *conn
	heard time.Time // of c
	at    time.Time
	done  chan struct{} // closed when the KILL was answered, or given up
	open  bool          // then: it was not answered, so it may still come
}

func newWatchdog(s *Store) *watchdog {
	return &watchdog{s: s, waits: make(map[*ender]struct{})}
}

// watch ends the statement that is about to be sent on c by KILL QUERY if it is
// not answered within d. The caller calls stop as soon as it has its answer.
func (w *watchdog) watch(c *conn, now time.Time, d time.Duration) *ender {
	e := &ender{c: c, heard: c.heard, at: now.Add(d), done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits[e] = struct{}{}
	w.arm(now, e.at)
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
		if e.at.After(now) {
			w.arm(now, e.at)
			continue
		}
		delete(w.waits, e)
		go func() {
			defer close(e.done)
			ctx, cancel := context.WithTimeout(context.Background(), killWait)
			defer cancel()
			e.open = errors.Is(w.s.kill(ctx, e.c, "QUERY", e.heard), errKillUnanswered)
		}()
	}
}

// stop is called when the statement was answered. A KILL that is on its way must
// not hit the next statement of the connection, so its own answer is waited for;
// where that does not come the connection is not used again. It tells whether a
// KILL was sent.
func (w *watchdog) stop(ctx context.Context, e *ender) bool {
	w.mu.Lock()
	_, waiting := w.waits[e]
	delete(w.waits, e)
	w.mu.Unlock()
	if waiting {
		return false
	}
	select {
	case <-e.done:
		if e.open {
			e.c.broken = true
		}
	case <-ctx.Done():
		e.c.broken = true
	}
	return true
}

// kill ends the running statement (QUERY) or the session (CONNECTION) of target
// from the control connection. KILL of one's own sessions needs no privilege:
// https://dev.mysql.com/doc/refman/9.7/en/kill.html
//
// A connection number means something only on one server between two of its
// starts: on another, or after a restart, it is a stranger's. The control
// connection proves both by itself: it reached the same server, and it was there
// when target was last heard of, a statement sent then was answered, and it is
// there now.
func (s *Store) kill(ctx context.Context, target *conn, what string, heard time.Time) error {
	ctl, err := s.control.get(ctx)
	if err != nil {
		return err
	}
	defer s.control.put(ctl)
	if ctl.server != target.server {
		s.cannotKill.Store(true)
		return fmt.Errorf("%w: %s is not %s", errCannotKill, ctl.server, target.server)
	}
	if ctl.ready.After(heard) {
		return fmt.Errorf("%w: the control connection is younger than the last answer", errCannotKill)
	}
	_, err = ctl.exec(ctx, 0, fmt.Sprintf("KILL %s %d", what, target.id))
	switch number(err) {
	case erKillDenied, erSpecificAccess:
		s.cannotKill.Store(true) // a proxy, whose numbers are not the server's
	case 0:
		if err != nil {
			return fmt.Errorf("%w: %w", errKillUnanswered, err)
		}
	}
	return err
}

// endSession ends, in the background and at most for killWait, the session of a
// connection that was closed while its statement may still run. Close waits for it.
func (s *Store) endSession(c *conn) {
	heard := c.heard
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		ctx, cancel := context.WithTimeout(context.Background(), killWait)
		defer cancel()
		_ = s.kill(ctx, c, "CONNECTION", heard)
	}()
}
