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
// hold. The fence names it, so that whoever has the key next can end what is open
// in it. Therefore it serves that hold only and never goes back to the driver's
// pool, where it would serve a call of the user next.
type ownSession struct {
	sess *mongo.Session
	id   bson.RawValue // as the fence names it
	turn chan struct{} // one transaction at a time: two would undo each other at the fence
}

func (s *Store) newOwn() (*ownSession, error) {
	sess, err := s.db.Client().StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, err
	}
	return &ownSession{sess: sess, id: sess.ID().Lookup("id"), turn: make(chan struct{}, 1)}, nil
}

// unused gives back a session that no fence names.
func (o *ownSession) unused() {
	if o != nil {
		o.sess.EndSession(context.Background()) // no transaction: nothing is sent
	}
}

// endMost is how many sessions of ended holds are told to the server at a time.
const endMost = 100

// ownSessions are those of the guarded holds that are not known to have ended.
type ownSessions struct {
	mu    sync.Mutex
	of    map[driver.HoldID]*ownSession
	ended []bson.Raw
}

func (os *ownSessions) add(id driver.HoldID, o *ownSession) {
	if o == nil {
		return
	}
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.of == nil {
		os.of = make(map[driver.HoldID]*ownSession)
	}
	os.of[id] = o
}

func (os *ownSessions) find(id driver.HoldID) *ownSession {
	os.mu.Lock()
	defer os.mu.Unlock()
	return os.of[id]
}

// drop forgets the sessions of holds that are over.
func (os *ownSessions) drop(holds ...driver.Hold) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if len(os.of) == 0 {
		return
	}
	for _, h := range holds {
		if o := os.of[h.ID]; o != nil {
			delete(os.of, h.ID)
			os.ended = append(os.ended, o.sess.ID())
		}
	}
}

// spent returns the IDs of sessions that the server may forget too, if there are
// enough for a command. It forgets by itself after 30 minutes, but has room for a
// million only.
func (os *ownSessions) spent() []bson.Raw {
	os.mu.Lock()
	defer os.mu.Unlock()
	if len(os.ended) < endMost {
		return nil
	}
	ids := os.ended
	os.ended = nil
	return ids
}

// close forgets all sessions and returns their IDs.
func (os *ownSessions) close() []bson.Raw {
	os.mu.Lock()
	defer os.mu.Unlock()
	ids := os.ended
	for _, o := range os.of {
		ids = append(ids, o.sess.ID())
	}
	os.of, os.ended = nil, nil
	return ids
}
