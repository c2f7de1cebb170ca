package session

import (
	"context"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// A step (3) that waits for somebody's open transaction occupies one of the acquire
// connections until its bound, and its attempt a place among those under way. One
// costs the others little, a hundred would keep every key of the Store waiting. So
// once one was blocked, keys are looked at first, all of them together: the looks of
// however many keys share the one acquire connection for what may be slow.

// lookFirstFor is for how long after a key was found blocked the steps (3) of all keys
// are preceded by a look, which costs a trip or two.
const lookFirstFor = time.Second

// questionWait bounds a look, which waits for nobody but the server and those who use
// the connection before it.
const questionWait = 10 * time.Second

// lookFirst decides whether to look, and gathers the looks. That is a batch of different questions, each with an answer
// of its own, and those that come while one is under way go with the next: so it is no internal/singleflight.
type lookFirst struct {
	f *ForUpdate

	mu      sync.Mutex
	lasting time.Duration // after a blocked key
	until   time.Time     // looks come first
	began   chan struct{} // closed when that begins
	waiting []*question
	asking  bool // somebody takes the waiting ones to the server
}

// question asks for a look at one key.
type question struct {
	key    string
	token  int64 // of the lease row, where the session has the row lock and has read it
	ours   bool  // the session has the row lock
	done   chan struct{}
	pinned bool
	err    error
}

func newLookFirst(f *ForUpdate) *lookFirst {
	return &lookFirst{f: f, lasting: lookFirstFor, began: make(chan struct{})}
}

// LookFirstFor sets for how long after a blocked key others are looked at first, and ends it for now.
func (f *ForUpdate) LookFirstFor(d time.Duration) {
	f.lookFirst.mu.Lock()
	defer f.lookFirst.mu.Unlock()
	f.lookFirst.lasting, f.lookFirst.until = d, time.Time{}
}

// Looks reports whether looks are on their way to the server.
func (f *ForUpdate) Looks() bool {
	f.lookFirst.mu.Lock()
	defer f.lookFirst.mu.Unlock()
	return f.lookFirst.asking
}

// blocked notes that a key is.
func (c *lookFirst) blocked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !now.Before(c.until) {
		close(c.began)
		c.began = make(chan struct{})
	}
	c.until = now.Add(c.lasting)
}

// required reports whether to look first. If not, the channel is closed when that changes.
func (c *lookFirst) required() (bool, <-chan struct{}) {
	if c.f.db.CannotKill.Load() {
		return true, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.until), c.began
}

// pinned asks without waiting whether a transaction has locked the guard entry of a
// key that nobody holds. A probe of another client may have, for a moment: so it asks
// twice. An acquire that has the row lock gives the token that it has read.
func (c *lookFirst) pinned(ctx context.Context, key string, token int64, ours bool) (bool, error) {
	for try := 1; ; try++ {
		q := &question{key: key, token: token, ours: ours, done: make(chan struct{})}
		if err := c.ask(ctx, q); err != nil || !q.pinned {
			return false, err
		}
		if try == 2 {
			return true, nil
		}
		if !conn.Pause(ctx, row.BusyPause) {
			return false, conn.NotSent(c.f.lease.What("acquire"), ctx.Err())
		}
	}
}

// ask waits for the answer to a look.
func (c *lookFirst) ask(ctx context.Context, q *question) error {
	c.mu.Lock()
	c.waiting = append(c.waiting, q)
	c.asking = c.asking || c.f.work(c.answer)
	begun := c.asking
	c.mu.Unlock()
	if !begun {
		return conn.ErrClosed()
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return conn.NotSent(c.f.lease.What("acquire"), ctx.Err())
	}
}

// answer takes the waiting looks to the server until there are none. It is nobody's
// context that ends it, because each look has a caller of its own.
func (c *lookFirst) answer() {
	for {
		c.mu.Lock()
		part := c.waiting
		c.waiting = nil
		c.asking = len(part) > 0
		c.mu.Unlock()
		if len(part) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(c.f.life, questionWait)
		err := c.f.db.Slow(ctx, func(on *conn.Conn) error {
			return conn.NotSent(c.f.lease.What("acquire"), c.look(ctx, on, part))
		})
		cancel()
		if err != nil && c.f.life.Err() != nil {
			err = conn.ErrClosed()
		}
		for _, q := range part {
			q.err = err
			close(q.done)
		}
	}
}

// look answers the looks. What is held, or has no row, waits for nobody's transaction.
func (c *lookFirst) look(ctx context.Context, on *conn.Conn, part []*question) error {
	var unread []string
	for _, q := range part {
		if !q.ours {
			unread = append(unread, q.key)
		}
	}
	var states map[string]state
	if len(unread) > 0 {
		var err error
		if states, err = c.f.read(ctx, on, unread); err != nil {
			return err
		}
	}
	var entries []row.Row
	for _, q := range part {
		s, ok := states[q.key]
		q.pinned = q.ours || ok && !s.locked && !s.elsewhere && s.kept <= 0 && s.Corrupt == "" // unless it is unlocked
		switch {
		case q.ours:
			entries = append(entries, row.Row{Key: q.key, Token: q.token})
		case q.pinned:
			entries = append(entries, s.Row)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	unlocked, err := c.f.lease.Unlocked(ctx, on, entries)
	if err != nil {
		return err
	}
	for _, q := range part {
		q.pinned = q.pinned && !unlocked[q.key]
	}
	return nil
}

// leave gives up a place among the acquires under way; see place.
func (f *ForUpdate) leave() { <-f.attempts }

// place waits for a place among the acquires under way; see leave. A key that is said
// to be pinned is looked at before, and so is one that finds no place while looks come
// first. pinned: it is, and there is no place.
func (f *ForUpdate) place(ctx context.Context, r driver.Request) (pinned bool, err error) {
	first, began := f.lookFirst.required()
	full := len(f.attempts) == cap(f.attempts)
	if look := r.Pinned || first && full; look {
		began = nil
		if pinned, err := f.lookFirst.pinned(ctx, r.Key, 0, false); err != nil || pinned {
			return pinned, err
		}
	}
	for {
		select {
		case f.attempts <- struct{}{}:
			return false, nil
		case <-began:
			began = nil
			if pinned, err := f.lookFirst.pinned(ctx, r.Key, 0, false); err != nil || pinned {
				return pinned, err
			}
		case <-ctx.Done():
			return false, conn.NotSent("wait for a session", ctx.Err())
		}
	}
}
