package fence

import (
	"context"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// EndOlder ends the sessions that fences name, where the fence is of an older token, and
// reports whether there was one. A session belongs to one hold for good, so nobody else's
// work ends with it. A transaction of the caller, with a plain Guard, is in no such
// session. Nothing is ended where the server refuses that, or has no time for it; the error
// is for one that does not answer.
func (f *Fences) EndOlder(ctx context.Context, keys []string, tokens []int64) (bool, error) {
	docs, err := f.withSession(ctx, keys)
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
	_, err = f.cmd.Send(ctx, nil, command.KillSessions(ids...), command.MaxWait)
	code := command.Code(err)
	if err == nil || code != 0 && !command.Blocked(err) { // more cannot be done
		f.killed.add(killed...)
	}
	if code != 0 {
		return false, nil
	}
	return err == nil, err
}

// withSession reads those of the fences that name a session.
func (f *Fences) withSession(ctx context.Context, keys []string) ([]bson.Raw, error) {
	docs, err := f.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: f.collection},
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

// Endable lists the keys whose fence names a session that this Store has not ended yet.
func (f *Fences) Endable(ctx context.Context, keys []string) map[string]bool {
	if len(keys) == 0 {
		return nil
	}
	docs, _ := f.withSession(ctx, keys)
	endable := make(map[string]bool)
	for _, doc := range docs {
		endable[document.Parse(doc).Key] = !f.killed.has(sessionOf(doc))
	}
	return endable
}

// Tokens are those of the fences of keys; a key without a fence has none.
func (f *Fences) Tokens(ctx context.Context, keys []string) (map[string]int64, error) {
	docs, err := f.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: f.collection},
		{Key: "filter", Value: document.ByKeys(keys)},
		{Key: "projection", Value: document.Op("token", 1)},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return nil, err
	}
	tokens := make(map[string]int64, len(docs))
	for _, doc := range docs {
		d := document.Parse(doc)
		tokens[d.Key] = d.Token
	}
	return tokens, nil
}
