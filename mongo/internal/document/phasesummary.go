package document

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// What replies say of a phase. The server counts its holds, so that the array of them does not
// travel; a reply has the entries only of the holds that were asked about. Readers of documents
// ask for it where they know of a phase: Fields, which all others ask for, shows that there is
// one and nothing else.

// phase is what State knows of a phase.
type phase struct {
	Readers, Slots int
	FreeSlot       int
	entries        []entry
	last           int64 // the phase that was over last
	slotEnd        int64 // when one of the slots that were asked for is free; 0: not known
	newest, oldest int64 // when the holds that live were granted; 0: not known, or nobody is there
	holder         string
}

// entry is one of a hold that was asked about.
type entry struct {
	id    driver.HoldID
	slot  int
	token int64
	since int64 // in ms; 0: not known
	ends  int64 // in ms

	owned  bool   // see State
	passed string // see Waiting
}

// PhaseFields is Fields and what is known of a phase.
func PhaseFields() bson.D {
	live := filter(entries, entryLives)
	count := func(keep any) bson.D { return Op("$size", filter(entries, and(entryLives, keep))) }
	return append(Fields[:len(Fields):len(Fields)],
		bson.E{Key: "readers", Value: count(not(entryOfSlot))},
		bson.E{Key: "slots", Value: count(and(entryOfSlot, Op("$gt", bson.A{"$$this.h", nil})))},
		bson.E{Key: "freeSlot", Value: Op("$min", Op("$setDifference", bson.A{
			Op("$range", bson.A{0, driver.MaxSlots + 1}), each(filter(entries, and(entryLives, entryOfSlot)), "$$this.s")}))},
		bson.E{Key: "oldest", Value: Op("$min", each(live, "$$this.a"))},
		bson.E{Key: "holder", Value: Op("$arrayElemAt", bson.A{each(live, "$$this.o"), 0})},
	)
}

// FullFields is PhaseFields, with who stands in the line.
func FullFields() bson.D {
	return append(PhaseFields(), countLine)
}

// joinFields is what the reply to a join says.
func joinFields(q driver.Request) bson.D {
	fields := append(Fields[:len(Fields):len(Fields)], entriesOf([]driver.Hold{{ID: q.ID}}))
	if q.Mode == driver.Slot {
		below := and(entryLives, entryOfSlot, Op("$lt", bson.A{"$$this.s", int32(q.Slots)}))
		fields = append(fields, bson.E{Key: "slotEnd", Value: Op("$min", each(filter(entries, below), "$$this.e"))})
	}
	return fields
}

// EntryFields is Fields with the entries of holds, and of those who have their slots now.
func EntryFields(holds []driver.Hold) bson.D {
	return append(Fields[:len(Fields):len(Fields)], bson.E{Key: "phase", Value: 1}, entriesOf(holds))
}

// entriesOf is the field of those entries.
func entriesOf(holds []driver.Hold) bson.E {
	ids, slots := bson.A{}, bson.A{}
	for _, h := range holds {
		if ids = append(ids, HoldID(h.ID)); h.Mode == driver.Slot && h.Phase > 0 {
			slots = append(slots, int32(h.Slot))
		}
	}
	is := entryIs(ids[0])
	if len(ids) > 1 {
		is = Op("$in", bson.A{"$$this.h", ids})
	}
	if len(slots) > 0 {
		is = Op("$or", bson.A{is, Op("$in", bson.A{"$$this.s", slots})})
	}
	return bson.E{Key: "mine", Value: filter(entries, is)}
}

// parsePhase reads what a reply says of a phase.
func (r *State) parsePhase(doc bson.Raw) {
	r.last, _ = doc.Lookup("phase").Int64OK()
	if r.Phase == 0 {
		return
	}
	if r.Token > 0 && r.Phase > r.Token {
		r.Corrupt = "the hold is a phase with a token above the document's"
	}
	r.Readers, r.Slots, r.FreeSlot = number(doc, "readers"), number(doc, "slots"), number(doc, "freeSlot")
	r.holder, _ = doc.Lookup("holder").StringValueOK()
	r.holder = r.holder[:min(len(r.holder), 255)]
	r.oldest, _ = doc.Lookup("oldest").DateTimeOK()
	r.newest, _ = doc.Lookup("newest").DateTimeOK()
	r.slotEnd, _ = doc.Lookup("slotEnd").DateTimeOK()
	mine, _ := doc.Lookup("mine").ArrayOK()
	r.parseEntries(mine)
	if all, stored := doc.Lookup("holds").ArrayOK(); stored { // the reply to a repeated command has the document as it is stored
		r.parseEntries(all)
		for _, e := range r.entries {
			if e.slot < 0 {
				r.Readers++
			} else {
				r.Slots++
			}
		}
	}
}

func (r *State) parseEntries(array bson.RawArray) {
	values, _ := array.Values()
	for _, v := range values {
		if e, ok := v.DocumentOK(); ok {
			r.parseEntry(e)
		}
	}
}

func (r *State) parseEntry(doc bson.Raw) {
	e := entry{slot: -1}
	if subtype, id, ok := doc.Lookup("h").BinaryOK(); ok && subtype == bson.TypeBinaryGeneric && len(id) == len(e.id) {
		e.id = driver.HoldID(id)
	}
	if slot, ok := doc.Lookup("s").AsInt64OK(); ok && slot >= 0 && slot < driver.MaxSlots {
		e.slot = int(slot)
	}
	e.token, _ = tokenOf(doc.Lookup("t"))
	e.since, _ = doc.Lookup("a").DateTimeOK()
	e.ends, _ = doc.Lookup("e").DateTimeOK()
	_, e.owned = doc.Lookup("o").StringValueOK()
	e.passed, _ = doc.Lookup("p").StringValueOK()
	r.entries = append(r.entries, e)
}

func number(doc bson.Raw, name string) int {
	n, _ := doc.Lookup(name).AsInt64OK()
	return int(n)
}

// find is the entry of a hold.
func (r State) find(id driver.HoldID) (entry, bool) {
	for _, e := range r.entries {
		if e.id == id {
			return e, true
		}
	}
	return entry{}, false
}

// Has reports whether the document has the hold of q.
func (r State) Has(q driver.Request) bool {
	if q.Mode == driver.Exclusive {
		return r.Hold == q.ID
	}
	_, has := r.find(q.ID)
	return has && r.Phase > 0
}

// Excludes reports whether q cannot be beside what the document has.
func (r State) Excludes(q driver.Request) bool {
	return !r.Has(q) && (q.Mode == driver.Exclusive || r.Phase == 0)
}

// Refuses reports whether the document shows why q was refused.
func (r State) Refuses() bool { return r.Left > 0 || r.Lined }

// GrantedTo is the answer to q, whose hold the document has.
func (r State) GrantedTo(q driver.Request) driver.Result {
	g := r.Granted()
	if q.Mode == driver.Exclusive || g.Status != driver.Granted {
		return g
	}
	e, _ := r.find(q.ID)
	g.Phase, g.Token, g.Stored = r.Phase, r.Phase, r.Phase
	if q.Mode == driver.Slot {
		if e.slot < 0 || e.slot >= q.Slots && e.owned || e.token <= r.Phase || e.token > r.Token { // one that was passed may be for another caller
			r.Corrupt = "the slot of a hold, or its token, is out of range"
			return driver.Result{Status: driver.Unknown, Err: r.CorruptError("acquire")}
		}
		g.Slot, g.Token, g.Stored = e.slot, e.token, e.token
	}
	return g
}

// RefusedTo is the answer to q, which the document refuses.
func (r State) RefusedTo(q driver.Request) driver.Result {
	answer := r.Refused()
	if r.Phase > 0 {
		answer.Shared = q.Mode == driver.Exclusive
		if q.Mode == driver.Slot && r.slotEnd > r.at {
			answer.Left = between(r.at, r.slotEnd)
		}
	}
	return answer
}

// infoOfPhase is Info of a key in a phase.
func (r State) infoOfPhase(key string) driver.Info {
	i := driver.Info{Key: key, Owner: r.holder, Token: r.Phase, Since: r.Since, Waiting: r.Standing, WaitingSince: r.First}
	if i.Left = r.Left; i.Left == 0 {
		i.Owner = r.Owner
		return i
	}
	if r.oldest != 0 {
		i.Since = time.UnixMilli(r.oldest).UTC()
	}
	i.Held, i.Kept = true, r.Readers+r.Slots == 0
	i.Readers, i.Slots, i.FreeSlot = r.Readers, r.Slots, r.FreeSlot
	return i
}

// LeftOf is for how long a hold goes on that the document has.
func (r State) LeftOf(h driver.Hold) time.Duration {
	if h.Mode == driver.Exclusive {
		return r.Left
	}
	e, _ := r.find(h.ID)
	return between(r.at, e.ends)
}

// Loss is Fate for a hold whose holder has not released it: the entry of a reader or slot that is
// gone was not released but forgotten, or removed by hand.
func Loss(r State, there bool, h driver.Hold) driver.Status {
	status := Fate(r, there, h)
	if status == driver.Released && h.Mode != driver.Exclusive {
		return driver.Removed
	}
	return status
}

// fateOfEntry says what became of a reader or slot. In its own phase an entry goes by its
// release, when it is long over, or, a slot's, by the next hold of that; a phase goes by an
// exclusive grant, a forced release or its last release, which leaves its token.
func (r State) fateOfEntry(h driver.Hold) driver.Status {
	_, there := r.find(h.ID)
	switch {
	case r.Phase > 0 && there:
		return driver.Alive
	case h.Phase == 0:
		return driver.Removed
	case !r.Held() && r.last == h.Phase:
		return driver.Released
	case r.Phase == h.Phase:
		for _, e := range r.entries {
			if h.Mode == driver.Slot && e.slot == h.Slot && e.token > h.Stored {
				return driver.Taken
			}
		}
		return driver.Released
	case !r.Held() && r.Forced:
		return driver.Forced
	}
	return driver.Taken
}
