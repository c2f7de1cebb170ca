package document

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The short form of linetake.go and lineend.go, for exclusive requests of keys for which no reader or slot is known to wait: a
// server takes as long to read the long form as to do it. Where there is a phase it changes nothing, and where a
// reader or slot is the first it passes nothing (Short says so); a release demands that none stands.

// TakeExclusive is TakeInLine.
func TakeExclusive(leases string, q driver.Request, standalone bool) bson.D {
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: ByKey(q.Key)},
		{Key: "update", Value: AcquiringExclusive(q, standalone)},
		{Key: "upsert", Value: true},
		{Key: "new", Value: true},
		{Key: "fields", Value: exclusiveFields(HoldID(q.ID))},
	}
}

// Short reports whether the answer to the short form says that the long one must follow.
func (r State) Short(q driver.Request) bool {
	if r.Has(q) {
		return r.Untold(q) && (r.Fenced || r.Fresh)
	}
	return r.Phase > 0 || r.Left == 0
}

// AcquiringExclusive is the update.
func AcquiringExclusive(q driver.Request, standalone bool) bson.A {
	return newAsker(q, standalone).takeExclusive(claimTime(q))
}

// TakeManyExclusive is the acquire of all keys whose documents exist, by requests that are Alike: each document finds its own
// ID and claim, by its place in the list of keys.
func TakeManyExclusive(leases string, reqs []driver.Request, standalone bool) bson.D {
	keys, ids, claims := bson.A{}, bson.A{}, bson.A{}
	for _, q := range reqs {
		keys, ids, claims = append(keys, KeyID(q.Key)), append(ids, HoldID(q.ID)), append(claims, claimTime(q))
	}
	mine := func(all bson.A) bson.D { return Op("$arrayElemAt", bson.A{literal(all), "$passing.i"}) }
	a := &asker{q: reqs[0], id: "$passing.id", standalone: standalone}
	a.q.Key = ""
	stages := append(bson.A{
		Op("$set", Op("passing.i", Op("$indexOfArray", bson.A{literal(keys), "$_id"}))),
		Op("$set", bson.D{{Key: "passing.id", Value: mine(ids)}, {Key: "passing.claim", Value: mine(claims)}}),
	}, a.takeExclusive("$passing.claim")...)
	return bson.D{
		{Key: "update", Value: leases},
		{Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: Op("_id", Op("$in", keys))}, {Key: "u", Value: stages}, {Key: "multi", Value: true}}}},
	}
}

// Alike reports whether TakeManyExclusive can take both.
func Alike(q, p driver.Request) bool {
	return q.Mode == p.Mode && q.Owner == p.Owner && q.TTL == p.TTL && q.Keep == p.Keep && q.Guarded == p.Guarded &&
		q.Stand == p.Stand && entryTime(q) == entryTime(p)
}

// takeExclusive are the stages.
func (a *asker) takeExclusive(claim any) bson.A {
	q, id := a.q, a.id
	phase := Op("$eq", bson.A{Op("$type", "$hold"), "long"})
	again := any("$passing.live")
	if q.Stand { // its end moves, but never back
		later := Op("$mergeObjects", bson.A{"$$this", Op("u", Op("$max", bson.A{"$$this.u", plus(Now, entryTime(q))}))})
		again = each("$passing.live", cond(entryIs(id), later, "$$this"))
	}
	anew := Op("$concatArrays", bson.A{"$passing.live", bson.A{standingAs(q, id, claim)}})
	stages := bson.A{
		Op("$set", bson.D{
			{Key: "passing.live", Value: liveLine},
			{Key: "passing.mine", Value: Op("$or", bson.A{phase, and(Op("$eq", bson.A{"$hold", id}), Op("$gt", bson.A{"$expiresAt", Now}))})},
		}),
		Op("$set", Op("passing.stands", Op("$in", bson.A{id, "$passing.live.h"}))),
		Op("$set", Op("passing.list", cond("$passing.mine", "$passing.live", cond("$passing.stands", again, anew)))),
	}
	stages = append(stages, a.passToExclusive(and(not("$passing.mine"), Free))...)
	return append(stages, writeExclusiveLine)
}

// passToExclusive are the stages that pass the key to the first of passing.list, if it is exclusive.
func (a *asker) passToExclusive(free any) []any {
	return []any{
		Op("$set", bson.D{
			{Key: "passing.first", Value: Op("$arrayElemAt", bson.A{"$passing.list", 0})},
			{Key: "passing.token", Value: Op("$toLong", nextToken(a.standalone))},
		}),
		Op("$replaceWith", cond(and(Op("$eq", bson.A{"$passing.first.m", int32(driver.Exclusive)}), free), a.toFirst(), a.stays())),
	}
}

// exclusiveFields is what a reply says to a request with that ID.
func exclusiveFields(id bson.Binary) bson.D {
	return append(Fields[:len(Fields):len(Fields)],
		bson.E{Key: "passed", Value: 1},
		bson.E{Key: "stand", Value: let(bson.D{{Key: "live", Value: liveLine}}, bson.D{
			{Key: "n", Value: Op("$size", "$$live")},
			{Key: "at", Value: Op("$indexOfArray", bson.A{"$$live.h", id})},
			{Key: "since", Value: Op("$arrayElemAt", bson.A{"$$live.s", 0})},
		})})
}

// EndExclusive is EndInLine of a hold that is released.
func EndExclusive(leases string, h driver.Hold, standalone bool) bson.D {
	id := noID
	if h.Next != nil {
		id = HoldID(h.Next.ID)
	}
	statement := EndingExclusive([]driver.Hold{h}, standalone)
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: statement[0].Value},
		{Key: "update", Value: statement[1].Value},
		{Key: "new", Value: true},
		{Key: "fields", Value: exclusiveFields(id)},
	}
}

// EndingExclusive is a statement of an update: of one hold, or of several that have no Next and are Guarded or not alike.
func EndingExclusive(holds []driver.Hold, standalone bool) bson.D {
	next := holds[0].Next
	list := any("$passing.live")
	if next != nil {
		anew := Op("$slice", bson.A{Op("$concatArrays", bson.A{"$passing.live", bson.A{standing(*next)}}), driver.MaxLine})
		list = cond(Op("$in", bson.A{HoldID(next.ID), "$passing.live.h"}), "$passing.live", anew)
	}
	a := &asker{standalone: standalone}
	stages := bson.A{
		Op("$set", bson.D{
			{Key: "passing.live", Value: liveLine},
			{Key: "hold", Value: "$$REMOVE"},
			{Key: "passed", Value: "$$REMOVE"},
			{Key: "expiresAt", Value: Now},
			{Key: "fresh", Value: cond(Op("$eq", bson.A{"$passed", passedToFence}), "$fresh", "$$REMOVE")},
		}),
		Op("$set", Op("passing.list", list)),
	}
	if holds[0].Guarded {
		stages = append(stages, Op("$replaceWith", a.stays()))
	} else {
		stages = append(stages, a.passToExclusive(Free)...)
	}
	statement := bson.D{
		{Key: "q", Value: append(ByHolds(holds), bson.E{Key: "line.m", Value: Op("$not", Op("$gt", int32(driver.Exclusive)))})},
		{Key: "u", Value: append(stages, writeExclusiveLine)},
	}
	if len(holds) > 1 {
		statement = append(statement, bson.E{Key: "multi", Value: true})
	}
	return statement
}
