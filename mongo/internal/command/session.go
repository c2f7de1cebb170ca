package command

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
)

// An attempt whose answer never came may still be on its way: in a socket buffer,
// in a frozen server. Whatever is sent to take it back can overtake it. But a
// server executes the numbered writes of one session in the order of their
// numbers and refuses a number smaller than the last one it has executed
// (TransactionTooOld): MongoDB's retryable writes,
// https://www.mongodb.com/docs/v6.0/core/retryable-writes/. So each attempt takes
// a session of its own, and if it stays unanswered, the session is kept until the
// undo, with the next number, was acknowledged. From then on the attempt can
// never take effect.
//
// The same holds for an attempt that went out twice, because the connection of the
// first sending broke, and was answered then. The server remembers the number of a
// command that wrote something, and gives the first sending the same answer. But
// one that found the key held, or its own hold there already, wrote
// nothing: the first sending, if it is still on its way, would be executed. So such
// a session is used for nothing else before a write with the next number has overtaken it.
//
// The Store numbers by itself, because the driver numbers only what goes through
// its helpers, and only if the client has retryWrites on. Its numbers begin far
// above those of the driver; a session that was numbered so never goes back to
// the driver's pool, where its next user would be too old.

const firstNumber = 1 << 40

// maxIdle bounds the sessions that wait for the next attempt, maxUnanswered those that
// wait for an undo: an attempt over that bound is undone as if it had no number.
const (
	maxIdle       = 64
	maxUnanswered = 10_000
)

// serverMemory is how long a server remembers a session that is not used
// (localLogicalSessionTimeoutMinutes).
const serverMemory = 30 * time.Minute

// Session is a session of the Store on the server. The caller of Get owns it until Put or
// AddUnanswered.
type Session struct {
	driver    *mongo.Session
	number    int64
	MayArrive bool // a command that went out twice may still be on its way
}

// Next is the number of the next write.
func (s *Session) Next() int64 {
	s.number++
	return s.number
}

// Unanswered is the session of attempts that were not answered.
type Unanswered struct {
	undoing chan struct{} // one undo at a time: see Lock
	Session *Session
	holds   int // not undone; guarded by sessions.mu
	since   time.Time
}

// Lock waits until no other undo uses the session.
func (u *Unanswered) Lock(ctx context.Context) error {
	select {
	case u.undoing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock ends what Lock began.
func (u *Unanswered) Unlock() { <-u.undoing }

// Sessions are those of a Store. They are for concurrent use.
type Sessions struct {
	client *mongo.Client

	mu         sync.Mutex
	closed     bool
	idle       []*Session
	unanswered map[driver.HoldID]*Unanswered
}

// NewSessions makes sessions of a client, on demand.
func NewSessions(client *mongo.Client) *Sessions { return &Sessions{client: client} }

func (ss *Sessions) start() (*Session, error) {
	sess, err := ss.client.StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, err
	}
	return &Session{driver: sess, number: firstNumber}, nil
}

// Get returns a session that nobody else uses.
func (ss *Sessions) Get() (*Session, error) {
	ss.mu.Lock()
	if n := len(ss.idle); n > 0 {
		sess := ss.idle[n-1]
		ss.idle = ss.idle[:n-1]
		ss.mu.Unlock()
		return sess, nil
	}
	ss.mu.Unlock()
	return ss.start()
}

// Put returns a session of which nothing is on its way.
func (ss *Sessions) Put(sess *Session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.idle) < maxIdle && !ss.closed {
		ss.idle = append(ss.idle, sess)
	}
}

// AddUnanswered remembers the session of attempts that were not answered.
func (ss *Sessions) AddUnanswered(sess *Session, ids ...driver.HoldID) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed {
		return
	}
	now := time.Now()
	if len(ss.unanswered)+len(ids) > maxUnanswered {
		for id, k := range ss.unanswered {
			if now.Sub(k.since) > serverMemory {
				delete(ss.unanswered, id)
			}
		}
		if len(ss.unanswered)+len(ids) > maxUnanswered {
			return
		}
	}
	if ss.unanswered == nil {
		ss.unanswered = make(map[driver.HoldID]*Unanswered)
	}
	k := &Unanswered{undoing: make(chan struct{}, 1), Session: sess, holds: len(ids), since: now}
	for _, id := range ids {
		ss.unanswered[id] = k
	}
}

// FindUnanswered returns the session of an attempt that was not answered, or nil.
func (ss *Sessions) FindUnanswered(id driver.HoldID) *Unanswered {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.unanswered[id]
}

// CountUnanswered is the number of attempts that wait for their undo.
func (ss *Sessions) CountUnanswered() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.unanswered)
}

// Undone forgets an attempt whose undo is final.
func (ss *Sessions) Undone(id driver.HoldID) {
	ss.mu.Lock()
	k := ss.unanswered[id]
	if k == nil {
		ss.mu.Unlock()
		return
	}
	delete(ss.unanswered, id)
	k.holds--
	last := k.holds == 0
	ss.mu.Unlock()
	if last {
		ss.Put(k.Session)
	}
}

// Close forgets all sessions and returns the IDs of those it knew.
func (ss *Sessions) Close() []bson.Raw {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = true
	var ids []bson.Raw
	seen := make(map[*Session]bool)
	for _, sess := range ss.idle {
		ids = append(ids, sess.driver.ID())
	}
	for _, k := range ss.unanswered {
		if !seen[k.Session] {
			seen[k.Session] = true
			ids = append(ids, k.Session.driver.ID())
		}
	}
	ss.idle, ss.unanswered = nil, nil
	return ids
}

// KillSessions is the command that ends sessions, and the transactions that are open in them.
func KillSessions(ids ...any) bson.D { return bson.D{{Key: "killSessions", Value: bson.A(ids)}} }
