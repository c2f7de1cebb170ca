package mongolock

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Marks are the marks of the runs of key, the newest first, at most limit (at least 1) of them:
// when each was made, by the server's clock. One whose transaction is still open is not there.
// Errors: ErrInvalid, ErrSchema, ErrClosed or the server's.
func (s *Store) Marks(ctx context.Context, key string, limit int) ([]driver.Mark, error) {
	if limit < 1 {
		return nil, &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: limit %d of Marks: use at least 1", driver.ErrInvalid, limit)}
	}
	if err := validKey(key); err != nil {
		return nil, err
	}
	if err := s.enter(ctx, "marks", 1); err != nil {
		return nil, err
	}
	docs, err := s.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: s.runs},
		{Key: "filter", Value: bson.D{{Key: "_id", Value: runsOf(key)}, {Key: "at", Value: document.Op("$type", "date")}}},
		{Key: "projection", Value: bson.D{{Key: "token", Value: 1}, {Key: "at", Value: 1}, {Key: "now", Value: document.Now}}},
		{Key: "sort", Value: bson.D{{Key: "at", Value: -1}, {Key: "_id", Value: 1}}},
		{Key: "limit", Value: int32(min(limit, maxBatch))},
		{Key: "batchSize", Value: int32(min(limit, maxBatch))},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return nil, s.cmd.Fail(ctx, fmt.Sprintf("marks of %q", key), err)
	}
	marks := make([]driver.Mark, len(docs))
	for i, doc := range docs {
		at, now := doc.Lookup("at").Time(), doc.Lookup("now").Time()
		token, _ := doc.Lookup("token").AsInt64OK()
		marks[i] = driver.Mark{Key: key, Run: runOf(doc.Lookup("_id")), Token: token, At: at.UTC(), Age: now.Sub(at)}
	}
	return marks, nil
}

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
	if olderThan < driver.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: ReapRuns of marks made %v ago: use at least %v", driver.ErrInvalid, olderThan, driver.MinGrace)}
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
		{Key: "hint", Value: document.ByID},
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
