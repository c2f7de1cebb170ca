package mongolock

import (
	"context"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/mongo/internal/document"
)

// endOlder ends the session that the fence names, if the fence is of an older
// token. A session belongs to one hold for good, so nobody else's work ends with
// it. A transaction of the caller, with a plain Guard, is in no such session.
// Nothing is ended where the server refuses that; the error is for one that does not
// answer.
func (s *Store) endOlder(ctx context.Context, key string, token int64) (bool, error) {
	return s.endAllOlder(ctx, []string{key}, []int64{token})
}

// endAllOlder is endOlder for several keys; true: some session was ended.
func (s *Store) endAllOlder(ctx context.Context, keys []string, tokens []int64) (bool, error) {
	docs, err := s.fencesWithSession(ctx, keys)
	if err != nil {
		return false, err
	}
	ids := bson.A{}
	var killed []string
	for _, doc := range docs {
		fence := document.Parse(doc)
		if i := slices.Index(keys, fence.Key); i >= 0 && fence.Token < tokens[i] {
			ids, killed = append(ids, document.Op("id", doc.Lookup("lsid"))), append(killed, sessionOf(doc))
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	_, err = s.send(ctx, nil, killSessions(ids...), undoWait)
	command, _ := codes(err)
	if err == nil || command != 0 { // more cannot be done
		s.killed.add(killed...)
	}
	if command != 0 {
		return false, nil
	}
	return err == nil, err
}

// fencesWithSession reads those of the fences that name a session.
func (s *Store) fencesWithSession(ctx context.Context, keys []string) ([]bson.Raw, error) {
	docs, err := s.documents(ctx, bson.D{
		{Key: "find", Value: s.fences},
		{Key: "filter", Value: document.ByKeys(keys)},
		{Key: "projection", Value: bson.D{{Key: "token", Value: 1}, {Key: "lsid", Value: 1}}},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	})
	return slices.DeleteFunc(docs, func(doc bson.Raw) bool { return sessionOf(doc) == "" }), err
}

// sessionOf is the ID of the session that a fence names, or empty.
func sessionOf(doc bson.Raw) string {
	_, id, _ := doc.Lookup("lsid").BinaryOK()
	return string(id)
}

// killedSessions are those that this Store has ended, or was refused to.
type killedSessions struct {
	mu  sync.Mutex
	ids map[string]bool
}

// maxKilled bounds them. One that was forgotten is ended once more.
const maxKilled = 10_000

func (k *killedSessions) add(ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ids == nil || len(k.ids)+len(ids) > maxKilled {
		k.ids = make(map[string]bool)
	}
	for _, id := range ids {
		k.ids[id] = true
	}
}

func (k *killedSessions) has(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ids[id]
}
