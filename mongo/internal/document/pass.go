package document

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// How the key is passed on. The stages begin with what the statement before them has put into passing:
//
//	list  the line, the request that asks at its end, if it does not stand
//	mine  the request that asks has the key
//	stands  it stands in the line
//
// While nothing keeps the key from the first of the list, that becomes a hold: with the terms of the request if it is the
// one that asks, else for its claim. An exclusive entry does alone. Readers and slots do together, up to the first
// exclusive one; a slot for which there is none stays. Those behind it can take none of its own: it has seen that they are taken.

// asker is the request that sends the statement, or none, where a release does.
type asker struct {
	q          driver.Request
	id         any // of the request, as an expression; nil: there is none
	standalone bool
}

func newAsker(q driver.Request, standalone bool) *asker { return &asker{q, HoldID(q.ID), standalone} }

// is: the entry is the asker's.
func (a *asker) is(entry string) bson.D { return Op("$eq", bson.A{entry + ".h", a.id}) }

// mine is one value for the asker's entry, and another for those of others.
func (a *asker) mine(entry string, mine, other any) any {
	if a.id == nil {
		return other
	}
	return cond(a.is(entry), mine, other)
}

// remains is the list without the asker's entry, if that may not stand.
func (a *asker) remains(list any) any {
	switch {
	case a.id == nil:
		return list
	case a.q.Stand:
		return Op("$slice", bson.A{list, driver.MaxLine})
	}
	return cond("$passing.stands", list, filter(list, Op("$ne", bson.A{"$$this.h", a.id})))
}

// mayHaveFence: there is a fence of the key, or nobody has looked for one.
var mayHaveFence = Op("$or", bson.A{"$fenced", "$fresh"})

// pass are the stages that pass the key on.
func (a *asker) pass() []any {
	free := Op("$lte", bson.A{Op("$max", bson.A{cond(inPhase, lastEnd, cond("$hold", "$expiresAt", nil)), "$keepUntil"}), Now})
	exclusive := Op("$eq", bson.A{"$passing.first.m", int32(driver.Exclusive)})
	shared := Op("$gt", bson.A{"$passing.first.m", int32(driver.Exclusive)})
	return []any{
		Op("$set", bson.D{
			{Key: "passing.first", Value: Op("$arrayElemAt", bson.A{"$passing.list", 0})},
			{Key: "passing.in", Value: inPhase},
			{Key: "passing.free", Value: free},
			{Key: "passing.token", Value: Op("$toLong", nextToken(a.standalone))},
		}),
		Op("$set", Op("passing.run", cond(and(not("$passing.mine"), shared, Op("$or", bson.A{"$passing.in", "$passing.free"})), a.run(), nil))),
		Op("$replaceWith", Op("$switch", bson.D{
			{Key: "branches", Value: bson.A{
				bson.D{{Key: "case", Value: "$passing.mine"}, {Key: "then", Value: a.told()}},
				bson.D{{Key: "case", Value: and(exclusive, "$passing.free")}, {Key: "then", Value: a.toFirst()}},
				bson.D{{Key: "case", Value: Op("$gt", bson.A{"$passing.run.joined", 0})}, {Key: "then", Value: a.toRun()}},
			}},
			{Key: "default", Value: a.stays()},
		})),
	}
}

// stays is the document where nothing is passed.
func (a *asker) stays() bson.D {
	return Op("$mergeObjects", bson.A{"$$ROOT", Op("passing", Op("rest", a.remains("$passing.list")))})
}

// fresh is that field in the document of a new hold.
func (a *asker) fresh() any {
	if a.standalone {
		return "$$REMOVE"
	}
	return fresh
}

// name is the key as text.
func (a *asker) name() any {
	if a.q.Key == "" {
		return "$name"
	}
	return literal(a.q.Key)
}

// toFirst is the document of the first of the list, which is exclusive.
func (a *asker) toFirst() bson.D {
	var keep any = "$$REMOVE"
	if a.q.Keep > 0 {
		keep = a.mine("$passing.first", plus(Now, Millis(a.q.Keep)), "$$REMOVE")
	}
	guarded := Op("$eq", bson.A{"$passing.first.g", true})
	return bson.D{
		{Key: "_id", Value: "$_id"},
		{Key: "name", Value: a.name()},
		{Key: "hold", Value: "$passing.first.h"},
		{Key: "owner", Value: a.mine("$passing.first", literal(a.q.Owner), "$$REMOVE")},
		{Key: "token", Value: "$passing.token"},
		{Key: "acquiredAt", Value: Now},
		{Key: "expiresAt", Value: plus(Now, a.mine("$passing.first", Millis(a.q.TTL), claimOf("$passing.first")))},
		{Key: "fenced", Value: cond(guarded, true, "$fenced")},
		{Key: "fresh", Value: a.fresh()},
		{Key: "passed", Value: a.mine("$passing.first", "$$REMOVE", cond(and(mayHaveFence, not(guarded)), passedToFence, passedTo))},
		{Key: "keepUntil", Value: keep},
		{Key: "passing", Value: Op("rest", a.remains(Op("$slice", bson.A{"$passing.list", 1, 2 * driver.MaxLine})))},
	}
}

// run is who of the list becomes a hold, and what is left of it: {holds, token, rest, joined, closed, guarded}. closed: an
// exclusive entry came.
func (a *asker) run() bson.D {
	taken := each(filter("$$run.holds", and(entryLives, entryOfSlot)), "$$this.s")
	free := Op("$setDifference", bson.A{Op("$range", bson.A{0, "$$e.n"}), taken})
	isSlot := Op("$eq", bson.A{"$$e.m", int32(driver.Slot)})
	slot := Op("$min", "$$free")
	if a.q.Mode == driver.Slot && a.q.Slot >= 0 && a.q.Slot < a.q.Slots {
		first := literal(int32(a.q.Slot))
		slot = cond(and(a.is("$$e"), Op("$in", bson.A{first, "$$free"})), first, slot)
	}
	token := Op("$add", bson.A{"$$run.token", int64(driver.TokenRange)})
	closed := Op("$or", bson.A{"$$run.closed", Op("$eq", bson.A{"$$e.m", int32(driver.Exclusive)})})
	with := func(changes ...bson.E) bson.D { return Op("$mergeObjects", bson.A{"$$run", bson.D(changes)}) }
	add := func(list, v any) bson.D { return Op("$concatArrays", bson.A{list, bson.A{v}}) }
	rest := bson.E{Key: "rest", Value: add("$$run.rest", "$$e")}
	joined := bson.E{Key: "joined", Value: Op("$add", bson.A{"$$run.joined", 1})}
	guarded := bson.E{Key: "guarded", Value: Op("$or", bson.A{"$$run.guarded", Op("$eq", bson.A{"$$e.g", true})})}
	next := let(bson.D{{Key: "free", Value: cond(isSlot, free, bson.A{})}}, let(bson.D{{Key: "slot", Value: slot}},
		Op("$switch", bson.D{
			{Key: "branches", Value: bson.A{
				bson.D{{Key: "case", Value: closed}, {Key: "then", Value: with(rest, bson.E{Key: "closed", Value: true})}},
				bson.D{{Key: "case", Value: not(isSlot)}, {Key: "then", Value: with(joined, guarded, bson.E{Key: "holds", Value: add("$$run.holds", a.entry(false, nil))})}},
				bson.D{{Key: "case", Value: Op("$ne", bson.A{"$$slot", nil})}, {Key: "then", Value: with(joined, guarded,
					bson.E{Key: "token", Value: token},
					bson.E{Key: "holds", Value: add(filter("$$run.holds", Op("$ne", bson.A{"$$this.s", "$$slot"})), a.entry(true, token))})}},
			}},
			{Key: "default", Value: with(rest)},
		})))
	stays := and(Op("$gt", bson.A{"$$this.e", plus(Now, -Millis(forgetAfter))}))
	if a.id != nil {
		stays = and(stays, Op("$ne", bson.A{"$$this.h", a.id}))
	}
	return Op("$reduce", bson.D{
		{Key: "input", Value: "$passing.list"},
		{Key: "initialValue", Value: bson.D{
			{Key: "holds", Value: cond("$passing.in", filter("$holds", stays), bson.A{})},
			{Key: "token", Value: cond("$passing.in", "$token", "$passing.token")},
			{Key: "rest", Value: bson.A{}}, {Key: "joined", Value: 0}, {Key: "closed", Value: false}, {Key: "guarded", Value: false},
		}},
		{Key: "in", Value: let(bson.D{{Key: "e", Value: "$$this"}, {Key: "run", Value: "$$value"}}, next)},
	})
}

// entry is the hold of $$e in a phase.
func (a *asker) entry(slot bool, token any) bson.D {
	ttl := Millis(a.q.TTL)
	if slot {
		ttl = Millis(max(a.q.TTL, a.q.Keep))
	}
	e := bson.D{{Key: "h", Value: "$$e.h"}, {Key: "a", Value: Now}}
	if slot {
		e = append(e, bson.E{Key: "s", Value: "$$slot"}, bson.E{Key: "t", Value: token})
		if a.q.Keep > 0 {
			e = append(e, bson.E{Key: "k", Value: a.mine("$$e", plus(Now, Millis(a.q.Keep)), "$$REMOVE")})
		}
	}
	return append(e,
		bson.E{Key: "e", Value: plus(Now, a.mine("$$e", ttl, claimOf("$$e")))},
		bson.E{Key: "o", Value: a.mine("$$e", literal(a.q.Owner), "$$REMOVE")},
		bson.E{Key: "p", Value: a.mine("$$e", "$$REMOVE", cond(and(mayHaveFence, Op("$ne", bson.A{"$$e.g", true})), passedToFence, passedTo))},
	)
}

// toRun is the document in a phase with those of passing.run.
func (a *asker) toRun() bson.D {
	isFresh := a.fresh()
	if !a.standalone {
		isFresh = cond("$passing.run.guarded", freshPhase, isFresh)
	}
	return bson.D{
		{Key: "_id", Value: "$_id"},
		{Key: "name", Value: a.name()},
		{Key: "hold", Value: cond("$passing.in", "$hold", "$passing.token")},
		{Key: "owner", Value: "$owner"},
		{Key: "token", Value: "$passing.run.token"},
		{Key: "acquiredAt", Value: cond("$passing.in", "$acquiredAt", Now)},
		{Key: "expiresAt", Value: Now}, // until writeLine
		{Key: "fenced", Value: cond("$passing.run.guarded", true, "$fenced")},
		{Key: "fresh", Value: isFresh},
		{Key: "holds", Value: "$passing.run.holds"},
		{Key: "passing", Value: Op("rest", a.remains("$passing.run.rest"))},
	}
}

// told is the document of the asker, which has the key. It stays as it is, but where the key was passed to it past a fence:
// then it becomes what it asked for, from now on, because the fence is raised now. It is answered like a new grant.
func (a *asker) told() bson.D {
	if a.id == nil {
		return a.stays()
	}
	id, end := a.id, plus(Now, Millis(a.q.TTL))
	changes := bson.D{}
	if a.q.Mode == driver.Exclusive {
		if a.q.Keep > 0 {
			changes = append(changes, bson.E{Key: "keepUntil", Value: plus(Now, Millis(a.q.Keep))})
		}
		changes = append(changes, bson.E{Key: "owner", Value: literal(a.q.Owner)}, bson.E{Key: "passed", Value: nil},
			bson.E{Key: "acquiredAt", Value: Now},
			bson.E{Key: "expiresAt", Value: Op("$max", bson.A{"$expiresAt", end})})
	} else {
		entry := bson.D{{Key: "o", Value: literal(a.q.Owner)}, {Key: "e", Value: Op("$max", bson.A{"$$this.e", end})}, {Key: "a", Value: Now}}
		if a.q.Keep > 0 && a.q.Mode == driver.Slot {
			k := plus(Now, Millis(a.q.Keep))
			entry[1].Value = Op("$max", bson.A{"$$this.e", end, k})
			entry = append(entry, bson.E{Key: "k", Value: k})
		}
		untold := and(entryIs(id), not(Op("$gt", bson.A{"$$this.o", nil})), Op("$eq", bson.A{"$$this.p", passedToFence}))
		if a.q.Mode == driver.Slot { // else it was for another caller of this program
			untold = and(untold, Op("$lt", bson.A{"$$this.s", int32(a.q.Slots)}))
		}
		changes = append(changes, bson.E{Key: "holds", Value: each("$holds", cond(untold, Op("$mergeObjects", bson.A{"$$this", entry}), "$$this"))})
	}
	if a.q.Guarded {
		changes = append(changes, bson.E{Key: "fenced", Value: true})
	}
	changes = append(changes, bson.E{Key: "passing", Value: Op("rest", "$passing.list")})
	all := Op("$mergeObjects", bson.A{"$$ROOT", changes})
	if a.q.Mode != driver.Exclusive {
		return all
	}
	return cond(Op("$eq", bson.A{"$passed", passedToFence}), all, a.stays())
}
