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
// a session alone, and if it stays unanswered, the session is kept until the
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
// wait for an undo: an attempt over that bound is undone as if there were no order.
const (
	maxIdle = 64
	maxKept = 10_000
)

// forgotten is how long a server remembers a session that is not used
// (localLogicalSessionTimeoutMinutes).
const forgotten = 30 * time.Minute

// order is a session of the Store. Who takes it has it alone.
type order struct {
	sess   *mongo.Session
	number int64
	late   bool // a command that went out twice may still be on its way
}

// kept is the order of attempts that were not answered.
type kept struct {
	turn  chan struct{} // one undo at a time
	o     *order
	holds int // not settled; guarded by sessions.mu
	since time.Time
}

type sessions struct {
	start func() (*order, error)

	mu     sync.Mutex
	closed bool
	idle   []*order
	kept   map[driver.HoldID]*kept
}

func (s *Store) startSession() (*order, error) {
	sess, err := s.db.Client().StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, err
	}
	return &order{sess: sess, number: firstNumber}, nil
}

// take returns a session that nobody else uses.
func (ss *sessions) take() (*order, error) {
	ss.mu.Lock()
	if n := len(ss.idle); n > 0 {
		o := ss.idle[n-1]
		ss.idle = ss.idle[:n-1]
		ss.mu.Unlock()
		return o, nil
	}
	ss.mu.Unlock()
	return ss.start()
}

// give returns a session of which nothing is on its way.
func (ss *sessions) give(o *order) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.idle) < maxIdle && !ss.closed {
		ss.idle = append(ss.idle, o)
	}
}

// keep remembers the session of attempts that were not answered.
func (ss *sessions) keep(o *order, ids ...driver.HoldID) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed {
		return
	}
	now := time.Now()
	if len(ss.kept)+len(ids) > maxKept {
		for id, k := range ss.kept {
			if now.Sub(k.since) > forgotten {
				delete(ss.kept, id)
			}
		}
		if len(ss.kept)+len(ids) > maxKept {
			return
		}
	}
	if ss.kept == nil {
		ss.kept = make(map[driver.HoldID]*kept)
	}
	k := &kept{turn: make(chan struct{}, 1), o: o, holds: len(ids), since: now}
	for _, id := range ids {
		ss.kept[id] = k
	}
}

// find returns the kept session of an attempt, or nil.
func (ss *sessions) find(id driver.HoldID) *kept {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.kept[id]
}

// settle forgets an attempt whose undo is final.
func (ss *sessions) settle(id driver.HoldID) {
	ss.mu.Lock()
	k := ss.kept[id]
	if k == nil {
		ss.mu.Unlock()
		return
	}
	delete(ss.kept, id)
	k.holds--
	last := k.holds == 0
	ss.mu.Unlock()
	if last {
		ss.give(k.o)
	}
}

// close forgets all sessions and returns the IDs of those it knew.
func (ss *sessions) close() []bson.Raw {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.closed = true
	var ids []bson.Raw
	seen := make(map[*order]bool)
	for _, o := range ss.idle {
		ids = append(ids, o.sess.ID())
	}
	for _, k := range ss.kept {
		if !seen[k.o] {
			seen[k.o] = true
			ids = append(ids, k.o.sess.ID())
		}
	}
	ss.idle, ss.kept = nil, nil
	return ids
}
