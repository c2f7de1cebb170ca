package mongolock

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Inspect implements driver.Store. It reads without waiting for anybody's
// transaction, one command for all keys; a second one only if a guarded lease is
// among them, to tell whether it is pinned.
func (s *Store) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	if err := s.enter(ctx, "inspect", len(keys)); err != nil {
		return nil, err
	}
	states, err := s.states(ctx, keys, nil)
	if err != nil {
		return nil, s.cmd.Fail(ctx, "inspect", err)
	}
	infos := make([]driver.Info, len(keys))
	for i, k := range keys {
		infos[i] = states[k].Info(k)
	}
	if err := s.markPinned(ctx, infos, states); err != nil {
		return nil, s.cmd.Fail(ctx, "inspect", err)
	}
	return infos, nil
}

// states reads the documents of keys. With a moment in time it reads what the
// majority has, not before that moment.
func (s *Store) states(ctx context.Context, keys []string, after *bson.Timestamp) (map[string]document.State, error) {
	cmd := bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: document.ByKeys(keys)},
		{Key: "projection", Value: document.Fields},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	}
	if after != nil {
		cmd = append(cmd, command.MajorityAfter(after))
	}
	reply, err := s.cmd.Read(ctx, cmd)
	docs, err := command.DocumentsOf(cmd, reply, err)
	if err != nil {
		return nil, err
	}
	at := command.OperationTime(reply)
	states := make(map[string]document.State, len(docs))
	for _, doc := range docs {
		r := document.Parse(doc)
		r.At = at
		states[r.Key] = r
	}
	return states, nil
}

// markPinned looks whether the grants of guarded leases have passed their fence.
func (s *Store) markPinned(ctx context.Context, infos []driver.Info, states map[string]document.State) error {
	var keys []string
	for _, i := range infos {
		if r := states[i.Key]; r.Fenced && r.Held() {
			keys = append(keys, i.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	fences, err := s.fence.Tokens(ctx, keys)
	if err != nil {
		return err
	}
	for i := range infos {
		if r := states[infos[i].Key]; r.Fenced && r.Held() {
			infos[i].Pinned = fences[infos[i].Key] < r.Token
		}
	}
	return nil
}

// afterStop reads, after a command was stopped, the documents of keys as the majority
// has them, not before the moment of the stop. false: it could not. A standalone
// server has no such moment, and no other node either.
func (s *Store) afterStop(ctx context.Context, stop error, keys []string) (map[string]document.State, bool) {
	after := command.ErrorTime(stop)
	if after == nil && !s.cmd.Standalone() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, undoWait) // the majority may be far behind
	defer cancel()
	states, err := s.states(ctx, keys, after)
	return states, err == nil
}
