package mongolock

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// ReapRuns removes the marks of runs that were made longer than olderThan ago, by
// the server's clock, at most 500 a call, and returns their number. It is the only
// thing that removes a mark: call it now and then, with far more than the time in
// which a run can be tried again. A run whose mark is gone would have its effects
// once more.
//
// An olderThan below an hour is refused with ErrInvalid. Other errors: ErrSchema,
// ErrClosed, ErrNotSupported (standalone server) or the server's. It may be called
// by many at once.
func (s *Store) ReapRuns(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < storekit.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: ReapRuns of marks made %v ago: use at least %v", driver.ErrInvalid, olderThan, storekit.MinGrace)}
	}
	if err := s.transactional(ctx, "reap runs", 1); err != nil {
		return 0, err
	}
	old := bson.D{
		{Key: "at", Value: document.Op("$type", "date")},
		{Key: "$expr", Value: document.Op("$lte", bson.A{"$at", document.Op("$subtract", bson.A{document.Now, document.Millis(olderThan)})})},
	}
	docs, err := s.cmd.Scan(ctx, bson.D{
		{Key: "find", Value: s.runs},
		{Key: "filter", Value: old},
		{Key: "projection", Value: document.Op("_id", 1)},
		{Key: "limit", Value: int32(driver.MaxReap)},
		{Key: "batchSize", Value: int32(driver.MaxReap)},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return 0, s.cmd.Fail(ctx, "reap runs", err)
	}
	if len(docs) == 0 {
		return 0, nil
	}
	ids := make(bson.A, len(docs))
	for i, doc := range docs {
		ids[i] = doc.Lookup("_id")
	}
	removed, err := s.cmd.Write(ctx, nil, bson.D{
		{Key: "delete", Value: s.runs},
		{Key: "deletes", Value: bson.A{bson.D{
			{Key: "q", Value: append(document.Op("_id", document.Op("$in", ids)), old...)},
			{Key: "limit", Value: 0},
		}}},
	}, undoWait)
	n := int(removed.Matched())
	if err != nil {
		return n, s.cmd.Fail(ctx, "reap runs", err)
	}
	return n, nil
}
