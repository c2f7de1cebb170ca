package document

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The document of a key in a phase, which is a time with readers and slots only:
//
//	{…, hold: long, token: long, expiresAt: date,
//	 holds: [{h: Binary(16), a: date, e: date, o: owner, s: int, t: long, k: date}], phase: long}
//
// hold is the token of the phase. That it is a long says that there is a phase, to whoever
// reads or writes the document; an exclusive request finds it set, and expiresAt ahead, and is
// refused as by any other hold. So its command is the same whether there may be phases or not.
//
// Each hold has an entry in holds: its ID, when it was granted and ends, its owner; a slot its
// number, its token and the end of MinHold. A slot that was released while MinHold keeps it
// has no h any more. An entry goes by a write only: a release, a request for its slot after its
// end, an exclusive grant, which writes the whole document anew, or a later join when it is
// over for forgetAfter.
//
// token is the largest that was granted, so the next exclusive one is above those of all slots.
// expiresAt is when the last entry ends: the key is free for an exclusive request then. When the last
// hold is released hold and holds go, and phase has the token of the phase that is over.

// forgetAfter is how long the entry of a hold that has expired stays for a late renewal.
const forgetAfter = 10 * time.Second

// inPhase: there is a phase. A hold of this type that somebody typed has no holds, or is above
// the token.
var inPhase = Op("$and", bson.A{
	Op("$eq", bson.A{Op("$type", "$hold"), "long"}),
	Op("$gt", bson.A{"$hold", 0}),
	Op("$lte", bson.A{"$hold", "$token"}),
	Op("$isArray", "$holds"),
})

// entries are those of the document; none where there is no array of them.
var entries = Op("$cond", bson.A{Op("$isArray", "$holds"), "$holds", bson.A{}})

// Of an entry, inside of filter and map.
var (
	entryLives  = Op("$gt", bson.A{"$$this.e", Now})
	entryOfSlot = Op("$gte", bson.A{"$$this.s", 0}) // what is not there is less
)

func entryIs(hold any) bson.D { return Op("$eq", bson.A{"$$this.h", hold}) }

func and(terms ...any) bson.D         { return Op("$and", bson.A(terms)) }
func not(term any) bson.D             { return Op("$not", bson.A{term}) }
func cond(is, then, other any) bson.D { return Op("$cond", bson.A{is, then, other}) }

func filter(input, keep any) bson.D {
	return Op("$filter", bson.D{{Key: "input", Value: input}, {Key: "cond", Value: keep}})
}

func let(vars bson.D, in any) bson.D {
	return Op("$let", bson.D{{Key: "vars", Value: vars}, {Key: "in", Value: in}})
}

func each(input, in any) bson.D {
	return Op("$map", bson.D{{Key: "input", Value: input}, {Key: "in", Value: in}})
}

// lastEnd is when the last entry ends; null: there is none.
var lastEnd = Op("$max", "$holds.e")

// joining is the update of a reader or a slot: it joins the phase, or begins one where the key
// is free, unless there is a line. A request that finds its own entry changes nothing.
func joining(q driver.Request, standalone bool) bson.D {
	hold := HoldID(q.ID)
	enters := bson.A{Op("$or", bson.A{"$$in", Free}), noLine}
	vars := bson.D{{Key: "phase", Value: cond("$$in", "$hold", Op("$toLong", nextToken(standalone)))}}
	if q.Mode == driver.Slot {
		vars = append(vars, bson.E{Key: "slot", Value: chooseSlot(q)})
		enters = append(enters, Op("$ne", bson.A{"$$slot", nil}))
	}
	mine := cond("$$in", Op("$in", bson.A{hold, "$holds.h"}), false)
	joins := let(vars, cond(mine, "$$ROOT", cond(and(enters...), joined(q, standalone), "$$ROOT")))
	return Op("$replaceWith", let(Op("in", inPhase), joins))
}

// joined is the whole document with the entry of q in it; $$in says that there is a phase. What it does not name is gone:
// what was there before a phase that begins.
func joined(q driver.Request, standalone bool) bson.D {
	hold := HoldID(q.ID)
	end := plus(Now, Millis(q.TTL))
	entry := bson.D{{Key: "h", Value: hold}, {Key: "a", Value: Now}}
	token := cond("$$in", "$token", "$$phase")
	stays := Op("$gt", bson.A{"$$this.e", plus(Now, -Millis(forgetAfter))})
	if q.Mode == driver.Slot {
		end = plus(Now, Millis(max(q.TTL, q.Keep)))
		token = Op("$add", bson.A{token, int64(driver.TokenRange)})
		entry = append(entry, bson.E{Key: "s", Value: "$$slot"}, bson.E{Key: "t", Value: token})
		stays = and(stays, Op("$ne", bson.A{"$$this.s", "$$slot"}))
		if q.Keep > 0 {
			entry = append(entry, bson.E{Key: "k", Value: plus(Now, Millis(q.Keep))})
		}
	}
	entry = append(entry, bson.E{Key: "e", Value: end}, bson.E{Key: "o", Value: literal(q.Owner)})
	fenced := any("$fenced")
	doc := bson.D{
		{Key: "_id", Value: "$_id"},
		{Key: "name", Value: literal(q.Key)},
		{Key: "hold", Value: "$$phase"},
		{Key: "owner", Value: literal(q.Owner)},
		{Key: "token", Value: token},
		{Key: "acquiredAt", Value: cond("$$in", "$acquiredAt", Now)},
		{Key: "expiresAt", Value: cond("$$in", Op("$max", bson.A{"$expiresAt", end}), end)},
	}
	if q.Guarded {
		fenced = literal(true)
	}
	doc = append(doc, bson.E{Key: "fenced", Value: fenced})
	if q.Guarded {
		doc = append(doc, bson.E{Key: "fresh", Value: literal(freshPhase)})
	} else if !standalone {
		doc = append(doc, bson.E{Key: "fresh", Value: fresh})
	}
	return append(doc,
		bson.E{Key: "holds", Value: Op("$concatArrays", bson.A{cond("$$in", filter("$holds", stays), bson.A{}), bson.A{entry}})},
	)
}

// freshPhase is fresh in a document with guarded readers or slots: their fences are beside that
// of the key, and the next exclusive grant raises them. It stays as long as fresh does.
const freshPhase = "phase"

// chooseSlot is the slot of q: the one to try first, if it is free, or the smallest that is;
// null: all are taken.
func chooseSlot(q driver.Request) bson.D {
	taken := each(filter("$holds", and(entryLives, entryOfSlot)), "$$this.s")
	free := Op("$setDifference", bson.A{Op("$range", bson.A{0, int32(q.Slots)}), taken})
	if q.Slot < 0 || q.Slot >= q.Slots {
		return cond("$$in", Op("$min", free), literal(int32(0)))
	}
	first := literal(int32(q.Slot))
	return cond("$$in", let(Op("free", free), cond(Op("$in", bson.A{first, "$$free"}), first, Op("$min", "$$free"))), first)
}
