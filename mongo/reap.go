package mongolock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Reap removes the documents of keys that have been free for longer than olderThan, and for which nobody has waited for as
// long, by the server's clock, at most 500 a call, and returns their number.
// It is housekeeping: without it a key that was used once stays as a document of
// some 200 bytes. A key that is reaped goes on above its old tokens, because
// tokens follow the clock of the replica set.
//
// The fence of a guarded key is raised before its document goes, and stays. A key
// that changes meanwhile, or is pinned by an open transaction, is left alone. Up to 50
// documents are missing in the number for each command that the server ended after a quarter of a second, because its
// answer does not tell how many it had removed by then.
//
// An olderThan below an hour is refused with ErrInvalid. Other errors: ErrSchema,
// ErrClosed, ErrNotSupported or the server's, with the number removed until then.
func (s *Store) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < driver.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: Reap of keys that died %v ago: use at least %v", driver.ErrInvalid, olderThan, driver.MinGrace)}
	}
	if err := s.enter(ctx, "reap", 1); err != nil {
		return 0, err
	}
	return s.reap(ctx, olderThan)
}

func (s *Store) reap(ctx context.Context, olderThan time.Duration) (int, error) {
	docs, err := s.cmd.Scan(ctx, bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: append(document.Op("_id", document.Op("$type", "binData")), document.Dead(olderThan)...)},
		{Key: "projection", Value: document.Fields},
		{Key: "hint", Value: document.ByID},
		{Key: "limit", Value: int32(driver.MaxReap)},
		{Key: "batchSize", Value: int32(driver.MaxReap)},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return 0, s.cmd.Fail(ctx, "reap", err)
	}
	states := make([]document.State, len(docs))
	var fenced []int
	for i, doc := range docs {
		if states[i] = document.Parse(doc); states[i].Fenced {
			fenced = append(fenced, i)
		}
	}
	down := make([]atomic.Bool, len(states)) // the fence could not be raised
	split.InParallel(len(fenced), split.Parts, func(n int) {
		r := states[fenced[n]]
		down[fenced[n]].Store(s.fence.Raise(ctx, fencesToEnd(r)...) != nil)
	})
	deletes := bson.A{}
	for i, r := range states {
		if !down[i].Load() {
			deletes = append(deletes, bson.D{{Key: "q", Value: document.DeadAs(r, olderThan)}, {Key: "limit", Value: 1}})
		}
	}
	return s.remove(ctx, deletes)
}

// remove deletes in small commands, because a document that a foreign transaction
// has written stops the whole command it is in.
func (s *Store) remove(ctx context.Context, deletes bson.A) (int, error) {
	const some = 50
	removed := 0
	for len(deletes) > 0 {
		n := min(some, len(deletes))
		reply, err := s.cmd.Write(ctx, nil, bson.D{
			{Key: "delete", Value: s.leases},
			{Key: "deletes", Value: deletes[:n]},
			{Key: "ordered", Value: false},
		}, undoWait)
		removed += int(reply.Matched())
		if err != nil && !command.Blocked(err) && !command.Conflicted(err) {
			return removed, s.cmd.Fail(ctx, "reap", err)
		}
		deletes = deletes[n:]
	}
	return removed, nil
}
