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

// releases passes the events after which a key may be free: a hold that went, a slot that was
// freed, the last hold before a gate and the gate itself, a document that was deleted, and
// those that end the stream. A grant, a renewal and a refusal, also one that leaves a hint, do
// not pass, nor does the release of a reader beside others. A release is logged as an update or, when the server
// found that shorter, as a whole document.
var releases = mongo.Pipeline{
	bson.D{{Key: "$match", Value: document.Op("$or", bson.A{
		document.Op("operationType", document.Op("$in", bson.A{"delete", "drop", "rename", "dropDatabase", "invalidate"})),
		bson.D{{Key: "operationType", Value: "update"}, {Key: "updateDescription.removedFields", Value: "hold"}},
		bson.D{{Key: "operationType", Value: "update"}, {Key: "updateDescription.updatedFields.freed", Value: document.Op("$exists", true)}},
		bson.D{{Key: "operationType", Value: "update"}, {Key: "updateDescription.removedFields", Value: "gate"}, {Key: "updateDescription.updatedFields.hold", Value: document.Op("$exists", false)}},
		bson.D{{Key: "operationType", Value: "replace"}, {Key: "fullDocument.hold", Value: document.Op("$exists", false)}},
		bson.D{{Key: "operationType", Value: "replace"}, {Key: "fullDocument.freed", Value: document.Op("$exists", true)}},
	})}},
	bson.D{{Key: "$project", Value: bson.D{{Key: "operationType", Value: 1}, {Key: "documentKey", Value: 1}}}},
}

// Watch implements driver.Waiter by a change stream on the lease collection:
// https://www.mongodb.com/docs/v6.0/changeStreams/. The event of a release comes a
// fraction of a millisecond after the majority has it. It needs the privilege
// changeStream on the collection (role readWrite has it); without it the error is
// lasting, and waiters probe.
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
	stream, err := coll.Watch(mongo.NewSessionContext(command.NoDeadline(watched), nil), releases, options.ChangeStream().SetMaxAwaitTime(watchAwait))
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
		case "update", "replace", "delete":
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
