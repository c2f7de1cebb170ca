package mongolock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// gates are the IDs of attempts that may have left a gate which still stands, so that the undo
// of all others is the same command as without phases. The zero value is ready; they are for
// concurrent use.
type gates struct {
	mu sync.Mutex
	by map[driver.HoldID]time.Time // until when it may stand, by this machine's clock
}

// maxGates bounds them. The gate of one that is forgotten ends by itself.
const maxGates = 10_000

// add says that an attempt is about to leave a gate.
func (g *gates) add(id driver.HoldID, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if len(g.by) >= maxGates {
		for other, until := range g.by {
			if until.Before(now) {
				delete(g.by, other)
			}
		}
		if len(g.by) >= maxGates {
			return
		}
	}
	if g.by == nil {
		g.by = make(map[driver.HoldID]time.Time)
	}
	g.by[id] = now.Add(d + time.Minute) // it may arrive late
}

func (g *gates) forget(id driver.HoldID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.by, id)
}

func (g *gates) has(id driver.HoldID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, has := g.by[id]
	return has
}

// moveGate answers for a waiting exclusive request that is pinned by guarded transactions of a
// phase: by an update that leaves its gate.
func (s *Store) moveGate(ctx context.Context, q driver.Request, update bson.D) driver.Result {
	s.gates.add(q.ID, q.GateTime)
	for tries := 0; ; tries++ {
		reply, err := s.cmd.Write(ctx, nil, bson.D{{Key: "update", Value: s.leases}, {Key: "updates", Value: bson.A{update}}}, undoWait)
		switch {
		case err == nil && reply.Matched() > 0:
			s.gates.forget(q.Gate)
			return driver.Result{Status: driver.Pinned, Gated: true}
		case err == nil:
			s.gates.forget(q.ID)
			return driver.Result{Status: driver.Pinned}
		case tries == 3 || !command.Conflicted(err):
			failed := s.cmd.Fail(ctx, fmt.Sprintf("acquire %q", q.Key), err)
			return unknown(&driver.Error{Lasting: failed.Lasting, Silent: failed.Silent, Err: failed.Err})
		}
	}
}

// clearGate ends the gate of an attempt that was answered, and given up then. That the gate was
// there proves that the attempt has arrived.
func (s *Store) clearGate(ctx context.Context, h driver.Hold) driver.Result {
	what := fmt.Sprintf("undo %q", h.Key)
	for tries := 0; ; tries++ {
		reply, err := s.cmd.Write(ctx, nil, bson.D{
			{Key: "update", Value: s.leases},
			{Key: "updates", Value: bson.A{document.ClearGate(h), document.End(h)}},
			{Key: "ordered", Value: false},
		}, undoWait)
		switch {
		case err == nil:
			s.gates.forget(h.ID)
			return driver.Result{Status: driver.Removed, Final: reply.Matched() > 0 && !s.cmd.Standalone()}
		case tries == 3 || !command.Conflicted(err):
			return unknown(s.cmd.Fail(ctx, what, err))
		}
	}
}
