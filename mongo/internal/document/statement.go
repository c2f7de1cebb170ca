package document

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// TakeOne is the acquire of one key. It creates a document that is not there.
func TakeOne(leases string, q driver.Request, standalone bool) bson.D {
	fields := Fields
	if q.Mode != driver.Exclusive {
		fields = joinFields(q)
	}
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: ByKey(q.Key)},
		{Key: "update", Value: Acquiring(q, standalone)},
		{Key: "upsert", Value: true},
		{Key: "new", Value: true},
		{Key: "fields", Value: fields},
	}
}

// Acquiring is the update that takes the key of q, or joins its phase.
func Acquiring(q driver.Request, standalone bool) bson.A {
	if q.Mode != driver.Exclusive {
		return bson.A{joining(q, standalone)}
	}
	return bson.A{taking(q, standalone)}
}

// taking is the update that takes the key of q. What comes from the caller is
// literal: an owner may begin with a dollar sign.
func taking(q driver.Request, standalone bool) bson.D {
	hold := HoldID(q.ID)
	var keep, fenced any = nil, "$fenced" // sticky; absent stays absent
	if q.Keep > 0 {
		keep = plus(Now, Millis(q.Keep))
	}
	if q.Guarded {
		fenced = literal(true)
	}
	return Op("$replaceWith", take(hold, grant(standalone, literal(q.Key), hold, literal(q.Owner), Millis(q.TTL), keep, fenced)))
}

// TakeMany is the acquire of all keys whose documents exist: each document
// finds its own hold, by its place in the list of keys.
func TakeMany(leases string, reqs []driver.Request, standalone bool) bson.D {
	first := reqs[0]
	keys, holds, owners, ttls, keeps, fences := bson.A{}, bson.A{}, bson.A{}, bson.A{}, bson.A{}, bson.A{}
	oneOwner, oneTTL, oneKeep, oneFence := true, true, true, true
	for _, q := range reqs {
		keys = append(keys, KeyID(q.Key))
		holds = append(holds, HoldID(q.ID))
		owners = append(owners, q.Owner)
		ttls = append(ttls, Millis(q.TTL))
		keeps = append(keeps, Millis(q.Keep))
		fences = append(fences, q.Guarded)
		oneOwner = oneOwner && q.Owner == first.Owner
		oneTTL = oneTTL && q.TTL == first.TTL
		oneKeep = oneKeep && q.Keep == first.Keep
		oneFence = oneFence && q.Guarded == first.Guarded
	}
	// A list costs the server a look-up a document: only where it is needed.
	mine := func(all bson.A, one bool) any {
		if one {
			return literal(all[0])
		}
		return Op("$arrayElemAt", bson.A{literal(all), "$$i"})
	}
	hold := mine(holds, false)
	var keep, fenced any = nil, "$fenced"
	if !oneKeep {
		ms := mine(keeps, false)
		keep = Op("$cond", bson.A{Op("$gt", bson.A{ms, 0}), plus(Now, ms), "$$REMOVE"})
	} else if first.Keep > 0 {
		keep = plus(Now, Millis(first.Keep))
	}
	if !oneFence {
		fenced = Op("$cond", bson.A{mine(fences, false), true, "$fenced"})
	} else if first.Guarded {
		fenced = literal(true)
	}
	doc := grant(standalone, "$name", hold, mine(owners, oneOwner), mine(ttls, oneTTL), keep, fenced)
	stage := Op("$replaceWith", let(Op("i", Op("$indexOfArray", bson.A{literal(keys), "$_id"})), take(hold, doc)))
	return bson.D{
		{Key: "update", Value: leases},
		{Key: "updates", Value: bson.A{bson.D{
			{Key: "q", Value: Op("_id", Op("$in", keys))},
			{Key: "u", Value: bson.A{stage}},
			{Key: "multi", Value: true},
		}}},
	}
}

// Renew is one update statement for each length of time that is asked for, and one for each
// reader and slot.
func Renew(leases string, holds []driver.Hold) bson.D {
	type term struct{ ttl, maxHold time.Duration }
	groups := make(map[term][]driver.Hold)
	var terms []term
	updates := bson.A{}
	for _, h := range holds {
		if h.Mode != driver.Exclusive {
			updates = append(updates, renewEntry(h))
			continue
		}
		t := term{h.TTL, h.MaxHold}
		if groups[t] == nil {
			terms = append(terms, t)
		}
		groups[t] = append(groups[t], h)
	}
	for _, t := range terms {
		end := plus(Now, Millis(t.ttl))
		if t.maxHold > 0 {
			end = Op("$min", bson.A{end, plus("$acquiredAt", Millis(t.maxHold))})
		}
		updates = append(updates, bson.D{
			{Key: "q", Value: ByHolds(groups[t])},
			{Key: "u", Value: bson.A{Op("$set", Op("expiresAt", Op("$max", bson.A{"$expiresAt", end})))}},
			{Key: "multi", Value: len(groups[t]) > 1},
		})
	}
	return bson.D{{Key: "update", Value: leases}, {Key: "updates", Value: updates}, {Key: "ordered", Value: false}}
}

// ByHolds matches the documents that have these holds. Hold IDs are unique, so
// the two lists cannot cross.
func ByHolds(holds []driver.Hold) bson.D {
	if len(holds) == 1 {
		return bson.D{{Key: "_id", Value: KeyID(holds[0].Key)}, {Key: "hold", Value: HoldID(holds[0].ID)}}
	}
	keys, ids := make(bson.A, len(holds)), make(bson.A, len(holds))
	for i, h := range holds {
		keys[i], ids[i] = KeyID(h.Key), HoldID(h.ID)
	}
	return bson.D{{Key: "_id", Value: Op("$in", keys)}, {Key: "hold", Value: Op("$in", ids)}}
}

// EndOne removes a hold of a key without a line.
func EndOne(leases string, h driver.Hold) bson.D {
	query, update := ByHolds([]driver.Hold{h}), any(Removal(h.Undo))
	if h.Mode != driver.Exclusive {
		query, update = byEntry(h), entryRemoval(h)
	}
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: append(query, withoutLine)},
		{Key: "update", Value: update},
		{Key: "fields", Value: Op("_id", 1)},
	}
}

// Force ends whatever hold a key has, those of a phase too, and raises its token. Its line stays as it is. It brings back the
// document as it was. With seen it ends that hold or phase only.
func Force(leases, key string, seen *driver.Info) bson.D {
	query := ByKey(key)
	if seen != nil {
		query = append(query, has(seen)...)
	}
	gone := bson.D{}
	for _, name := range []string{"hold", "holds", "keepUntil", "passed"} {
		gone = append(gone, bson.E{Key: name, Value: ""})
	}
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: query},
		{Key: "update", Value: bson.D{
			{Key: "$unset", Value: gone},
			{Key: "$set", Value: Op("forced", true)},
			{Key: "$inc", Value: Op("token", int64(driver.TokenRange))},
			{Key: "$currentDate", Value: Op("expiresAt", true)},
		}},
		{Key: "fields", Value: FullFields()},
	}
}

// has matches a document with the hold that was seen. One without an ID is a phase with live
// holds, which its token names, or was released while MinHold keeps the key.
func has(seen *driver.Info) bson.D {
	if seen.Hold != (driver.HoldID{}) {
		return bson.D{{Key: "hold", Value: HoldID(seen.Hold)}, {Key: "token", Value: seen.Token}}
	}
	live := func(end any) bson.D { return Op("$gt", bson.A{end, Now}) }
	return Op("$or", bson.A{
		bson.D{{Key: "hold", Value: seen.Token}, {Key: "$expr", Value: live("$expiresAt")}},
		bson.D{{Key: "hold", Value: Op("$exists", false)}, {Key: "token", Value: seen.Token}, {Key: "$expr", Value: live("$keepUntil")}},
	})
}

// EndMany removes several holds: the exclusive ones by one statement, each reader and slot by
// one of its own.
func EndMany(leases string, holds []driver.Hold) bson.D {
	updates := bson.A{}
	var exclusive []driver.Hold
	for _, h := range holds {
		if h.Mode == driver.Exclusive {
			exclusive = append(exclusive, h)
		} else {
			updates = append(updates, endEntry(h))
		}
	}
	if len(exclusive) > 0 {
		updates = append(updates, bson.D{
			{Key: "q", Value: append(ByHolds(exclusive), withoutLine)},
			{Key: "u", Value: Removal(holds[0].Undo)},
			{Key: "multi", Value: true},
		})
	}
	cmd := bson.D{{Key: "update", Value: leases}, {Key: "updates", Value: updates}}
	if len(updates) > 1 {
		cmd = append(cmd, bson.E{Key: "ordered", Value: false})
	}
	return cmd
}

// End is the statement of a numbered update that ends one hold, taken back, of a key without a line.
func End(h driver.Hold) bson.D {
	h.Undo = true
	if h.Mode != driver.Exclusive {
		return endEntry(h)
	}
	return bson.D{{Key: "q", Value: append(ByHolds([]driver.Hold{h}), withoutLine)}, {Key: "u", Value: Removal(true)}}
}

// Removal is what happens to a document whose hold ends. keepUntil, which
// MinHold wrote at the grant, outlives the release of a lease, but not an undo.
// A lease that is released was granted to its end, so the document is not fresh any more.
func Removal(undo bool) bson.D {
	gone := bson.D{{Key: "hold", Value: ""}, {Key: "fresh", Value: ""}}
	if undo {
		gone[1].Key = "keepUntil"
	}
	return bson.D{{Key: "$unset", Value: gone}, {Key: "$currentDate", Value: Op("expiresAt", true)}}
}

// ByKey matches the document of a key.
func ByKey(key string) bson.D { return Op("_id", KeyID(key)) }

// ByKeys matches the documents of keys.
func ByKeys(keys []string) bson.D {
	if len(keys) == 1 {
		return ByKey(keys[0])
	}
	ids := make(bson.A, len(keys))
	for i, k := range keys {
		ids[i] = KeyID(k)
	}
	return Op("_id", Op("$in", ids))
}

// Dead matches documents that have been free for longer than grace, and in whose line nobody
// has stood for as long. Documents
// without a date are none of ours, or not locks: the larger of dates that are
// not there is less than any date.
func Dead(grace time.Duration) bson.D {
	return bson.D{
		{Key: "expiresAt", Value: Op("$type", "date")},
		{Key: "$expr", Value: Op("$lte", bson.A{Op("$max", bson.A{"$expiresAt", "$keepUntil", Op("$max", "$line.u")}), Op("$subtract", bson.A{Now, Millis(grace)})})},
	}
}

// DeadAs matches a document that is dead and as it was read.
func DeadAs(r State, grace time.Duration) bson.D {
	var hold any // null: absent
	switch {
	case r.Phase > 0:
		hold = r.Phase
	case r.Held():
		hold = HoldID(r.Hold)
	}
	return append(bson.D{
		{Key: "_id", Value: KeyID(r.Key)},
		{Key: "token", Value: r.Token},
		{Key: "hold", Value: hold},
	}, Dead(grace)...)
}
