package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// session is a connection that can hold the lock of one row. One goroutine uses it
// at a time.
type session struct {
	c       *conn
	seconds int       // its wait_timeout
	heard   time.Time // before the last statement that was answered: it lived then
	rested  time.Time // when it was put to rest
}

// lookAfter is how long a session must have rested to be looked at before it is used.
// A dead one costs its attempt another try, no more.
const lookAfter = time.Second

// sessions are those of a Store. They are beyond Options.Connections.
type sessions struct {
	s      *Store
	trying chan struct{} // one for each acquire under way

	mu     sync.Mutex
	idle   []*session // the one that rested longest first
	open   int        // all of them
	closed bool
	spare  spare
}

func newSessions(s *Store) *sessions {
	return &sessions{s: s, trying: make(chan struct{}, maxSpare), spare: spare{recall: recall}}
}

// room is how many sessions the pool has room for, and how many connections it
// allows (0: any number).
func (p *sessions) room() (most, room int) {
	most = p.s.db.Stats().MaxOpenConnections
	if most == 0 {
		return 0, math.MaxInt
	}
	return most, most - p.s.options.Connections - spareConnections
}

// secondsOf is the wait_timeout for a TTL; its largest value is a year.
func secondsOf(ttl time.Duration) int {
	return int(min(max((ttl+time.Second-1)/time.Second, 1), 365*24*3600))
}

// leave gives up a place among the acquires under way; see place.
func (p *sessions) leave() { <-p.trying }

// next gives a session without any lock.
func (p *sessions) next(ctx context.Context, seconds int) (*session, error) {
	for {
		n, err := p.pop()
		if err != nil {
			return nil, err
		}
		if n == nil {
			return p.start(ctx, seconds)
		}
		if n.fresh() && (time.Since(n.rested) < lookAfter || n.c.alive(ctx)) && (n.seconds == seconds || n.last(ctx, seconds) == nil) {
			return n, nil
		}
		p.drop(n)
	}
}

// pop takes a session at rest, or, if there is none, the right to start one.
func (p *sessions) pop() (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed()
	}
	if last := len(p.idle) - 1; last >= 0 {
		n := p.idle[last]
		p.idle = p.idle[:last]
		p.spare.note(p.inUse())
		return n, nil
	}
	if most, room := p.room(); p.open >= room {
		return nil, &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: strategy for-update needs a connection for each held key: the pool allows %d, %d of them for keys, which are all in use: SetMaxOpenConns to more",
			most, max(room, 0))}
	}
	p.open++
	p.spare.note(p.inUse())
	return nil, nil
}

// start opens a session; pop has counted it.
func (p *sessions) start(ctx context.Context, seconds int) (n *session, err error) {
	defer func() {
		if err != nil {
			p.mu.Lock()
			p.open--
			p.mu.Unlock()
		}
	}()
	p.s.control.keep(ctx) // must be older than what it may have to KILL
	c, err := p.s.open(ctx)
	if errors.Is(err, errPoolBusy) {
		err = &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: strategy for-update needs a connection for each held key: %w", err)}
	}
	if err != nil {
		return nil, err
	}
	n = &session{c: c, heard: c.opened}
	if err = n.prepare(ctx, seconds); err != nil {
		c.close()
		return nil, notSent("prepare a session", err)
	}
	return n, nil
}

// prepare brings a library's connection to what a session needs. READ COMMITTED:
// every statement sees what was committed before it, and a locking read of one row
// locks nothing else. MariaDB has timeouts of its own for a transaction that rests,
// which would end a hold; MySQL takes the /*M! */ for a comment:
// https://mariadb.com/kb/en/comment-syntax/
func (n *session) prepare(ctx context.Context, seconds int) error {
	err := n.exec(ctx, fmt.Sprintf("SET SESSION autocommit=0, wait_timeout=%d%s /*M!100600 ,idle_transaction_timeout=0,idle_readonly_transaction_timeout=0,idle_write_transaction_timeout=0 */",
		seconds, committed))
	if err != nil {
		return err
	}
	n.seconds = seconds
	type settings struct {
		wait       int
		autocommit bool
	}
	got, err := ask(ctx, n, "SELECT @@SESSION.wait_timeout,@@SESSION.autocommit", func(rows *sql.Rows) (s settings, err error) {
		err = rows.Scan(&s.wait, &s.autocommit)
		return s, err
	})
	if err == nil && (len(got) != 1 || got[0] != settings{wait: seconds}) {
		err = fmt.Errorf("%w: the server, or a proxy before it, does not let wait_timeout and autocommit be set", driver.ErrNotSupported)
	}
	return err
}

// ahead starts a session in the background, if none is there; done is closed when it
// has been tried.
func (p *sessions) ahead(ttl time.Duration) (done chan struct{}) {
	done = make(chan struct{})
	n, err := p.pop()
	if n != nil {
		p.put(n)
	}
	if n != nil || err != nil {
		close(done)
		return done
	}
	p.s.background.Add(1)
	go func() {
		defer p.s.background.Done()
		defer close(done)
		ctx, cancel := context.WithTimeout(p.s.life, fillWait)
		defer cancel()
		if n, err := p.start(ctx, secondsOf(ttl)); err == nil {
			p.put(n)
		}
	}()
	return done
}

// last makes the server end the session when it is silent for that long.
func (n *session) last(ctx context.Context, seconds int) error {
	err := n.exec(ctx, fmt.Sprintf("SET SESSION wait_timeout=%d", seconds))
	if err == nil {
		n.seconds = seconds
	}
	return err
}

func (n *session) exec(ctx context.Context, statement string) error {
	start := time.Now()
	_, err := n.c.exec(ctx, 0, statement)
	n.answered(start, err)
	return err
}

// ask is exec for a statement that returns rows.
func ask[T any](ctx context.Context, n *session, question string, scan func(*sql.Rows) (T, error)) ([]T, error) {
	start := time.Now()
	found, err := query(ctx, n.c, 0, question, scan)
	n.answered(start, err)
	return found, err
}

func (n *session) answered(start time.Time, err error) {
	if e := number(err); err == nil || e != 0 && e != erIdle || errors.Is(err, errBlocked) {
		n.heard = start
	}
}

// fresh: the server has not ended a session at rest yet, nor is about to.
func (n *session) fresh() bool {
	return time.Since(n.rested) < min(time.Duration(n.seconds)*time.Second*3/4, quietFor)
}

// drop closes a session, and with it its lock as soon as the server hears of it.
func (p *sessions) drop(n *session) {
	n.c.close()
	p.mu.Lock()
	p.open--
	p.mu.Unlock()
}

// kill asks the server to end a session. ended: it did so now. gone: there is no
// such session, or there will not be in a moment.
func (p *sessions) kill(ctx context.Context, n *session) (ended, gone bool) {
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	err := p.s.kill(ctx, n.c, "CONNECTION", n.heard)
	return err == nil, err == nil || number(err) == erNoSuchThread
}

// close closes what rests now and what is put back later.
func (p *sessions) close() {
	p.mu.Lock()
	p.closed = true
	if p.spare.timer != nil {
		p.spare.timer.Stop()
	}
	p.mu.Unlock()
	p.closeIdle()
}

// closeIdle closes what rests now.
func (p *sessions) closeIdle() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, n := range idle {
		p.drop(n)
	}
}
