package mongolock

import (
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The document of a key, and the expressions over it that decide everything, all
// by the server's clock at the start of the command:
//
//	{_id: Binary, name, hold: Binary(16), owner, token: long, acquiredAt: date,
//	 expiresAt: date, fenced: true, fresh: true, keepUntil: date, forced: true,
//	 wanted: {by: int, until: date}}
//
// hold is absent in a released document; expiresAt is then the moment of the
// release. fenced and keepUntil are absent unless needed, forced until
// ForceRelease ends the hold. fresh is there from the first grant of a new document
// until a holder releases it, see fence.go. wanted decides nothing, see hint.go. The time of death of a document that is
// free is therefore the larger of expiresAt and keepUntil.

func op(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }

// binary is a key or a hold ID. A key is Binary because strings compare by the
// collation of the collection and end, for some programs, at a NUL.
func binary(b []byte) bson.Binary { return bson.Binary{Data: b} }

func keyID(key string) bson.Binary        { return binary([]byte(key)) }
func holdID(id driver.HoldID) bson.Binary { return binary(id[:]) }
func literal(value any) bson.D            { return op("$literal", value) }
func plus(date any, ms any) bson.D        { return op("$add", bson.A{date, ms}) }

const now = "$$NOW"

// until is when the key becomes free by itself; null if it is free now. A date
// of a document without a hold must not count: a node whose clock is ahead may
// have written it.
var until = op("$max", bson.A{op("$cond", bson.A{"$hold", "$expiresAt", nil}), "$keepUntil"})

// free: null is less than any date.
var free = op("$lte", bson.A{until, now})

// fields is what a reply says about a document. How long the key stays taken is
// computed here (leftOf), because a date that is none would fail the whole
// command.
var fields = bson.D{{Key: "hold", Value: 1}, {Key: "owner", Value: 1}, {Key: "token", Value: 1}, {Key: "fenced", Value: 1}, {Key: "fresh", Value: 1},
	{Key: "forced", Value: 1}, {Key: "acquiredAt", Value: 1}, {Key: "expiresAt", Value: 1}, {Key: "keepUntil", Value: 1}, {Key: "wanted", Value: 1},
	{Key: "now", Value: now}}

// nextToken is above the stored token and above every token that the key may
// have had before its document was reaped. The logical clock of a replica set
// never goes back, unlike $$NOW; an hour of it is 3600 × 2^32 tokens. The year
// 2020 is taken off so that an int64 lasts until 2088.
func nextToken(standalone bool) bson.D {
	clock := op("$add", bson.A{
		op("$multiply", bson.A{op("$subtract", bson.A{op("$tsSecond", "$$CLUSTER_TIME"), int64(1_600_000_000)}), int64(1) << 32}),
		op("$multiply", bson.A{op("$tsIncrement", "$$CLUSTER_TIME"), int64(driver.TokenRange)}),
	})
	if standalone { // no cluster time; the same number of tokens a second
		clock = op("$multiply", bson.A{op("$subtract", bson.A{op("$toLong", now), int64(1_600_000_000_000)}), int64(4_294_967)})
	}
	return op("$max", bson.A{op("$add", bson.A{op("$ifNull", bson.A{"$token", int64(0)}), int64(driver.TokenRange)}), clock})
}

// fresh stays where it is, and comes with the first token of a document.
var fresh = op("$ifNull", bson.A{"$fresh", op("$cond", bson.A{op("$gt", bson.A{"$token", nil}), "$$REMOVE", true})})

// grant is the whole document of a new hold. What it does not name is gone.
func grant(standalone bool, name, hold, owner, ttl, keepUntil, fenced, client any) bson.D {
	doc := bson.D{
		{Key: "_id", Value: "$_id"},
		{Key: "name", Value: name},
		{Key: "hold", Value: hold},
		{Key: "owner", Value: owner},
		{Key: "token", Value: nextToken(standalone)},
		{Key: "acquiredAt", Value: now},
		{Key: "expiresAt", Value: plus(now, ttl)},
		{Key: "fenced", Value: fenced},
	}
	if !standalone {
		doc = append(doc, bson.E{Key: "fresh", Value: fresh})
	}
	if keepUntil != nil {
		doc = append(doc, bson.E{Key: "keepUntil", Value: keepUntil})
	}
	return append(doc, bson.E{Key: "wanted", Value: keepHint(client)})
}

// take is the acquire: the document becomes refused if it has this hold already (so
// that a repeated attempt finds its own token) or is not free.
func take(hold any, granted bson.D, refused any) bson.D {
	return op("$replaceWith", op("$cond", bson.A{op("$and", bson.A{op("$ne", bson.A{"$hold", hold}), free}), granted, refused}))
}

// row is a document as replies show it.
type row struct {
	key     string
	hold    driver.HoldID // zero: none
	owner   string
	token   int64
	fenced  bool
	fresh   bool // nobody is known to have looked for a fence
	forced  bool
	since   time.Time
	left    time.Duration // 0: free
	wanted  driver.Hint
	at      *bson.Timestamp // the server's logical time of the answer
	corrupt string          // what in it only a person can have written; see corrupt.go
}

func (r row) held() bool { return r.hold != driver.HoldID{} }

// parse reads a document that was asked for by fields. Whatever is missing or of
// another type, as in a document that is none of ours or was changed by hand, stays
// zero. A key whose hold or expiry cannot be read is shown as free; an acquire, which the
// server refuses or not, says that it is corrupt.
func parse(doc bson.Raw) row {
	var r row
	if _, data, ok := doc.Lookup("_id").BinaryOK(); ok {
		r.key = string(data)
	}
	hold := doc.Lookup("hold")
	if subtype, data, ok := hold.BinaryOK(); ok && subtype == bson.TypeBinaryGeneric && len(data) == len(r.hold) {
		copy(r.hold[:], data)
	} else if hold.Type != 0 {
		r.corrupt = "the hold is none"
	}
	r.owner, _ = doc.Lookup("owner").StringValueOK()
	r.owner = r.owner[:min(len(r.owner), 255)]
	var ok bool
	if r.token, ok = tokenOf(doc.Lookup("token")); !ok {
		r.corrupt = "the token is out of range, or no whole number"
	}
	r.fenced, _ = doc.Lookup("fenced").BooleanOK()
	r.fresh = doc.Lookup("fresh").Type != 0
	r.forced, _ = doc.Lookup("forced").BooleanOK()
	for _, name := range []string{"expiresAt", "keepUntil"} {
		if t := doc.Lookup(name).Type; t != 0 && t != bson.TypeDateTime {
			r.corrupt = name + " is no date"
		}
	}
	if ms, ok := doc.Lookup("acquiredAt").DateTimeOK(); ok {
		r.since = time.UnixMilli(ms)
	}
	if at, ok := doc.Lookup("now").DateTimeOK(); ok {
		r.judge(doc, at)
	}
	return r
}

// judge says what of a document holds at a moment of the server's clock.
func (r *row) judge(doc bson.Raw, at int64) { r.left, r.wanted = leftOf(doc, at), hintAt(doc, at) }

func (r row) granted() driver.Result {
	if r.corrupt != "" || r.token <= 0 {
		return unknown(r.corruptError("acquire")) // to be undone
	}
	return driver.Result{Status: driver.Granted, Token: r.token, Stored: r.token}
}

func (r row) refused() driver.Result {
	return driver.Result{Status: driver.Held, Left: r.left, Owner: r.owner}
}

func (r row) info(key string) driver.Info {
	i := driver.Info{Key: key, Owner: r.owner, Token: r.token, Since: r.since, Wanted: r.wanted}
	if r.left > 0 {
		i.Held, i.Kept, i.Left, i.Hold = true, !r.held(), r.left, r.hold
	}
	return i
}

// tokenOf reads a token; one that is missing is 0, as is one below it. false: it is no
// whole number that a grant may have.
func tokenOf(v bson.RawValue) (int64, bool) {
	switch v.Type {
	case 0, bson.TypeNull:
		return 0, true
	}
	n, ok := v.AsInt64OK() // a number that was typed into a shell may be a double
	return max(n, 0), ok && n <= driver.MaxToken
}

// above is the smallest token that a later grant can have.
func above(token int64) int64 { return min(token, driver.MaxToken-1) + driver.TokenRange }

// leftOf is for how long after the moment at the key stays taken; 0: it is free. It
// is until and free of the pipelines.
func leftOf(doc bson.Raw, at int64) time.Duration {
	end, _ := doc.Lookup("keepUntil").DateTimeOK()
	if doc.Lookup("hold").Type != 0 {
		expires, _ := doc.Lookup("expiresAt").DateTimeOK()
		end = max(end, expires)
	}
	if end <= at {
		return 0
	}
	return time.Duration(min(end-max(at, 0), int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}
