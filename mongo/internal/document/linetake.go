package document

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The acquire in the form that knows of lines: it passes the key on, or takes it, or stands in its line, or goes on to.

// TakeInLine is the acquire of one key. It creates a document that is not there.
func TakeInLine(leases string, q driver.Request, standalone bool) bson.D {
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: ByKey(q.Key)},
		{Key: "update", Value: AcquiringInLine(q, standalone)},
		{Key: "upsert", Value: true},
		{Key: "new", Value: true},
		{Key: "fields", Value: LineFields([]driver.Entry{EntryOf(q)})},
	}
}

// EntryOf names the request in its line.
func EntryOf(q driver.Request) driver.Entry {
	return driver.Entry{Key: q.Key, ID: q.ID, Mode: q.Mode, Slots: q.Slots}
}

// AcquiringInLine is the update.
func AcquiringInLine(q driver.Request, standalone bool) bson.A {
	a := newAsker(q, standalone)
	id := HoldID(q.ID)
	mine := and(Op("$eq", bson.A{"$hold", id}), Op("$gt", bson.A{"$expiresAt", Now}))
	if q.Mode != driver.Exclusive {
		mine = cond(inPhase, Op("$ne", bson.A{filter(entries, and(entryIs(id), entryLives)), bson.A{}}), false)
	}
	again := any("$passing.live")
	if q.Stand { // its end moves, but never back; another caller of its program may want another number of slots
		later := Op("$mergeObjects", bson.A{"$$this", bson.D{
			{Key: "u", Value: Op("$max", bson.A{"$$this.u", plus(Now, entryTime(q))})},
			{Key: "n", Value: int32(min(max(q.Slots, 0), driver.MaxSlots))},
		}})
		again = each("$passing.live", cond(entryIs(id), later, "$$this"))
	}
	anew := Op("$concatArrays", bson.A{"$passing.live", bson.A{standing(q)}})
	stages := bson.A{
		Op("$set", bson.D{
			{Key: "passing.live", Value: liveLine},
			{Key: "passing.mine", Value: mine},
		}),
		Op("$set", Op("passing.stands", Op("$in", bson.A{id, "$passing.live.h"}))),
		Op("$set", Op("passing.list", cond("$passing.mine", "$passing.live", cond("$passing.stands", again, anew)))),
	}
	stages = append(stages, a.pass()...)
	return append(stages, writeLine()...)
}

// Confirming is an update of the hold of h, which was passed the key: with what its request asked for.
func Confirming(h driver.Hold) bson.D {
	end := plus(Now, Millis(h.TTL))
	if h.Mode != driver.Exclusive {
		if h.MaxHold > 0 {
			end = Op("$min", bson.A{end, plus("$$this.a", Millis(h.MaxHold))})
		}
		changes := bson.D{{Key: "o", Value: literal(h.Owner)}, {Key: "e", Value: Op("$max", bson.A{"$$this.e", end})}}
		if h.Keep > 0 && h.Mode == driver.Slot {
			k := plus("$$this.a", Millis(h.Keep))
			changes[1].Value = Op("$max", bson.A{"$$this.e", end, k})
			changes = append(changes, bson.E{Key: "k", Value: k})
		}
		set := bson.D{{Key: "holds", Value: each("$holds", cond(entryIs(HoldID(h.ID)), Op("$mergeObjects", bson.A{"$$this", changes}), "$$this"))}}
		if h.Guarded {
			set = append(set, bson.E{Key: "fenced", Value: literal(true)}, bson.E{Key: "fresh", Value: literal(freshPhase)})
		}
		return bson.D{{Key: "q", Value: byEntry(h)}, {Key: "u", Value: bson.A{
			Op("$set", set), Op("$set", Op("expiresAt", Op("$max", bson.A{"$expiresAt", lastEnd})))}}}
	}
	if h.MaxHold > 0 {
		end = Op("$min", bson.A{end, plus("$acquiredAt", Millis(h.MaxHold))})
	}
	set := bson.D{
		{Key: "owner", Value: literal(h.Owner)},
		{Key: "expiresAt", Value: Op("$max", bson.A{"$expiresAt", end})},
		{Key: "passed", Value: cond(Op("$eq", bson.A{"$passed", passedToFence}), "$passed", "$$REMOVE")},
	}
	if h.Keep > 0 {
		set = append(set, bson.E{Key: "keepUntil", Value: Op("$max", bson.A{"$keepUntil", plus("$acquiredAt", Millis(h.Keep))})})
	}
	if h.Guarded {
		set = append(set, bson.E{Key: "fenced", Value: literal(true)})
	}
	return bson.D{{Key: "q", Value: ByHolds([]driver.Hold{h})}, {Key: "u", Value: bson.A{Op("$set", set)}}}
}
