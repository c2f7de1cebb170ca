package mongolock

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// states reads the documents of keys. With a moment in time it reads what the
// majority has, not before that moment.
func (s *Store) states(ctx context.Context, keys []string, after *bson.Timestamp) (map[string]document.State, error) {
	return s.statesWith(ctx, document.Fields, keys, after)
}

// statesOf is states, where the answer is about holds.
func (s *Store) statesOf(ctx context.Context, holds []driver.Hold, after *bson.Timestamp) (map[string]document.State, error) {
	var shared []driver.Hold
	for _, h := range holds {
		if h.Mode != driver.Exclusive {
			shared = append(shared, h)
		}
	}
	fields := document.Fields
	if len(shared) > 0 {
		fields = document.EntryFields(shared)
	}
	return s.statesWith(ctx, fields, keysOf(holds), after)
}

// statesInPhases is states, with what is known of phases and lines. Only where there is one it takes a
// second command.
func (s *Store) statesInPhases(ctx context.Context, keys []string) (map[string]document.State, error) {
	states, err := s.states(ctx, keys, nil)
	if err != nil {
		return nil, err
	}
	return states, s.completePhases(ctx, states)
}

// completePhases reads those of the states again that have a phase or a line.
func (s *Store) completePhases(ctx context.Context, states map[string]document.State) error {
	var keys []string
	fields := document.PhaseFields()
	for key, r := range states {
		if r.Phase > 0 || r.Lined {
			keys = append(keys, key)
		}
		if r.Lined {
			fields = document.FullFields()
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	again, err := s.statesWith(ctx, fields, keys, nil)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if r, there := again[key]; there {
			states[key] = r
		} else {
			delete(states, key)
		}
	}
	return nil
}

func (s *Store) statesWith(ctx context.Context, fields bson.D, keys []string, after *bson.Timestamp) (map[string]document.State, error) {
	cmd := bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: document.ByKeys(keys)},
		{Key: "projection", Value: fields},
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

// afterStop reads, after a command was stopped, the documents of holds as the majority
// has them, not before the moment of the stop. false: it could not. A standalone
// server has no such moment, and no other node either.
func (s *Store) afterStop(ctx context.Context, stop error, holds []driver.Hold) (map[string]document.State, bool) {
	after := command.ErrorTime(stop)
	if after == nil && !s.cmd.Standalone() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, undoWait) // the majority may be far behind
	defer cancel()
	states, err := s.statesOf(ctx, holds, after)
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
