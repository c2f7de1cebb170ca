package document

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The gate of an exclusive request that waits in a phase is one field, gate: {by: its ID,
// until: date}. Joins ask for it.
//
// That a writer and readers exclude each other does not depend on it here: what is there and
// what time it is, is judged in the same atomic step that grants, so no look can be too old; and
// a renewal that comes late finds the document without its entry. The gate is for fairness:
// while it stands the key is taken for all but its owner (expiresAt is not before its end), also
// when nobody is left in the phase.

// MaxGateTime bounds how long a gate stands. One that ends later was left by a clock that has
// since been set back, and is none.
const MaxGateTime = 10 * time.Minute

// maxGateAfter is the same for gateAfter.
const maxGateAfter = 10 * time.Second

var (
	gateStands = stands("$gate.until", MaxGateTime)
	// afterStands: the readers have the time in which no gate is left.
	afterStands = stands("$gateAfter", maxGateAfter)
)

func stands(date string, most time.Duration) bson.D {
	return and(Op("$gt", bson.A{date, Now}), Op("$lte", bson.A{date, plus(Now, Millis(most))}))
}

// TakeInPhase is TakeOne for an exclusive request that waits, and knows of a phase, or left a
// gate: where that stands it takes the key as soon as nobody holds it, and else leaves its gate.
func TakeInPhase(leases string, q driver.Request, standalone bool) bson.D {
	hold := HoldID(q.ID)
	mayGate := and(not(gateStands), not(afterStands))
	if q.Gate != (driver.HoldID{}) {
		mayGate = cond(gateStands, Op("$eq", bson.A{"$gate.by", HoldID(q.Gate)}), not(afterStands))
	}
	by, until := gateOf(q)
	gate := bson.D{{Key: "gate", Value: by}, {Key: "expiresAt", Value: Op("$max", bson.A{lastEnd, until})}}
	refused := any("$$ROOT")
	if leaves(q) {
		refused = leaveHint(hold, int32(q.Client))
	}
	mayGate = cond(inPhase, mayGate, false)
	nobody := Op("$lte", bson.A{lastEnd, Now})
	free := Op("$or", bson.A{Free, and(mayGate, nobody)})
	var keep, fenced any = nil, "$fenced"
	if q.Keep > 0 {
		keep = plus(Now, Millis(q.Keep))
	}
	if q.Guarded {
		fenced = literal(true)
	}
	granted := grant(standalone, literal(q.Key), hold, literal(q.Owner), Millis(q.TTL), keep, fenced, int32(q.Client))
	return bson.D{
		{Key: "findAndModify", Value: leases},
		{Key: "query", Value: ByKey(q.Key)},
		{Key: "update", Value: bson.A{Op("$replaceWith",
			cond(and(Op("$ne", bson.A{"$hold", hold}), free), granted,
				cond(mayGate, Op("$mergeObjects", bson.A{refused, gate}), refused)))}},
		{Key: "upsert", Value: true},
		{Key: "new", Value: true},
		{Key: "fields", Value: PhaseFields()},
	}
}

// gateOf is the gate of q, and until when it keeps the key taken.
func gateOf(q driver.Request) (gate, until bson.D) {
	until = plus(Now, min(max(Millis(q.GateTime), 1), Millis(MaxGateTime)))
	return bson.D{{Key: "by", Value: HoldID(q.ID)}, {Key: "until", Value: until}}, until
}

// BackToGate takes back an exclusive grant that is pinned by guarded transactions of the phase
// before. The gate that ended with the grant stands again, in a phase with nobody in it whose
// token is that of the grant, which nobody got.
func BackToGate(q driver.Request) bson.D {
	gate, until := gateOf(q)
	return bson.D{
		{Key: "q", Value: ByHolds([]driver.Hold{{Key: q.Key, ID: q.ID}})},
		{Key: "u", Value: bson.A{
			Op("$set", bson.D{{Key: "hold", Value: "$token"}, {Key: "holds", Value: bson.A{}}, {Key: "gate", Value: gate}, {Key: "expiresAt", Value: until}}),
			Op("$unset", "keepUntil"),
		}},
	}
}

// KeepGate makes the gate of the attempt before that of q, and nothing else.
func KeepGate(q driver.Request) bson.D {
	gate, until := gateOf(q)
	return bson.D{
		{Key: "q", Value: bson.D{{Key: "_id", Value: KeyID(q.Key)}, {Key: "hold", Value: Op("$type", "long")}, {Key: "gate.by", Value: HoldID(q.Gate)}}},
		{Key: "u", Value: bson.A{Op("$set", bson.D{{Key: "gate", Value: gate}, {Key: "expiresAt", Value: Op("$max", bson.A{"$expiresAt", until})}})}},
	}
}

// ClearGate ends the gate of an exclusive attempt that was given up.
func ClearGate(h driver.Hold) bson.D {
	return bson.D{
		{Key: "q", Value: bson.D{{Key: "_id", Value: KeyID(h.Key)}, {Key: "hold", Value: Op("$type", "long")}, {Key: "gate.by", Value: HoldID(h.ID)}}},
		{Key: "u", Value: append(bson.A{Op("$unset", "gate")}, settle(driver.Hold{Undo: true})...)},
	}
}
