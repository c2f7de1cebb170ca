package mongolock

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
)

// ownSession is the session in which InTx and Once run the transactions of one
// hold. The fence names it, so that the next holder of the key can end what is open
// in it. Therefore it serves that hold only and never goes back to the driver's
// pool, where it would serve a call of the user next.
type ownSession struct {
	sess        *mongo.Session
	id          bson.RawValue // as the fence names it
	transaction chan struct{} // one transaction at a time: two would undo each other at the fence
}

func (s *Store) newOwn() (*ownSession, error) {
	sess, err := s.db.Client().StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, err
	}
	return &ownSession{sess: sess, id: sess.ID().Lookup("id"), transaction: make(chan struct{}, 1)}, nil
}

// discard ends a session that no fence names.
func (o *ownSession) discard() {
	if o != nil {
		o.sess.EndSession(context.Background()) // no transaction: nothing is sent
	}
}

// endMost is how many sessions of ended holds are reported to the server at a time.
const endMost = 100

// ownSessions are those of the guarded holds that are not known to have ended.
type ownSessions struct {
	mu         sync.Mutex
	byHold     map[driver.HoldID]*ownSession
	pendingEnd []bson.Raw
}

func (s *ownSessions) add(id driver.HoldID, o *ownSession) {
	if o == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHold == nil {
		s.byHold = make(map[driver.HoldID]*ownSession)
	}
	s.byHold[id] = o
}

func (s *ownSessions) find(id driver.HoldID) *ownSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byHold[id]
}

// drop forgets the sessions of holds that are over.
func (s *ownSessions) drop(holds ...driver.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byHold) == 0 {
		return
	}
	for _, h := range holds {
		if o := s.byHold[h.ID]; o != nil {
			delete(s.byHold, h.ID)
			s.pendingEnd = append(s.pendingEnd, o.sess.ID())
		}
	}
}

// takeEnded returns the IDs of sessions that the server may forget too, if there are
// enough for a command. It forgets by itself after 30 minutes, but has room for a
// million only.
func (s *ownSessions) takeEnded() []bson.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pendingEnd) < endMost {
		return nil
	}
	ids := s.pendingEnd
	s.pendingEnd = nil
	return ids
}

// close forgets all sessions and returns their IDs.
func (s *ownSessions) close() []bson.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.pendingEnd
	for _, o := range s.byHold {
		ids = append(ids, o.sess.ID())
	}
	s.byHold, s.pendingEnd = nil, nil
	return ids
}
