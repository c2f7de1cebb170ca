package fence

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
)

// Session is the session in which InTx and Once run the transactions of one
// hold. The fence names it, so that the next holder of the key can end what is open
// in it. Therefore it serves that hold only and never goes back to the driver's
// pool, where it would serve a call of the user next.
type Session struct {
	Driver      *mongo.Session
	ID          bson.RawValue // as the fence names it
	transaction chan struct{} // one at a time: see Lock

	named map[driver.HoldID]bool // whose fences name it too; guarded by Lock
}

// Lock waits until no other transaction runs in the session: two would undo each other at
// the fence.
func (s *Session) Lock(ctx context.Context) error {
	select {
	case s.transaction <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Named reports whether the fence of another hold is known to name the session. Called
// between Lock and Unlock.
func (s *Session) Named(id driver.HoldID) bool { return s.named[id] }

func (s *Session) noteNamed(holds []driver.Hold) {
	if s.named == nil {
		s.named = make(map[driver.HoldID]bool)
	}
	for _, h := range holds {
		s.named[h.ID] = true
	}
}

// Unlock ends what Lock began.
func (s *Session) Unlock() { <-s.transaction }

// MaxEnded is how many sessions of ended holds are reported to the server at a time.
const MaxEnded = 100

// Sessions are those of the guarded holds that are not known to have ended. The zero value
// is ready; they are for concurrent use.
type Sessions struct {
	mu         sync.Mutex
	byHold     map[driver.HoldID]*Session
	pendingEnd []bson.Raw
}

// Of returns the session of a hold, and begins it the first time. A raise that was not answered may have had the fence name it,
// so it is the same until the hold is over.
func (h *Sessions) Of(id driver.HoldID, client *mongo.Client) (*Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.byHold[id]; s != nil {
		return s, nil
	}
	sess, err := client.StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, err
	}
	if h.byHold == nil {
		h.byHold = make(map[driver.HoldID]*Session)
	}
	s := &Session{Driver: sess, ID: sess.ID().Lookup("id"), transaction: make(chan struct{}, 1)}
	h.byHold[id] = s
	return s, nil
}

// Find returns the session of a hold, or nil.
func (h *Sessions) Find(id driver.HoldID) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byHold[id]
}

// Drop forgets the sessions of holds that are over.
func (h *Sessions) Drop(holds ...driver.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.byHold) == 0 {
		return
	}
	for _, hold := range holds {
		if s := h.byHold[hold.ID]; s != nil {
			delete(h.byHold, hold.ID)
			h.pendingEnd = append(h.pendingEnd, s.Driver.ID())
		}
	}
}

// TakeEnded returns the IDs of sessions that the server may forget too, if there are
// enough for a command. It forgets by itself after 30 minutes, but has room for a
// million only.
func (h *Sessions) TakeEnded() []bson.Raw {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pendingEnd) < MaxEnded {
		return nil
	}
	ids := h.pendingEnd
	h.pendingEnd = nil
	return ids
}

// Close forgets all sessions and returns their IDs.
func (h *Sessions) Close() []bson.Raw {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := h.pendingEnd
	for _, s := range h.byHold {
		ids = append(ids, s.Driver.ID())
	}
	h.byHold, h.pendingEnd = nil, nil
	return ids
}

// Count is the number of sessions of holds, and of those that the server may forget.
func (h *Sessions) Count() (open, ended int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byHold), len(h.pendingEnd)
}
