package document

import (
	"bytes"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The line of a key: the requests that wait for it, in the order in which they came.
//
//	{…, line: [{h: Binary(16), m: int, n: int, g: true, c: long, s: date, u: date}], passed: "passed" | "fence"}
//
// An entry has the ID of its request, its mode and number of slots, whether it is Guarded, its claim in milliseconds, since
// when it stands and when it ends. A line in which nobody stands is gone.
//
// An acquire is sent first as if nobody stood, because that is short. It is refused where there is a line, dead or alive, and the
// answer says so; a release finds nothing then. Both are sent again in the form that knows of lines: linetake.go and
// lineend.go. How that passes the key on is in pass.go.
//
// passed is there in the document of a hold that was passed the key, until that has told what it asked for (its owner, and
// so on). "fence": the key may have a fence, which the holder must raise before it may trust its hold. A reader or slot
// that was passed the key has no o in its entry of holds, and p instead of passed.

// IDs of entries are above noID, up to lastID: so one comparison tells whether a value is a Binary of the right length and
// subtype.
var (
	noID   = Binary(make([]byte, len(driver.HoldID{})))
	lastID = Binary(bytes.Repeat([]byte{0xff}, len(driver.HoldID{})))
)

// waits: the entry is alive, and nobody has changed it by hand. It only compares: arithmetic with a value of another type
// would fail the command.
var waits = and(
	Op("$gt", bson.A{"$$this.u", Now}),
	Op("$lte", bson.A{"$$this.u", plus(Now, 2*Millis(driver.MaxEntryTime))}),
	Op("$gt", bson.A{"$$this.h", noID}),
	Op("$lte", bson.A{"$$this.h", lastID}),
	Op("$in", bson.A{"$$this.m", bson.A{int32(driver.Exclusive), int32(driver.Shared), int32(driver.Slot)}}),
	Op("$eq", bson.A{Op("$type", "$$this.n"), "int"}),
	Op("$gte", bson.A{"$$this.n", 0}),
	Op("$lte", bson.A{"$$this.n", driver.MaxSlots}),
)

// noLine: the document has no line, dead or alive, nor what somebody has put there.
var noLine = Op("$eq", bson.A{Op("$ifNull", bson.A{"$line", nil}), nil})

// withoutLine is the same as a condition of a query.
var withoutLine = bson.E{Key: "line", Value: nil}

// liveLine are the live entries of the document.
var liveLine = filter(cond(Op("$isArray", "$line"), "$line", bson.A{}), waits)

// standing is the entry of q.
func standing(q driver.Request) bson.D {
	return standingAs(q, HoldID(q.ID), claimTime(q))
}

func claimTime(q driver.Request) int64 {
	return Millis(min(max(q.Claim, driver.MinClaim), driver.MaxClaim))
}

// standingAs is the entry of a request like q with another ID and claim.
func standingAs(q driver.Request, id, claim any) bson.D {
	e := bson.D{
		{Key: "h", Value: id},
		{Key: "m", Value: int32(q.Mode)},
		{Key: "n", Value: int32(min(max(q.Slots, 0), driver.MaxSlots))},
		{Key: "c", Value: claim},
		{Key: "s", Value: Now},
		{Key: "u", Value: plus(Now, entryTime(q))},
	}
	if q.Guarded {
		e = append(e, bson.E{Key: "g", Value: true})
	}
	return e
}

func entryTime(q driver.Request) int64 {
	d := q.EntryTime
	if d <= 0 {
		d = driver.EntryTime
	}
	return Millis(min(d, driver.MaxEntryTime))
}

// claimOf is how long the key is passed to an entry. A value that somebody typed is brought between the bounds: of
// different types the type decides which is less, and missing ones do not count.
func claimOf(entry string) bson.D {
	return Op("$max", bson.A{1, Op("$min", bson.A{entry + ".c", Millis(driver.MaxClaim)})})
}

// writeLine are the last stages of an update that knows of lines. passing.rest is the line that is left. passing is gone then,
// and a phase in which nobody is left has ended.
func writeLine() []any {
	return append([]any{
		Op("$set", Op("passing.over", and(inPhase, Op("$eq", bson.A{"$holds", bson.A{}})))),
		Op("$set", append(settled("$passing.over", cond(inPhase, lastEnd, "$expiresAt")),
			bson.E{Key: "passed", Value: Op("$ifNull", bson.A{"$passed", "$$REMOVE"})})),
	}, writeExclusiveLine)
}

// writeExclusiveLine is writeLine where there is no phase.
var writeExclusiveLine = Op("$set", bson.D{
	{Key: "line", Value: cond(Op("$eq", bson.A{"$passing.rest", bson.A{}}), "$$REMOVE", "$passing.rest")},
	{Key: "passing", Value: "$$REMOVE"},
})

// Waiting is what a reply says of the line of a key.
type Waiting struct {
	Lined    bool      // there is a line, dead or alive
	Place    int       // of the request that was asked about; 0: it does not stand
	Standing int       // live entries
	First    time.Time // since when the first of them stands; zero: not known

	exclusive int // exclusive entries before the one that was asked about, or in the line if it does not stand
	passed    string
	freeSlot  bool // of a slot: there is one
}

// passedTo and passedToFence are what passed may be.
const (
	passedTo      = "passed"
	passedToFence = "fence"
)
