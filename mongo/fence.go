package mongolock

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A guarded key has a document beside its lease: {_id: key, token, lsid, n}. A
// guarded transaction writes it (guard.go), renewals never do. An acquire of such
// a key raises its token before it is granted, which waits for the transactions that
// have written it and makes all later ones of an older token match nothing. lsid
// is the session in which InTx and Once run the transactions of that token; n only
// makes a guard a write.
//
// That a key is guarded is a flag in its lease document, so that other keys pay
// nothing. It is gone if somebody deletes the document, or brings an old one back,
// and the fence is still there. Therefore a document without a token is fresh, and
// an acquire that takes a fresh one looks for a fence. It stays fresh until a lease on
// it is released: the program that created the document may have died before it looked.

// raise lifts the fence of a key, which guarded transactions of an older token
// have written: it waits for those that are open and stops all later ones. own is
// the session of the new token's transactions, or nil.
func (s *Store) raise(ctx context.Context, key string, token int64, own *ownSession) error {
	return s.raiseWithin(ctx, key, token, own, blockWait)
}

// raiseWithin is raise where an idle server has so much time.
func (s *Store) raiseWithin(ctx context.Context, key string, token int64, own *ownSession, wait time.Duration) error {
	var update any = document.Op("$max", document.Op("token", token))
	if own != nil {
		// A raise that comes late, behind a newer one, changes neither.
		update = bson.A{document.Op("$set", bson.D{
			{Key: "token", Value: document.Op("$max", bson.A{"$token", token})},
			{Key: "lsid", Value: document.Op("$cond", bson.A{document.Op("$lt", bson.A{"$token", token}), own.id, "$lsid"})},
		})}
	}
	cmd := bson.D{
		{Key: "update", Value: s.fences},
		{Key: "updates", Value: bson.A{bson.D{
			{Key: "q", Value: document.ByKey(key)},
			{Key: "u", Value: update},
			{Key: "upsert", Value: true},
		}}},
	}
	for tries := 0; ; tries++ {
		start := time.Now()
		_, err := s.write(ctx, nil, cmd, s.limits.raise.ofOne(wait))
		if err == nil {
			s.limits.raise.observeOne(time.Since(start))
		}
		if err == nil || tries == 3 || !conflicted(err) {
			return err
		}
	}
}

// raiseAsHolder is raise by an acquire that has the lease document. Only such a one
// may end the transaction that keeps the fence down, if it is one of InTx or Once:
// its lease is over, and if its process is dead too, the server would keep the
// transaction open for a minute (transactionLifetimeLimitSeconds), because it
// belongs to a session, not to a connection.
//
// The error is errPinned only if there is a transaction; otherwise the server had no
// time, and gets more.
func (s *Store) raiseAsHolder(ctx context.Context, key string, token int64, own *ownSession, wait time.Duration) error {
	for tries := 0; ; tries++ {
		err := s.raiseWithin(ctx, key, token, own, wait)
		if !blocked(err) {
			return err
		}
		open, unsure := s.fenceWritten(ctx, key)
		if open && tries == 0 {
			var ended bool
			if ended, unsure = s.endOlder(ctx, key, token); ended {
				open, unsure = s.fenceWritten(ctx, key)
			}
		}
		switch {
		case unsure != nil:
			return unsure
		case open:
			return errPinned
		case tries == 2:
			return err
		}
		wait = longWait
	}
}

// findFences marks those of the states as fenced that are fresh and have a fence, as the
// majority has it after the moment at which they were read.
func (s *Store) findFences(ctx context.Context, states ...*document.State) error {
	of := make(map[string]*document.State)
	var keys []string
	var after *bson.Timestamp
	for _, r := range states {
		if r.Fresh && !r.Fenced {
			of[r.Key], keys, after = r, append(keys, r.Key), r.At
		}
	}
	if len(keys) == 0 {
		return nil
	}
	cmd := bson.D{
		{Key: "find", Value: s.fences},
		{Key: "filter", Value: document.ByKeys(keys)},
		{Key: "projection", Value: document.Op("_id", 1)},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	}
	if after != nil {
		cmd = append(cmd, majorityAfter(after))
	}
	docs, err := s.documents(ctx, cmd)
	if err != nil {
		return err
	}
	for _, r := range of {
		r.Fresh = false
	}
	for _, doc := range docs {
		if r := of[document.Parse(doc).Key]; r != nil {
			r.Fenced = true
		}
	}
	return nil
}

// ownFor makes the session of a lease that will be guarded; nil for others.
func (s *Store) ownFor(q driver.Request) (*ownSession, error) {
	if !q.Guarded || s.standalone.Load() {
		return nil, nil
	}
	return s.newOwn()
}
