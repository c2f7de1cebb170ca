package mongolock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// reapMost is the number of documents one call removes, minGrace the shortest
// time that they must have been dead.
const (
	reapMost = 500
	minGrace = time.Hour
)

// Reap removes the documents of keys that have been free for longer than
// olderThan, by the server's clock, at most 500 a call, and returns their number.
// It is housekeeping: without it a key that was used once stays as a document of
// some 200 bytes. A key that is reaped goes on above its old tokens, because
// tokens follow the clock of the replica set.
//
// The fence of a guarded key is raised before its document goes, and stays. A key
// that changes meanwhile, or is pinned by an open transaction, is left alone.
//
// An olderThan below an hour is refused with ErrInvalid. Other errors: ErrSchema,
// ErrClosed, ErrNotSupported or the server's, with the number removed until then.
func (s *Store) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < minGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: Reap of keys that died %v ago: use at least %v", driver.ErrInvalid, olderThan, minGrace)}
	}
	if err := s.enter(ctx, "reap", 1); err != nil {
		return 0, err
	}
	return s.reap(ctx, olderThan)
}

func (s *Store) reap(ctx context.Context, olderThan time.Duration) (int, error) {
	docs, err := s.scan(ctx, bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: append(op("_id", op("$type", "binData")), dead(olderThan)...)},
		{Key: "projection", Value: fields},
		{Key: "limit", Value: int32(reapMost)},
		{Key: "batchSize", Value: int32(reapMost)},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return 0, s.fail(ctx, "reap", err)
	}
	rows := make([]row, len(docs))
	var fenced []int
	for i, doc := range docs {
		if rows[i] = parse(doc); rows[i].fenced {
			fenced = append(fenced, i)
		}
	}
	down := make([]atomic.Bool, len(rows)) // the fence could not be raised
	inParallel(len(fenced), parallel, func(n int) {
		r := rows[fenced[n]]
		down[fenced[n]].Store(s.raise(ctx, r.key, above(r.token), nil) != nil)
	})
	deletes := bson.A{}
	for i, r := range rows {
		if !down[i].Load() {
			deletes = append(deletes, bson.D{{Key: "q", Value: s.deadRow(r, olderThan)}, {Key: "limit", Value: 1}})
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
		reply, err := s.write(ctx, nil, bson.D{
			{Key: "delete", Value: s.leases},
			{Key: "deletes", Value: deletes[:n]},
			{Key: "ordered", Value: false},
		}, undoWait)
		removed += int(reply.matched())
		if err != nil && !blocked(err) && !conflicted(err) {
			return removed, s.fail(ctx, "reap", err)
		}
		deletes = deletes[n:]
	}
	return removed, nil
}

// dead matches documents that have been free for longer than grace. Documents
// without a date are none of ours, or not locks: the larger of two dates that are
// not there is less than any date.
func dead(grace time.Duration) bson.D {
	return bson.D{
		{Key: "expiresAt", Value: op("$type", "date")},
		{Key: "$expr", Value: op("$lte", bson.A{op("$max", bson.A{"$expiresAt", "$keepUntil"}), op("$subtract", bson.A{now, millis(grace)})})},
	}
}

// deadRow matches a document that is dead and as it was read.
func (s *Store) deadRow(r row, grace time.Duration) bson.D {
	var hold any // null: absent
	if r.held() {
		hold = holdID(r.hold)
	}
	return append(bson.D{
		{Key: "_id", Value: keyID(r.key)},
		{Key: "token", Value: r.token},
		{Key: "hold", Value: hold},
	}, dead(grace)...)
}
