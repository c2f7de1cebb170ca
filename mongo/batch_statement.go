package mongolock

import "go.mongodb.org/mongo-driver/v2/bson"

// updateMany is the acquire of all entries whose documents exist: each document
// finds its own hold, by its place in the list of keys.
func (b *batch) updateMany(entries []int) bson.D {
	first := b.reqs[entries[0]]
	keys, holds, owners, ttls, keeps, fences, clients, wants := bson.A{}, bson.A{}, bson.A{}, bson.A{}, bson.A{}, bson.A{}, bson.A{}, bson.A{}
	oneOwner, oneTTL, oneKeep, oneFence, oneClient, oneWant := true, true, true, true, true, true
	for _, i := range entries {
		q := b.reqs[i]
		keys = append(keys, keyID(q.Key))
		holds = append(holds, holdID(q.ID))
		owners = append(owners, q.Owner)
		ttls = append(ttls, millis(q.TTL))
		keeps = append(keeps, millis(q.Keep))
		fences = append(fences, q.Guarded)
		clients = append(clients, int32(q.Client))
		wants = append(wants, leaves(q))
		oneOwner = oneOwner && q.Owner == first.Owner
		oneTTL = oneTTL && q.TTL == first.TTL
		oneKeep = oneKeep && q.Keep == first.Keep
		oneFence = oneFence && q.Guarded == first.Guarded
		oneClient = oneClient && q.Client == first.Client
		oneWant = oneWant && leaves(q) == leaves(first)
	}
	// A list costs the server a look-up a document: only where it is needed.
	mine := func(all bson.A, one bool) any {
		if one {
			return literal(all[0])
		}
		return op("$arrayElemAt", bson.A{literal(all), "$$i"})
	}
	hold := mine(holds, false)
	var keep, fenced any = nil, "$fenced"
	if !oneKeep {
		ms := mine(keeps, false)
		keep = op("$cond", bson.A{op("$gt", bson.A{ms, 0}), plus(now, ms), "$$REMOVE"})
	} else if first.Keep > 0 {
		keep = plus(now, millis(first.Keep))
	}
	if !oneFence {
		fenced = op("$cond", bson.A{mine(fences, false), true, "$fenced"})
	} else if first.Guarded {
		fenced = literal(true)
	}
	var client, refused any = int32(first.Client), "$$ROOT"
	if !oneClient {
		client = mine(clients, false)
	}
	if !oneWant {
		refused = op("$cond", bson.A{mine(wants, false), leaveHint(hold, client), "$$ROOT"})
	} else if leaves(first) {
		refused = leaveHint(hold, client)
	}
	doc := grant(b.s.standalone.Load(), "$name", hold, mine(owners, oneOwner), mine(ttls, oneTTL), keep, fenced, client)
	taking := take(hold, doc, refused)
	stage := op("$replaceWith", op("$let", bson.D{
		{Key: "vars", Value: op("i", op("$indexOfArray", bson.A{literal(keys), "$_id"}))},
		{Key: "in", Value: taking[0].Value},
	}))
	return bson.D{
		{Key: "update", Value: b.s.leases},
		{Key: "updates", Value: bson.A{bson.D{
			{Key: "q", Value: op("_id", op("$in", keys))},
			{Key: "u", Value: bson.A{stage}},
			{Key: "multi", Value: true},
		}}},
	}
}
