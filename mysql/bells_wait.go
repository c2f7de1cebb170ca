package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/driver"
)

const (
	// bellSlice is how many seconds a waiter stands in line before it looks at the row:
	// a key that an operator freed by force, or whose holder stands still, rings no
	// bell. It looks after one second at first, when nothing is known of the hold yet,
	// and when the hold ends so soon unless renewed.
	bellSlice = 2

	// The waiter in front looks as the engine's probes do: often at first, then every
	// lastLook. The waiters of a Store share that pace.
	firstLook, lastLook = 2 * time.Millisecond, 70 * time.Millisecond
)

// stand is one waiter of a key, who has a session.
type stand struct {
	*bells
	e      *bell
	r      driver.Request
	begin  func()
	front  bool // it has the bell
	killed bool // or may have it: a GET_LOCK was ended
}

// wait is AcquireWait. Without a session, or with one that fails, the waiter is told
// to wait without a bell.
func (b *bells) wait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	e, err := b.get(ctx, r.TTL)
	if err != nil {
		return driver.Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	w := &stand{bells: b, e: e, r: r, begin: begin}
	result, err := w.run(ctx)
	if result.Status == driver.Granted && w.front && !e.c.broken {
		b.keep(e, r)
		return result, nil
	}
	if w.front || w.killed {
		b.letGo(e)
	}
	if err != nil && ctx.Err() == nil {
		b.failed()
		e.c.broken = true
	}
	b.put(e)
	switch {
	case err == nil:
		return result, nil
	case b.life.Err() != nil:
		return driver.Result{}, errClosed()
	case ctx.Err() != nil:
		return driver.Result{}, notSent(b.l.what("wait"), ctx.Err())
	}
	return driver.Result{}, errNoBell(err)
}

// errNoBell says to wait without a bell.
func errNoBell(why error) error {
	err := driver.ErrNoPlace
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: %w", err)}
}

// run waits for the bell and then for the key. Its error says that nothing was
// applied.
func (w *stand) run(ctx context.Context) (r driver.Result, err error) {
	for seconds := 1; !w.front; {
		if w.front, err = w.line(ctx, seconds); err != nil {
			return r, err
		}
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if w.front {
			break
		}
		left, err := w.look(ctx)
		if err == nil && left <= 0 {
			if r, err = w.take(ctx); err == nil && r.Status != driver.Held {
				return r, nil
			}
			left = r.Left
		}
		if err != nil {
			return r, err
		}
		if seconds = bellSlice; left < bellSlice*time.Second {
			seconds = 1
		}
	}
	w.heads.Add(1)
	defer w.heads.Add(-1)
	for pace := firstLook; ; {
		if r, err = w.take(ctx); err != nil || r.Status != driver.Held {
			return r, err
		}
		// It was somebody who did not come by the bell, or MinHold keeps the key.
		for left := max(r.Left, 1); left > 0; {
			if !sleep(ctx, min(pace/2+rand.N(pace), left)) {
				return driver.Result{}, ctx.Err()
			}
			if left, err = w.look(ctx); err != nil {
				return driver.Result{}, err
			}
			pace = min(2*pace, lastLook*time.Duration(w.heads.Load()))
		}
	}
}

// line stands in line for the bell, for a few seconds or until ctx ends, and tells
// whether it came. A waiter that leaves is taken out by KILL QUERY, so that the
// session can be used again; where that is not possible it leaves at the end of its
// slice.
func (w *stand) line(ctx context.Context, seconds int) (rung bool, err error) {
	c := w.e.c
	heard, done, unanswered := c.heard, make(chan struct{}), false
	stay := context.AfterFunc(ctx, func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), killWait)
		defer cancel()
		unanswered = errors.Is(w.l.s.kill(ctx, c, "QUERY", heard), errKillUnanswered)
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(seconds)*time.Second+bellWait)
	defer cancel()
	var found []sql.NullInt64
	_, err = c.once(ctx, 0, func(ctx context.Context) error {
		found, err = collect(ctx, c.sc, bellOf(w.l.table, w.r.Key, seconds), scanOne[sql.NullInt64])
		return err
	})
	w.killed = !stay()
	if w.killed {
		<-done // it must not hit the next statement
		c.broken = c.broken || unanswered
	}
	switch n := number(err); {
	case n == erKilled:
		return false, nil
	case n == 0 && err != nil:
		c.lose(err)
		return false, err
	case err != nil:
		return false, err
	case len(found) != 1, !found[0].Valid && !w.killed:
		return false, fmt.Errorf("%w: GET_LOCK gives no answer", driver.ErrNotSupported)
	}
	return found[0].Int64 == 1, nil
}

// bellOf stands in line for the bell of a key. The names are those of the whole
// server, without regard to case and at most 64 characters.
func bellOf(table, key string, seconds int) string {
	return newText(200).add("SELECT GET_LOCK(CONCAT('rowlock:',LEFT(SHA2(CONCAT(DATABASE(),'.").add(table).add(".',").
		key(key).add("),256),40)),").us64(int64(seconds)).add(")").String()
}

// setBell makes the server end the session when it is silent for that long, but not
// while it stands in line. Each server reads its own comment only:
// https://mariadb.com/kb/en/comment-syntax/
func setBell(seconds int) string {
	return fmt.Sprintf("SET SESSION wait_timeout=%d /*!80000 ,max_execution_time=0 */ /*M!100600 ,max_statement_time=0 */", seconds)
}

// look reads how long the key is not free yet.
func (w *stand) look(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bellWait)
	defer cancel()
	rows, err := w.l.rows(ctx, w.e.c, 1, func(int) string { return w.r.Key })
	return rows[w.r.Key].left, err
}

// take tries to take the key. A refusal proves that nothing was applied, so the
// next try has the same hold ID. A caller who gives up meanwhile does not cut it
// short: the outcome would be unknown.
func (w *stand) take(ctx context.Context) (driver.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.r.TTL)
	defer cancel()
	a := attempt{leases: w.l, reqs: []driver.Request{w.r}, results: make([]driver.Result, 1)}
	w.begin()
	switch err := a.run(ctx, w.e.c); {
	case err == nil:
		return a.results[0], nil
	case w.e.c.broken && driver.IsNotApplied(err):
		return driver.Result{}, err // the session had died
	default:
		return driver.Result{Err: err}, nil
	}
}
