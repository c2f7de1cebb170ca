package mongolock

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The mark of a run is a document that its transaction writes: effects and mark
// are committed together or not at all.
//
//	{_id: {name: key, run}, token, at: date}

// Once runs fn in a transaction, as [Store.InTx] does, unless the run has had its
// effects before: with them it commits a mark of the key and run. So the effects of
// a run are there once, whatever is killed when, as long as its mark is kept
// ([Store.ReapRuns]). run names it in 1 to 255 bytes, compared byte for byte: a
// date, an order number.
//
// With more leases all are guarded; the run is one of the first lease's key.
//
// fn may be called more than once, before the commit that counts; only what it
// writes in the transaction is exactly once.
//
// Errors are those of InTx, and ErrAlreadyRan: the effects are committed, at the
// majority, by this or another process; fn's were not. After ErrUnknownOutcome call
// Once again, with this lease or a later one: it waits for what may still come, and
// then runs fn or says ErrAlreadyRan.
func (s *Store) Once(ctx context.Context, lease *rowlock.Lease, run string, fn func(ctx context.Context) error, more ...*rowlock.Lease) error {
	if fn == nil {
		return errNoFunction
	}
	if err := guards.CheckRun(run); err != nil {
		return err
	}
	return s.inTx(ctx, fmt.Sprintf("run %q", run), guards.LeasesOf(lease, more), func(ctx context.Context, sess *mongo.Session, h driver.Hold) error {
		if err := s.mark(ctx, sess, h, run); err != nil {
			return err
		}
		return fn(ctx)
	})
}

// MarkRun is [Store.Guard], and marks the run in the transaction of the caller,
// whose commit so becomes the one commit of that run; run names it in 1 to 255
// bytes, compared byte for byte. Mark a run once in a transaction. The mark is as
// durable as the transaction's write concern: use majority, as [Store.Guard] says.
//
// With more leases all are guarded, as Guard does; the run is one of the first lease's key.
//
// Errors are those of Guard, and ErrAlreadyRan: a transaction with this mark was
// committed, at the majority. This one goes on then, but to make the effects of the
// run again would be wrong: abort it.
//
// If the outcome of the commit is not known, commit again (WithTransaction does, for
// two minutes) or begin anew with MarkRun. A mark that is not there yet says
// nothing: the commit may still come.
func (s *Store) MarkRun(ctx context.Context, lease *rowlock.Lease, run string, more ...*rowlock.Lease) error {
	if err := guards.CheckRun(run); err != nil {
		return err
	}
	leases := guards.LeasesOf(lease, more)
	sess, err := s.joining(ctx, "mark", len(leases))
	if err != nil {
		return err
	}
	hs, err := s.guarding(leases)
	if err != nil {
		return err
	}
	if err := s.guard(ctx, sess, leases, hs); err != nil {
		return err
	}
	return s.mark(ctx, sess, hs.First, run)
}

func runID(key, run string) bson.D {
	return bson.D{{Key: "name", Value: document.KeyID(key)}, {Key: "run", Value: document.Binary([]byte(run))}}
}

// runsOf matches the IDs of all runs of a key: documents compare field by field.
func runsOf(key string) bson.D {
	return bson.D{
		{Key: "$gt", Value: bson.D{{Key: "name", Value: document.KeyID(key)}, {Key: "run", Value: bson.MinKey{}}}},
		{Key: "$lt", Value: bson.D{{Key: "name", Value: document.KeyID(key)}, {Key: "run", Value: bson.MaxKey{}}}},
	}
}

// runOf is the run of a mark's ID.
func runOf(id bson.RawValue) string {
	doc, _ := id.DocumentOK()
	_, run, _ := doc.Lookup("run").BinaryOK()
	return string(run)
}

// mark writes the mark in the transaction. It is no insert, because a duplicate key
// would abort the transaction of the caller; where the mark is there, the update
// changes nothing.
func (s *Store) mark(ctx context.Context, sess *mongo.Session, h driver.Hold, run string) error {
	what := fmt.Sprintf("mark run %q of %q", run, h.Key)
	reply, err := s.inside(sess, s.runs).UpdateOne(ctx, document.Op("_id", runID(h.Key, run)), bson.A{document.Op("$set", bson.D{
		{Key: "token", Value: document.Op("$ifNull", bson.A{"$token", h.Stored})},
		{Key: "at", Value: document.Op("$ifNull", bson.A{"$at", document.Now})},
	})}, options.UpdateOne().SetUpsert(true))
	if err != nil {
		return s.insideFailed(ctx, what, err)
	}
	if reply.UpsertedCount > 0 {
		return nil
	}
	return s.marked(ctx, sess, h, run, what)
}

// marked makes sure of a mark that a transaction has seen: what it sees the majority
// may not have yet, and would lose in a failover.
func (s *Store) marked(ctx context.Context, sess *mongo.Session, h driver.Hold, run, what string) error {
	concern := bson.D{{Key: "level", Value: "majority"}}
	if t := sess.OperationTime(); t != nil {
		concern = append(concern, bson.E{Key: "afterClusterTime", Value: *t})
	}
	docs, err := s.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: s.runs},
		{Key: "filter", Value: document.Op("_id", runID(h.Key, run))},
		{Key: "singleBatch", Value: true},
		{Key: "readConcern", Value: concern},
	})
	if err != nil {
		return s.cmd.Fail(ctx, what, err)
	}
	if len(docs) == 0 {
		return fmt.Errorf("mongo: %s on %s: the mark is there for this transaction but not for the majority: was it made in it, or undone by a failover?", what, s)
	}
	return fmt.Errorf("mongo: %s: %w", what, driver.ErrAlreadyRan)
}
