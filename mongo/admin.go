package mongolock

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/order"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/fence"
	"github.com/rowlock/rowlock/mongo/internal/schema"
)

// ForceRelease ends whatever hold key has, MinHold included, and raises its
// token, so that its holder learns at its next renewal that it was forced. For
// guarded leases it raises the fence too, so that guarded transactions of the old
// holder that have not written their guard yet cannot commit; Pinned in the Info
// says that one which has was still open, which is for the next grant to wait for. Those who
// wait keep their places.
//
// The Info is the state before, by the server's clock; a key that was never held
// has an empty one. Errors: ErrInvalid (key), ErrSchema, ErrClosed, ErrNotSupported
// or the server's.
func (s *Store) ForceRelease(ctx context.Context, key string) (driver.Info, error) {
	return s.force(ctx, key, nil)
}

// ForceReleaseIf is ForceRelease of seen.Key if the key still has the hold that seen, an answer
// of Inspect or List, tells of: its Hold and its Token; see driver.ForcerIf for readers and slots.
// Otherwise the error matches ErrChanged, and nothing was changed.
func (s *Store) ForceReleaseIf(ctx context.Context, seen driver.Info) (driver.Info, error) {
	return s.force(ctx, seen.Key, &seen)
}

func (s *Store) force(ctx context.Context, key string, seen *driver.Info) (driver.Info, error) {
	if err := validKey(key); err != nil {
		return driver.Info{}, err
	}
	if err := s.enter(ctx, "force", 1); err != nil {
		return driver.Info{}, err
	}
	what := fmt.Sprintf("force %q", key)
	sess, err := s.sessions.Get() // numbered, so that a repeat does not raise the token twice
	if err != nil {
		return driver.Info{}, s.cmd.Fail(ctx, what, err)
	}
	reply, err := s.cmd.WriteUntilDone(ctx, sess, document.Force(s.leases, key, seen))
	if err == nil && sess.MayArrive { // where there was no document it could end a hold that comes later
		_, err = s.overtake(ctx, sess)
	}
	if err != nil {
		return driver.Info{}, s.cmd.Fail(ctx, what, err)
	}
	s.sessions.Put(sess)
	doc, ok := reply.Lookup("value").DocumentOK()
	if !ok {
		if seen != nil {
			return driver.Info{Key: key}, &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrChanged}
		}
		return driver.Info{Key: key}, nil
	}
	before := document.Parse(doc)
	if at := command.OperationTime(reply.Raw); at != nil && doc.Lookup("now").Type == 0 {
		// The command went out twice. A repeat is answered with the document that the
		// server kept, without what fields adds to it; its logical clock is close enough.
		before.Judge(doc, int64(at.T)*1000)
	}
	info := before.Info(key)
	if before.Fenced {
		err := s.fence.RaiseUntilDone(ctx, fencesToEnd(before)...)
		switch {
		case err == nil:
		case errors.Is(err, fence.ErrPinned):
			info.Pinned = true
		default:
			failed := s.cmd.Fail(ctx, what+": raise its fence", err)
			failed.NotApplied = false // the hold is ended
			return info, failed
		}
	}
	return info, nil
}

// List returns the keys that begin with prefix and come after the key after, in
// the order of their bytes, at most limit of them: free, held and kept ones, by
// the server's clock. It reads the index on name, without waiting for anybody.
// Errors: ErrInvalid (limit below 1), ErrSchema (index missing), ErrClosed,
// ErrNotSupported or the server's.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	if limit < 1 {
		return nil, &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: limit %d of List: use at least 1", driver.ErrInvalid, limit)}
	}
	if err := s.enter(ctx, "list", 1); err != nil {
		return nil, err
	}
	var infos []driver.Info
	for len(infos) < limit {
		page := min(limit-len(infos), maxBatch)
		some, last, more, err := s.page(ctx, prefix, after, page)
		if err != nil {
			return nil, s.cmd.Fail(ctx, fmt.Sprintf("list %q", prefix), err)
		}
		infos = append(infos, some...)
		if !more {
			break
		}
		after = last
	}
	return infos, nil
}

// page reads limit documents, of which those that are no keys are left out. last is the
// name with which the next page begins; without more there is none.
func (s *Store) page(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, last string, more bool, err error) {
	names := bson.D{{Key: "$gte", Value: prefix}}
	if next, ok := order.Successor(prefix); ok {
		names = append(names, bson.E{Key: "$lt", Value: next})
	}
	if after != "" {
		names = append(names, bson.E{Key: "$gt", Value: after})
	}
	docs, err := s.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: document.Op("name", names)},
		{Key: "sort", Value: document.Op("name", 1)},
		{Key: "projection", Value: append(document.Fields[:len(document.Fields):len(document.Fields)], bson.E{Key: "name", Value: 1})},
		{Key: "hint", Value: schema.NameIndex},
		{Key: "collation", Value: document.Op("locale", "simple")},
		{Key: "limit", Value: int32(limit)},
		{Key: "batchSize", Value: int32(limit)},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return nil, "", false, err
	}
	states := make(map[string]document.State, len(docs))
	var found []string
	for _, doc := range docs {
		last, _ = doc.Lookup("name").StringValueOK()
		if r := document.Parse(doc); r.Key != "" {
			states[r.Key] = r
			found = append(found, r.Key)
		}
	}
	if err := s.completePhases(ctx, states); err != nil {
		return nil, "", false, err
	}
	for _, key := range found {
		infos = append(infos, states[key].Info(key))
	}
	return infos, last, len(docs) == limit && last > after, s.markPinned(ctx, infos, states)
}
