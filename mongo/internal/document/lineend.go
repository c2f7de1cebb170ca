package document

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The ends of holds and entries in the form that knows of lines.

// EndInLine ends a hold, or takes an entry out of the line, and passes the key on. It brings back the document as it is
// then, with the place of the hold's Next.
func EndInLine(leases string, h driver.Hold, standalone bool) bson.D {
	statement := EndingInLine(h, standalone)
	var next driver.Entry
	if h.Next != nil {
		next = EntryOf(*h.Next)
	}
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: statement[0].Value},
		{Key: "update", Value: statement[1].Value},
		{Key: "new", Value: true},
		{Key: "fields", Value: LineFields([]driver.Entry{next})},
	}
}

// EndingInLine is a statement of an update.
func EndingInLine(h driver.Hold, standalone bool) bson.D {
	id := HoldID(h.ID)
	held := bson.D{{Key: "hold", Value: id}}
	if h.Mode != driver.Exclusive {
		held = byEntry(h)[1:]
	}
	return bson.D{
		{Key: "q", Value: bson.D{{Key: "_id", Value: KeyID(h.Key)}, {Key: "$or", Value: bson.A{held, Op("line.h", id)}}}},
		{Key: "u", Value: ending(h, standalone)},
	}
}

// ending is the update.
func ending(h driver.Hold, standalone bool) bson.A {
	id := HoldID(h.ID)
	ends := Op("$eq", bson.A{"$hold", id})
	if h.Mode != driver.Exclusive {
		ends = cond(inPhase, Op("$in", bson.A{id, "$holds.h"}), false)
	}
	stages := bson.A{Op("$set", bson.D{
		{Key: "passing.live", Value: filter(liveLine, Op("$ne", bson.A{"$$this.h", id}))},
		{Key: "passing.ends", Value: ends},
	})}
	list := any("$passing.live")
	if h.Next != nil {
		anew := Op("$slice", bson.A{Op("$concatArrays", bson.A{"$passing.live", bson.A{standing(*h.Next)}}), driver.MaxLine})
		list = cond(and("$passing.ends", not(Op("$in", bson.A{HoldID(h.Next.ID), "$passing.live.h"}))), anew, "$passing.live")
	}
	stages = append(stages, Op("$set", append(ended(h), bson.E{Key: "passing.list", Value: list})))
	a := &asker{standalone: standalone}
	if h.Guarded {
		stages = append(stages, Op("$replaceWith", a.stays()))
	} else {
		stages = append(stages, a.pass()...)
	}
	return append(stages, writeLine()...)
}

// ended are the fields of a document whose hold h ends, if passing.ends.
func ended(h driver.Hold) bson.D {
	change := func(field string, to any) bson.E {
		return bson.E{Key: field, Value: cond("$passing.ends", to, "$"+field)}
	}
	var fields bson.D
	raised := any(Op("$eq", bson.A{"$fresh", true}))
	if h.Mode == driver.Exclusive {
		fields = bson.D{change("hold", "$$REMOVE"), change("passed", "$$REMOVE"), change("expiresAt", Now)}
		raised = Op("$ne", bson.A{"$passed", passedToFence})
	} else {
		fields = bson.D{change("holds", entriesWithout(h))}
	}
	switch {
	case !h.Undo:
		fields = append(fields, change("fresh", cond(raised, "$$REMOVE", "$fresh")))
	case h.Mode == driver.Exclusive:
		fields = append(fields, change("keepUntil", "$$REMOVE"))
	}
	return fields
}

// BackToLine takes the hold of q back, which is pinned by guarded transactions, and puts q before all others that wait.
func BackToLine(leases string, q driver.Request) bson.D {
	h := driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Undo: true}
	id := HoldID(q.ID)
	set := bson.D{{Key: "passing", Value: Op("rest", Op("$slice", bson.A{Op("$concatArrays", bson.A{bson.A{standing(q)}, liveLine}), driver.MaxLine}))}}
	query := ByHolds([]driver.Hold{h})
	if q.Mode == driver.Exclusive {
		for _, name := range []string{"hold", "passed", "keepUntil"} {
			set = append(set, bson.E{Key: name, Value: "$$REMOVE"})
		}
		set = append(set, bson.E{Key: "expiresAt", Value: Now})
	} else {
		query = byEntry(h)
		set = append(set, bson.E{Key: "holds", Value: filter("$holds", Op("$ne", bson.A{"$$this.h", id}))})
	}
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: query},
		{Key: "update", Value: append(bson.A{Op("$set", set)}, writeLine()...)},
		{Key: "new", Value: true},
		{Key: "fields", Value: LineFields([]driver.Entry{EntryOf(q)})},
	}
}

// EndManyInLine ends several holds: those that are released in the same way by one statement. short tells for which keys the short
// form will do.
func EndManyInLine(leases string, holds []driver.Hold, short func(driver.Mode, string) bool, standalone bool) bson.D {
	updates := bson.A{}
	alike := make(map[bool][]driver.Hold) // by Guarded
	for _, h := range holds {
		switch {
		case h.Undo || !short(h.Mode, h.Key):
			updates = append(updates, EndingInLine(h, standalone))
		case h.Next != nil:
			updates = append(updates, EndingExclusive([]driver.Hold{h}, standalone))
		default:
			alike[h.Guarded] = append(alike[h.Guarded], h)
		}
	}
	for _, guarded := range []bool{false, true} {
		if some := alike[guarded]; len(some) > 0 {
			updates = append(updates, EndingExclusive(some, standalone))
		}
	}
	return bson.D{{Key: "update", Value: leases}, {Key: "updates", Value: updates}, {Key: "ordered", Value: false}}
}
