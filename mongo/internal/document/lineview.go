package document

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// What replies say of the line, and of the hold of one that stood in it.

// LineFields is what a reply says to those who asked, of which no two have the same key.
func LineFields(asked []driver.Entry) bson.D {
	ids, keys, slots := bson.A{}, bson.A{}, bson.A{}
	most := 0
	for _, e := range asked {
		ids, keys = append(ids, HoldID(e.ID)), append(keys, KeyID(e.Key))
		n := 0
		if e.Mode == driver.Slot {
			n = min(max(e.Slots, 0), driver.MaxSlots)
		}
		slots, most = append(slots, int32(n)), max(most, n)
	}
	id, n := any(ids[0]), any(slots[0])
	if len(asked) > 1 {
		of := func(all bson.A) bson.D {
			return Op("$arrayElemAt", bson.A{literal(all), Op("$indexOfArray", bson.A{literal(keys), "$_id"})})
		}
		id, n = of(ids), of(slots)
	}
	says := bson.D{
		{Key: "n", Value: Op("$size", "$$live")},
		{Key: "at", Value: "$$at"},
		{Key: "since", Value: Op("$arrayElemAt", bson.A{"$$live.s", 0})},
		{Key: "exclusive", Value: Op("$size", filter("$$before", Op("$eq", bson.A{"$$this.m", int32(driver.Exclusive)})))},
	}
	live := filter(entries, entryLives)
	fields := append(Fields[:len(Fields):len(Fields)],
		bson.E{Key: "passed", Value: 1},
		bson.E{Key: "newest", Value: Op("$max", each(live, "$$this.a"))},
		bson.E{Key: "holder", Value: Op("$arrayElemAt", bson.A{each(live, "$$this.o"), 0})},
		bson.E{Key: "mine", Value: filter(entries, Op("$eq", bson.A{"$$this.h", id}))},
	)
	if most > 0 {
		taken := each(filter(entries, and(entryLives, entryOfSlot)), "$$this.s")
		says = append(says, bson.E{Key: "slot", Value: Op("$ne", bson.A{Op("$setDifference", bson.A{Op("$range", bson.A{0, n}), taken}), bson.A{}})})
		below := and(entryLives, entryOfSlot, Op("$lt", bson.A{"$$this.s", n}))
		fields = append(fields, bson.E{Key: "slotEnd", Value: Op("$min", each(filter(entries, below), "$$this.e"))})
	}
	return append(fields, bson.E{Key: "stand", Value: let(bson.D{{Key: "live", Value: liveLine}},
		let(bson.D{{Key: "at", Value: Op("$indexOfArray", bson.A{"$$live.h", id})}},
			let(bson.D{{Key: "before", Value: cond(Op("$gt", bson.A{"$$at", 0}), Op("$slice", bson.A{"$$live", "$$at"}), cond(Op("$eq", bson.A{"$$at", 0}), bson.A{}, "$$live"))}}, says)))})
}

// countLine is the field that tells who stands.
var countLine = bson.E{Key: "stand", Value: let(bson.D{{Key: "live", Value: liveLine}}, bson.D{
	{Key: "n", Value: Op("$size", "$$live")},
	{Key: "since", Value: Op("$arrayElemAt", bson.A{"$$live.s", 0})},
})}

// parseLine reads what a reply says of the line.
func (r *State) parseLine(doc bson.Raw) {
	r.Lined, _ = doc.Lookup("lined").BooleanOK()
	if _, has := doc.Lookup("line").ArrayOK(); has { // the reply to a repeated command has the document as it is stored
		r.Lined = true
	}
	r.passed, _ = doc.Lookup("passed").StringValueOK()
	stand, ok := doc.Lookup("stand").DocumentOK()
	if !ok {
		return
	}
	r.Standing = number(stand, "n")
	if at, ok := stand.Lookup("at").AsInt64OK(); ok && at >= 0 {
		r.Place = int(at) + 1
	}
	if ms, ok := stand.Lookup("since").DateTimeOK(); ok && r.Standing > 0 {
		r.First = time.UnixMilli(ms)
	}
	r.exclusive = number(stand, "exclusive")
	r.freeSlot, _ = stand.Lookup("slot").BooleanOK()
}

// Untold reports whether the document has the hold of q as it was passed, and not as q asked.
func (r State) Untold(q driver.Request) bool {
	if q.Mode == driver.Exclusive {
		return r.Hold == q.ID && !r.owned
	}
	e, has := r.find(q.ID)
	return has && !e.owned
}

// WithLeft adds to a grant to q, which stands, how long it lasts, if q had the key before: it was passed to it, or less is left than q
// asked for. A claim may be as long as the TTL, so what is left alone does not tell. Where nothing tells, as in the reply to a repeated
// command, it is said to last no longer than a moment, and a look finds out.
// The document is as it was so long after the request was sent, at most; 0: as the request left it.
func (r State) WithLeft(g driver.Result, q driver.Request, ago time.Duration) driver.Result {
	if !q.Stand || g.Status != driver.Granted {
		return g
	}
	switch left := r.LeftOf(driver.Hold{ID: q.ID, Mode: q.Mode}); {
	case r.at == 0:
		g.Left = time.Millisecond
	case r.Untold(q) || left+ago < q.TTL:
		g.Left = max(left, time.Millisecond)
	}
	return g
}

// PassedToFence reports whether the request of e was passed the key, which may have a fence that must be raised before it may
// trust its hold.
func (r State) PassedToFence(e driver.Entry) bool {
	if !r.Fresh && !r.Fenced || e.ID == (driver.HoldID{}) {
		return false
	}
	if e.Mode == driver.Exclusive {
		return r.Hold == e.ID && r.passed == passedToFence
	}
	own, has := r.find(e.ID)
	return has && r.Phase > 0 && own.passed == passedToFence && !own.owned
}

// Raised says that there is no fence, or that it was raised.
func (r *State) Raised() { r.Fresh, r.Fenced = false, false }

// WithPlace adds to an answer what the line is.
func (r State) WithPlace(answer driver.Result) driver.Result {
	answer.Place, answer.Standing, answer.First = r.Place, r.Standing, r.sinceFirst()
	return answer
}

func (r State) sinceFirst() time.Duration {
	if r.First.IsZero() || r.at == 0 {
		return 0
	}
	return max(between(r.First.UnixMilli(), r.at), time.Millisecond)
}

// View is what a look says to one who asked by e.
func (r State) View(e driver.Entry) driver.View {
	v := driver.View{Place: r.Place, Standing: r.Standing, First: r.sinceFirst(), Owner: r.Owner}
	switch {
	case r.Phase > 0:
		v.Shared, v.Owner = r.holdEnd > r.at, r.holder
		if r.newest > 0 {
			v.Age = between(r.newest, r.at)
		}
	case r.Hold != driver.HoldID{}:
		v.Age = between(r.Since.UnixMilli(), r.at)
	}
	if e.ID != (driver.HoldID{}) && r.mineIn(&v, e) {
		return v
	}
	switch {
	case e.Mode == driver.Exclusive || r.Phase == 0 || r.exclusive > 0:
		v.Left = between(r.at, max(r.keepUntil, r.holdEnd))
	case e.Mode == driver.Slot && !r.freeSlot:
		v.Left = between(r.at, r.slotEnd)
	}
	v.Free = v.Left == 0
	v.Kept = v.Left > 0 && !r.Held()
	if v.Free && r.Phase == 0 || v.Kept {
		v.Age, v.Owner = 0, ""
	}
	return v
}

// mineIn completes the view of one whose request has a live hold. One that must raise a fence before it may trust that
// is told to send its request again, as if it were the first.
func (r State) mineIn(v *driver.View, e driver.Entry) bool {
	passed, token, slot, phase, left := r.passed, r.Token, 0, int64(0), between(r.at, r.holdEnd)
	switch {
	case e.Mode == driver.Exclusive && r.Hold == e.ID && left > 0 && r.Corrupt == "" && token > 0:
	case e.Mode == driver.Exclusive || r.Phase == 0:
		return false
	default:
		entry, has := r.find(e.ID)
		if left = between(r.at, entry.ends); !has || left == 0 || r.Corrupt != "" {
			return false
		}
		passed, token, phase = entry.passed, r.Phase, r.Phase
		v.Age = between(entry.since, r.at)
		if e.Mode == driver.Slot {
			if entry.slot < 0 || entry.token <= r.Phase || entry.token > r.Token {
				return false
			}
			token, slot = entry.token, entry.slot
		}
		if entry.owned {
			passed = ""
		}
	}
	if passed == passedToFence && (r.Fenced || r.Fresh) {
		v.Free, v.Place, v.Standing = true, 1, v.Standing+1
		return true
	}
	v.Mine, v.Token, v.Stored, v.Phase, v.Slot, v.Left = true, token, token, phase, slot, left
	return true
}
