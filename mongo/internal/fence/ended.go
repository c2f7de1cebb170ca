package fence

import (
	"context"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
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
	docs, err := f.withSession(ctx, document.ByKeys(keys), len(keys))
	if err != nil {
		return false, err
	}
	return f.end(ctx, slices.DeleteFunc(docs, func(doc bson.Raw) bool {
		fence := document.Parse(doc)
		i := slices.Index(keys, fence.Key)
		return i < 0 || fence.Token >= tokens[i]
	}))
}

// maxReaders is how many of the fences of a phase are looked at for sessions to end.
const maxReaders = 1000

// endOlder is EndOlder for other fences than those of keys.
func (f *Fences) endOlder(ctx context.Context, targets []Target) (bool, error) {
	var older []bson.Raw
	for _, t := range targets {
		n := 1
		if t.many {
			n = maxReaders
		}
		docs, err := f.withSession(ctx, t.q, n)
		if err != nil {
			return false, err
		}
		for _, doc := range docs {
			if document.Parse(doc).Token < t.token {
				older = append(older, doc)
			}
		}
	}
	return f.end(ctx, older)
}

// end ends the sessions that fences name.
func (f *Fences) end(ctx context.Context, fences []bson.Raw) (bool, error) {
	ids := bson.A{}
	var killed []string
	for _, doc := range fences {
		for _, session := range sessionsOf(doc) {
			ids, killed = append(ids, document.Op("id", session)), append(killed, nameOf(session))
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	_, err := f.cmd.Send(ctx, nil, command.KillSessions(ids...), command.MaxWait)
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
func (f *Fences) withSession(ctx context.Context, filter bson.D, most int) ([]bson.Raw, error) {
	docs, err := f.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: f.collection},
		{Key: "filter", Value: filter},
		{Key: "projection", Value: bson.D{{Key: "token", Value: 1}, {Key: "lsid", Value: 1}, {Key: "with", Value: 1}}},
		{Key: "batchSize", Value: int32(most)},
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
	docs, _ := f.withSession(ctx, document.ByKeys(keys), len(keys))
	endable := make(map[string]bool)
	for _, doc := range docs {
		endable[document.Parse(doc).Key] = f.mayEnd(doc)
	}
	return endable
}

// EndableInPhase reports whether a fence of the key, or of a reader or slot, names such a session.
func (f *Fences) EndableInPhase(ctx context.Context, key string) bool {
	if f.Endable(ctx, []string{key})[key] {
		return true
	}
	docs, _ := f.withSession(ctx, byPhase(key), maxReaders)
	return slices.ContainsFunc(docs, f.mayEnd)
}

// mayEnd reports whether a fence names a session that this Store has not ended yet.
func (f *Fences) mayEnd(doc bson.Raw) bool {
	return slices.ContainsFunc(sessionsOf(doc), func(id bson.RawValue) bool { return !f.killed.has(nameOf(id)) })
}

// Missing looks for the first of the holds whose fence is not there as a guard of it demands;
// false: there is none.
func (f *Fences) Missing(ctx context.Context, holds []driver.Hold) (h driver.Hold, missing bool, err error) {
	guards := make(bson.A, len(holds))
	for i, h := range holds {
		guards[i] = Guard(h)
	}
	filter := guards[0]
	if len(guards) > 1 {
		filter = document.Op("$or", guards)
	}
	docs, err := f.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: f.collection},
		{Key: "filter", Value: filter},
		{Key: "projection", Value: document.Op("_id", 1)},
		{Key: "batchSize", Value: int32(len(holds))},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return h, false, err
	}
	for _, h := range holds {
		id, err := bson.Marshal(Guard(h)[:1])
		if err != nil {
			return h, false, err
		}
		of := bson.Raw(id).Lookup("_id")
		if !slices.ContainsFunc(docs, func(doc bson.Raw) bool { return doc.Lookup("_id").Equal(of) }) {
			return h, true, nil
		}
	}
	return h, false, nil
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
