package mongolock

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A key of LockTx is a document that every transaction under it writes: two such
// transactions cannot both commit. {_id: key, n, waits}; n counts the locks, waits
// the calls that waited for one outside of a transaction.

// LockTx locks keys for the transaction of the session in ctx, until it commits or
// aborts. There is no lease: nothing to renew, to lose or to release, and nothing
// in common with the keys of Acquire. Keys are locked in the order of their bytes,
// so the order of the arguments does not matter; one may be named twice, none at
// all is no error.
//
// It must be the first statement of its transaction: it conflicts with every
// transaction under one of the keys that has committed since the first one. A key
// that another transaction has is answered at once with ErrConflict, and the
// transaction is aborted: MongoDB has no queue of transactions. So run it by
// [mongo.Session.WithTransaction], which begins again; where keys are often taken,
// call [Store.WaitTx] before it.
//
// After an error abort the transaction. Errors: ErrConflict (the driver's error with
// its label TransientTransactionError is wrapped), ErrInvalid (no session in ctx, no
// transaction begun, a bad key), ErrNotSupported (standalone server),
// ErrSchema, ErrClosed, ctx's or the driver's. A session is not for concurrent use.
func (s *Store) LockTx(ctx context.Context, keys ...string) error {
	keys, err := txKeys(keys)
	if err != nil {
		return err
	}
	sess, err := s.joining(ctx, "lock", len(keys))
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return nil
	}
	locks := make([]mongo.WriteModel, len(keys))
	for i, k := range keys {
		locks[i] = mongo.NewUpdateOneModel().SetFilter(document.ByKey(k)).SetUpdate(document.Op("$inc", document.Op("n", int64(1)))).SetUpsert(true)
	}
	if _, err := s.inside(sess, s.txs).BulkWrite(ctx, locks); err != nil {
		return s.insideFailed(ctx, "lock "+names(keys), err)
	}
	return nil
}

// WaitTx waits until no open transaction has locked any of the keys by LockTx, or
// ctx ends. It locks nothing: another transaction may be faster. Called before a
// transaction that begins with LockTx it spares most of the tries that conflict; it
// joins no transaction that ctx carries, where it would wait for that one itself.
//
// Errors: ctx's, ErrInvalid (a bad key), ErrNotSupported (standalone
// server), ErrSchema, ErrClosed or the driver's.
func (s *Store) WaitTx(ctx context.Context, keys ...string) error {
	keys, err := txKeys(keys)
	if err != nil {
		return err
	}
	if err := s.transactional(ctx, "wait", len(keys)); err != nil {
		return err
	}
	if len(keys) == 0 {
		return nil
	}
	// A write outside of a transaction waits for the transaction that has written the
	// document. It says nothing to anybody, so the majority need not have it.
	updates := make(bson.A, len(keys))
	for i, k := range keys {
		updates[i] = bson.D{{Key: "q", Value: document.ByKey(k)}, {Key: "u", Value: document.Op("$inc", document.Op("waits", int64(1)))}, {Key: "upsert", Value: true}}
	}
	for tries := 0; ; tries++ {
		_, err := s.cmd.Run(ctx, nil, bson.D{ // beside the commands that are counted: it may wait for long
			{Key: "update", Value: s.txs},
			{Key: "updates", Value: updates},
			{Key: "ordered", Value: true},
			{Key: "writeConcern", Value: document.Op("w", int32(1))},
			command.MaxTime(command.Left(ctx)),
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && command.Blocked(err):
		case ctx.Err() == nil && tries < 3 && (command.Conflicted(err) || command.Repeatable(err) || command.NothingSent(err)):
		default:
			return s.cmd.Fail(ctx, "wait for "+names(keys), err)
		}
	}
}

// txKeys are the keys in their order, each once.
func txKeys(keys []string) ([]string, error) {
	for _, k := range keys {
		if err := validKey(k); err != nil {
			return nil, err
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(keys))), nil
}
