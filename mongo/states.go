package mongolock

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/split"
)

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

// stopOf turns an error into a stop if somebody else's transaction, a server that took too
// long or a corrupt document has stopped the command.
func stopOf(err error) error {
	corrupt := command.CorruptDocument(err)
	if corrupt || command.Blocked(err) || command.Conflicted(err) {
		return split.Stop(err, !corrupt)
	}
	return err
}
