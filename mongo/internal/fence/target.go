package fence

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A Target is one or more fences that a grant raises to its token.
//
// A reader has a fence of its own, {_id: {k: key, h: hold ID}, token, lsid, n}, so that guarded
// readers do not undo each other's transactions. It is made before the reader joins, with token
// 0: a guard of the reader demands that it is there and not above the reader's phase. So it is
// there before any exclusive grant that comes after the join, and that grant raises it, before
// it returns, to a token above the phase. One that was made after the join could come after the
// raise, and would guard nothing.
//
// A slot has one, {_id: {k: key, s: slot}, token, lsid, n}, which each hold of the slot raises to
// its token as an exclusive one does that of the key. An exclusive grant can raise it only if it
// is there, so who makes it looks afterwards whether the hold still stands: see acquire.
type Target struct {
	q     bson.D
	token int64
	own   *Session
	many  bool
}

// OfKey is the fence of a key.
func OfKey(key string, token int64, own *Session) Target {
	return Target{q: document.ByKey(key), token: token, own: own}
}

// OfSlot is the fence of a slot.
func OfSlot(key string, slot int, token int64, own *Session) Target {
	return Target{q: BySlot(key, slot), token: token, own: own}
}

// OfPhase is the fences of all readers and slots of a key.
func OfPhase(key string, token int64) Target {
	return Target{q: byPhase(key), token: token, many: true}
}

// BySlot matches the fence of a slot.
func BySlot(key string, slot int) bson.D {
	return document.Op("_id", bson.D{{Key: "k", Value: document.KeyID(key)}, {Key: "s", Value: int32(slot)}})
}

// ByReader matches the fence of a reader.
func ByReader(key string, id driver.HoldID) bson.D {
	return document.Op("_id", bson.D{{Key: "k", Value: document.KeyID(key)}, {Key: "h", Value: document.HoldID(id)}})
}

// byPhase matches all of them: documents are compared field by field, of different types the
// type decides, and a document that is the beginning of another is less.
func byPhase(key string) bson.D {
	k := bson.E{Key: "k", Value: document.KeyID(key)}
	return document.Op("_id", bson.D{{Key: "$gt", Value: bson.D{k}}, {Key: "$lt", Value: bson.D{k, {Key: "s", Value: bson.MaxKey{}}}}})
}

// Guard matches the fence that a guarded transaction of a hold writes, while no hold that
// excludes it was granted since.
func Guard(h driver.Hold) bson.D {
	switch h.Mode {
	case driver.Shared:
		return append(ByReader(h.Key, h.ID), bson.E{Key: "token", Value: document.Op("$lte", h.Phase)})
	case driver.Slot:
		return append(BySlot(h.Key, h.Slot), bson.E{Key: "token", Value: h.Stored})
	}
	return append(document.ByKey(h.Key), bson.E{Key: "token", Value: h.Stored})
}

// statement raises the fence. One that comes late, behind a newer one, changes nothing.
func (t Target) statement() bson.D {
	var update any = document.Op("$max", document.Op("token", t.token))
	if t.own != nil {
		update = bson.A{document.Op("$set", bson.D{
			{Key: "token", Value: document.Op("$max", bson.A{"$token", t.token})},
			{Key: "lsid", Value: document.Op("$cond", bson.A{document.Op("$lt", bson.A{"$token", t.token}), t.own.ID, "$lsid"})},
			{Key: "with", Value: document.Op("$cond", bson.A{document.Op("$lt", bson.A{"$token", t.token}), "$$REMOVE", "$with"})},
		})}
	}
	statement := bson.D{{Key: "q", Value: t.q}, {Key: "u", Value: update}}
	if t.many {
		return append(statement, bson.E{Key: "multi", Value: true})
	}
	return append(statement, bson.E{Key: "upsert", Value: true})
}

// Prepare is the statement that makes the fence of a reader.
func Prepare(key string, id driver.HoldID, own *Session) bson.D {
	insert := bson.D{{Key: "token", Value: int64(0)}, {Key: "at", Value: document.Now}}
	if own != nil {
		insert = append(insert, bson.E{Key: "lsid", Value: own.ID})
	}
	return bson.D{
		{Key: "q", Value: ByReader(key, id)},
		{Key: "u", Value: bson.A{document.Op("$set", whereMissing(insert))}},
		{Key: "upsert", Value: true},
	}
}

// whereMissing leaves fields as they are where they are there.
func whereMissing(fields bson.D) bson.D {
	set := bson.D{}
	for _, f := range fields {
		set = append(set, bson.E{Key: f.Key, Value: document.Op("$ifNull", bson.A{"$" + f.Key, f.Value})})
	}
	return set
}

// Remove removes the fence of a reader that has ended, unless an open transaction has written
// it: then it stays until the next exclusive grant has waited for that.
func (f *Fences) Remove(ctx context.Context, holds ...driver.Hold) {
	deletes := bson.A{}
	for _, h := range holds {
		deletes = append(deletes, bson.D{{Key: "q", Value: ByReader(h.Key, h.ID)}, {Key: "limit", Value: 1}})
	}
	_, _ = f.cmd.Write(ctx, nil, bson.D{
		{Key: "delete", Value: f.collection},
		{Key: "deletes", Value: deletes},
		{Key: "ordered", Value: false},
	}, removeWait)
}

// sweepAfter is the age of the fences that the next exclusive grant removes: of readers whose
// process died, or whose transaction was open at their end.
const sweepAfter = time.Hour

// sweep removes them after a raise that met some. That a reader finds none is always safe.
func (f *Fences) sweep(ctx context.Context, targets []Target, matched int64) {
	for _, t := range targets {
		if !t.many || matched < int64(len(targets)) {
			continue
		}
		old := append(t.q[:len(t.q):len(t.q)],
			bson.E{Key: "at", Value: document.Op("$type", "date")},
			bson.E{Key: "$expr", Value: document.Op("$lt", bson.A{"$at", document.Op("$subtract", bson.A{document.Now, document.Millis(sweepAfter)})})})
		_, _ = f.cmd.Write(ctx, nil, bson.D{
			{Key: "delete", Value: f.collection},
			{Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: old}, {Key: "limit", Value: 0}}}},
		}, removeWait)
	}
}
