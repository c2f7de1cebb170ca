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
// reports whether there was one. A session belongs to one hold for good. What runs in it is
// guarded by that hold, or by the fence's own too; a transaction of a hold that lives, which
// has nothing to do with the key, is run again. A transaction of the caller, with a plain Guard, is in no such
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
			for _, session := range sessionsOf(doc) {
				ids, killed = append(ids, document.Op("id", session)), append(killed, nameOf(session))
			}
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
		{Key: "projection", Value: bson.D{{Key: "token", Value: 1}, {Key: "lsid", Value: 1}, {Key: "with", Value: 1}}},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	})
	return slices.DeleteFunc(docs, func(doc bson.Raw) bool { return len(sessionsOf(doc)) == 0 }), err
}

// sessionsOf are the IDs of the sessions that a fence names.
func sessionsOf(doc bson.Raw) (ids []bson.RawValue) {
	if id := doc.Lookup("lsid"); nameOf(id) != "" {
		ids = append(ids, id)
	}
	with, _ := doc.Lookup("with").ArrayOK()
	values, _ := with.Values()
	for _, id := range values {
		if nameOf(id) != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// nameOf is the ID of a session as a string, or empty.
func nameOf(id bson.RawValue) string {
	_, b, _ := id.BinaryOK()
	return string(b)
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
		endable[document.Parse(doc).Key] = slices.ContainsFunc(sessionsOf(doc), func(id bson.RawValue) bool { return !f.killed.has(nameOf(id)) })
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
