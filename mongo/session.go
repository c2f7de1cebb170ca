package mongolock

import (
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
// one that found the key held, or its own hold there already, wrote nothing, or at
// most a hint: the first sending, if it is still on its way, would be executed. So such
// a session is used for nothing else before it was overtaken (undo.go).
//
// The Store numbers by itself, because the driver numbers only what goes through
// its helpers, and only if the client has retryWrites on. Its numbers begin far
// above those of the driver; a session that was numbered so never goes back to
// the driver's pool, where its next user would be too old.

const firstNumber = 1 << 40

// maxIdle bounds the sessions that wait for the next attempt, maxKept those that
// wait for an undo: an attempt over that bound is undone as if it had no number.
const (
	maxIdle       = 64
	maxUnanswered = 10_000
)

// serverMemory is how long a server remembers a session that is not used
// (localLogicalSessionTimeoutMinutes).
const serverMemory = 30 * time.Minute

// session is a session of the Store on the server. The caller of get owns it until put or
// addUnanswered.
type session struct {
	sess      *mongo.Session
	number    int64
	mayArrive bool // a command that went out twice may still be on its way
}

// unanswered is the session of attempts that were not answered.
type unanswered struct {
	undoing chan struct{} // one undo at a time
	session *session
	holds   int // not undone; guarded by sessions.mu
	since   time.Time
}

type sessions struct {
	start func() (*session, error)

	mu         sync.Mutex
	closed     bool
	idle       []*session
	unanswered map[driver.HoldID]*unanswered
}

func (s *Store) startSession() (*session, error) {
	sess, err := s.db.Client().StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, err
	}
	return &session{sess: sess, number: firstNumber}, nil
}

// get returns a session that nobody else uses.
func (ss *sessions) get() (*session, error) {
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

// put returns a session of which nothing is on its way.
func (ss *sessions) put(sess *session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.idle) < maxIdle && !ss.closed {
		ss.idle = append(ss.idle, sess)
	}
}

// addUnanswered remembers the session of attempts that were not answered.
func (ss *sessions) addUnanswered(sess *session, ids ...driver.HoldID) {
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
		ss.unanswered = make(map[driver.HoldID]*unanswered)
	}
	k := &unanswered{undoing: make(chan struct{}, 1), session: sess, holds: len(ids), since: now}
	for _, id := range ids {
		ss.unanswered[id] = k
	}
}

// findUnanswered returns the session of an attempt that was not answered, or nil.
func (ss *sessions) findUnanswered(id driver.HoldID) *unanswered {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.unanswered[id]
}

// undone forgets an attempt whose undo is final.
func (ss *sessions) undone(id driver.HoldID) {
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
		ss.put(k.session)
	}
}

// close forgets all sessions and returns the IDs of those it knew.
func (ss *sessions) close() []bson.Raw {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = true
	var ids []bson.Raw
	seen := make(map[*session]bool)
	for _, sess := range ss.idle {
		ids = append(ids, sess.sess.ID())
	}
	for _, k := range ss.unanswered {
		if !seen[k.session] {
			seen[k.session] = true
			ids = append(ids, k.session.sess.ID())
		}
	}
	ss.idle, ss.unanswered = nil, nil
	return ids
}
