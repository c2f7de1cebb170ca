package document

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The ends of holds in a phase, and their renewals. Each names its hold by the ID in its entry,
// so one that comes late or twice finds it or nothing.

// byEntry matches the document with the entry of a hold. An entry counts only in a phase: who
// ends one by hand removes hold.
func byEntry(h driver.Hold) bson.D {
	var phase any = Op("$type", "long")
	if h.Phase > 0 {
		phase = h.Phase
	}
	return bson.D{{Key: "_id", Value: KeyID(h.Key)}, {Key: "hold", Value: phase}, {Key: "holds.h", Value: HoldID(h.ID)}}
}

// renewEntry is one statement of an update.
func renewEntry(h driver.Hold) bson.D {
	end := plus(Now, Millis(h.TTL))
	if h.MaxHold > 0 {
		end = Op("$min", bson.A{end, plus("$$this.a", Millis(h.MaxHold))})
	}
	renewed := Op("$mergeObjects", bson.A{"$$this", Op("e", Op("$max", bson.A{"$$this.e", end}))})
	return bson.D{
		{Key: "q", Value: byEntry(h)},
		{Key: "u", Value: bson.A{
			Op("$set", Op("holds", each("$holds", cond(entryIs(HoldID(h.ID)), renewed, "$$this")))),
			Op("$set", Op("expiresAt", Op("$max", bson.A{"$expiresAt", lastEnd}))),
		}},
	}
}

// endEntry is one statement of an update.
func endEntry(h driver.Hold) bson.D {
	return bson.D{{Key: "q", Value: append(byEntry(h), withoutLine)}, {Key: "u", Value: entryRemoval(h)}}
}

// entryRemoval is what happens to a document whose entry of h ends: the phase does too, if nobody is left in it. A slot that
// MinHold keeps goes on without a hold, but not after an undo. A reader or slot that is released was granted to its end, so the
// document is not fresh any more; but the fences of its phase may be there.
func entryRemoval(h driver.Hold) bson.A {
	set := settled(Op("$eq", bson.A{"$holds", bson.A{}}), lastEnd)
	if !h.Undo {
		set = append(set, bson.E{Key: "fresh", Value: cond(Op("$eq", bson.A{"$fresh", true}), "$$REMOVE", "$fresh")})
	}
	return bson.A{Op("$set", Op("holds", entriesWithout(h))), Op("$set", set)}
}

// entriesWithout are the holds of the phase after the end of h.
func entriesWithout(h driver.Hold) bson.D {
	id := HoldID(h.ID)
	rest := filter("$holds", Op("$ne", bson.A{"$$this.h", id}))
	if h.Mode == driver.Slot && h.Keep > 0 && !h.Undo {
		kept := bson.D{{Key: "e", Value: "$$this.k"}, {Key: "s", Value: "$$this.s"}, {Key: "t", Value: "$$this.t"}}
		rest = filter(
			each("$holds", cond(Op("$ne", bson.A{"$$this.h", id}), "$$this", cond(Op("$gt", bson.A{"$$this.k", Now}), kept, nil))),
			Op("$ne", bson.A{"$$this", nil}))
	}
	return rest
}

// settled are the fields of a document whose phase is over, or may be; otherwise the key is taken until taken.
func settled(over, taken any) bson.D {
	return bson.D{
		{Key: "hold", Value: cond(over, "$$REMOVE", "$hold")},
		{Key: "holds", Value: cond(over, "$$REMOVE", "$holds")},
		{Key: "phase", Value: cond(over, "$hold", "$phase")},
		{Key: "expiresAt", Value: cond(over, Now, taken)},
	}
}
