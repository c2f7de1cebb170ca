package mongolock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// changes passes the events after which another may have a key, or nobody: a hold that came or went, also by force, and a document
// that was deleted; and those that end the stream. A renewal, a refusal and what becomes of the line do not pass. What the server logs as
// a whole document, where it finds that shorter, may be either.
var changes = mongo.Pipeline{
	bson.D{{Key: "$match", Value: document.Op("$or", bson.A{
		bson.D{{Key: "operationType", Value: document.Op("$ne", "update")}},
		bson.D{{Key: "updateDescription.removedFields", Value: "hold"}},
		bson.D{{Key: "updateDescription.updatedFields.hold", Value: document.Op("$exists", true)}},
	})}},
	bson.D{{Key: "$project", Value: bson.D{{Key: "operationType", Value: 1}, {Key: "documentKey", Value: 1}}}},
}

// Watch is called by the Client that rowlock.New makes, while one of its callers observes a key. It implements driver.Waiter by a change
// stream on the lease collection: https://www.mongodb.com/docs/v6.0/changeStreams/. The event of a change comes a
// fraction of a millisecond after the majority has it. A stream costs the server some work for every write to
// the collection. It needs the privilege
// changeStream on the collection (role readWrite has it); without it the error is
// lasting, and observers learn of a change when they ask next.
func (s *Store) Watch(ctx context.Context, ready func(), free func(key string)) error {
	if err := s.enter(ctx, "watch", 0); err != nil {
		return err
	}
	if s.cmd.Standalone() {
		return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mongo: watch %s: %w: a standalone server has no change streams", s, driver.ErrNotSupported)}
	}
	coll := s.db.Collection(s.leases, options.Collection().SetReadConcern(readconcern.Majority()).SetReadPreference(readpref.Primary()))
	s.cmd.Count()
	// Not ctx itself: where it has no deadline, the client's Timeout would end the stream.
	watched, stop := s.cmd.WatchSilence(ctx, 0)
	stream, err := coll.Watch(mongo.NewSessionContext(command.NoDeadline(watched), nil), changes, options.ChangeStream().SetMaxAwaitTime(watchAwait))
	stop()
	if err != nil {
		return s.cmd.Fail(ctx, "watch", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = stream.Close(ctx)
	}()
	ready()
	for {
		watched, stop := s.cmd.WatchSilence(ctx, watchAwait)
		more := stream.TryNext(command.NoDeadline(watched)) // waits for watchAwait
		stop()
		if !more {
			if stream.Err() != nil || stream.ID() == 0 {
				break
			}
			continue
		}
		var event struct {
			OperationType string `bson:"operationType"`
			DocumentKey   struct {
				ID bson.RawValue `bson:"_id"`
			} `bson:"documentKey"`
		}
		if err := stream.Decode(&event); err != nil {
			return s.cmd.Fail(ctx, "watch", err)
		}
		switch event.OperationType {
		case "insert", "update", "replace", "delete":
			if _, key, ok := event.DocumentKey.ID.BinaryOK(); ok {
				free(string(key))
			}
		default:
			return &driver.Error{NotApplied: true, Err: fmt.Errorf("mongo: watch %s: the stream ended with %q", s, event.OperationType)}
		}
	}
	if err := stream.Err(); err != nil {
		return s.cmd.Fail(ctx, "watch", err)
	}
	return s.cmd.Fail(ctx, "watch", errors.New("the stream ended"))
}

// watchAwait is how long the server keeps a question for the next event open.
const watchAwait = 10 * time.Second
