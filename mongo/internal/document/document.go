package document

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The document of a key, and the expressions over it that decide everything, all
// by the server's clock at the start of the command:
//
//	{_id: Binary, name, hold: Binary(16), owner, token: long, acquiredAt: date,
//	 expiresAt: date, fenced: true, fresh: true, keepUntil: date, forced: true,
//	 holds, phase (see phase.go), line, passed (see line.go)}
//
// hold is absent in a released document; expiresAt is then the moment of the
// release. fenced and keepUntil are absent unless needed, forced until
// ForceRelease ends the hold. fresh is there from the first grant of a new document
// until a holder releases it: see package fence. The time of death of a document that is free
// and has no line is therefore the larger of expiresAt and keepUntil.

// Op is a document with one field: most operators, and most filters.
func Op(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }

// Binary is a key or a hold ID. A key is Binary because strings compare by the
// collation of the collection and end, for some programs, at a NUL.
func Binary(b []byte) bson.Binary { return bson.Binary{Data: b} }

// ByID is the hint of a read of a whole collection: in the order of its IDs, which a server with notablescan
// allows. An index on the times would tax each renewal.
var ByID = bson.D{{Key: "_id", Value: int32(1)}}

// KeyID is a key as _id.
func KeyID(key string) bson.Binary { return Binary([]byte(key)) }

// HoldID is a hold ID as a document has it.
func HoldID(id driver.HoldID) bson.Binary { return Binary(id[:]) }

func literal(value any) bson.D     { return Op("$literal", value) }
func plus(date any, ms any) bson.D { return Op("$add", bson.A{date, ms}) }

// Barrier is the _id of a document that every undo writes, and all else that overtakes an
// attempt. Without a write the number of an undo that finds nothing would be in the memory
// of the primary only, and lost in an election. A string cannot meet a key, which is Binary.
const Barrier = "barrier"

// Now is the server's clock at the start of the command.
const Now = "$$NOW"

// until is when the key becomes free by itself; null if it is free now. A date
// of a document without a hold must not count: a node whose clock is ahead may
// have written it.
var until = Op("$max", bson.A{Op("$cond", bson.A{"$hold", "$expiresAt", nil}), "$keepUntil"})

// Free reports whether nothing keeps the key: null is less than any date.
var Free = Op("$lte", bson.A{until, Now})

// Fields is what a reply says about a document. How long the key stays taken is
// computed by the client (leftOf), because a date that is none would fail the whole
// command.
var Fields = bson.D{{Key: "hold", Value: 1}, {Key: "owner", Value: 1}, {Key: "token", Value: 1}, {Key: "fenced", Value: 1}, {Key: "fresh", Value: 1},
	{Key: "forced", Value: 1}, {Key: "acquiredAt", Value: 1}, {Key: "expiresAt", Value: 1}, {Key: "keepUntil", Value: 1}, {Key: "lined", Value: not(noLine)},
	{Key: "now", Value: Now}}

// nextToken is above the stored token and above every token that the key may
// have had before its document was reaped. The logical clock of a replica set
// never goes back, unlike $$NOW; an hour of it is 3600 × 2^32 tokens. The year
// 2020 is taken off so that an int64 lasts until 2088.
func nextToken(standalone bool) bson.D {
	clock := Op("$add", bson.A{
		Op("$multiply", bson.A{Op("$subtract", bson.A{Op("$tsSecond", "$$CLUSTER_TIME"), int64(1_600_000_000)}), int64(1) << 32}),
		Op("$multiply", bson.A{Op("$tsIncrement", "$$CLUSTER_TIME"), int64(driver.TokenRange)}),
	})
	if standalone { // no cluster time; the same number of tokens a second
		clock = Op("$multiply", bson.A{Op("$subtract", bson.A{Op("$toLong", Now), int64(1_600_000_000_000)}), int64(4_294_967)})
	}
	return Op("$max", bson.A{Op("$add", bson.A{Op("$ifNull", bson.A{"$token", int64(0)}), int64(driver.TokenRange)}), clock})
}

// fresh stays where it is, and comes with the first token of a document.
var fresh = Op("$ifNull", bson.A{"$fresh", Op("$cond", bson.A{Op("$gt", bson.A{"$token", nil}), "$$REMOVE", true})})

// grant is the whole document of a new hold. What it does not name is gone.
func grant(standalone bool, name, hold, owner, ttl, keepUntil, fenced any) bson.D {
	doc := bson.D{
		{Key: "_id", Value: "$_id"},
		{Key: "name", Value: name},
		{Key: "hold", Value: hold},
		{Key: "owner", Value: owner},
		{Key: "token", Value: nextToken(standalone)},
		{Key: "acquiredAt", Value: Now},
		{Key: "expiresAt", Value: plus(Now, ttl)},
		{Key: "fenced", Value: fenced},
	}
	if !standalone {
		doc = append(doc, bson.E{Key: "fresh", Value: fresh})
	}
	if keepUntil != nil {
		doc = append(doc, bson.E{Key: "keepUntil", Value: keepUntil})
	}
	return doc
}

// take is the acquire: the document stays as it is if it has this hold already (so
// that a repeated attempt finds its own token), or is not free, or has a line.
func take(hold any, granted bson.D) bson.D {
	return cond(and(Op("$ne", bson.A{"$hold", hold}), Free, noLine), granted, "$$ROOT")
}

// Millis rounds up: the database never counts a shorter time than the client.
func Millis(d time.Duration) int64 {
	n := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		n++
	}
	return n
}
