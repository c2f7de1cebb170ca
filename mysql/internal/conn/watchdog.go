package conn

import (
	"context"
	"errors"
	"sync"
	"time"
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
	usual    time.Time          // when it would be asked about if the server did not keep it waiting for its turn
	ask      time.Time          // when the statement is asked about
	patience time.Duration      // until then, since the last time
	asked    bool               // it was asked about before
	judged   time.Time          // when that was last
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
// answered within the bound. After patience, if it is not 0, and c.Queued the server is asked about
// the statement, and c closed by cut if it is found dead. The caller calls stop as soon
// as it has its answer.
func (w *watchdog) watch(c *Conn, now time.Time, bound, patience time.Duration, cut context.CancelFunc) *watch {
	e := &watch{c: c, heard: c.Heard, start: now, usual: now.Add(patience), cut: cut}
	if bound > 0 {
		e.kill = now.Add(bound)
	}
	if patience > 0 {
		e.patience = c.Queued + patience
		e.ask = now.Add(e.patience)
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

// hurry lets statements that wait for long be asked about now: one connection was found dead, or leads to another server
// than new ones do, and so may theirs. The caller has the lock.
func (w *watchdog) hurry(now time.Time) {
	for e := range w.waits {
		if e.ask.IsZero() || now.Sub(e.judged) < SilentFor { // it is being asked about, or was a moment ago
			continue
		}
		soon := e.usual
		if soon.Before(now) {
			soon = now
		}
		if soon.Before(e.ask) {
			e.ask = soon
			w.arm(now, soon)
		}
	}
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
