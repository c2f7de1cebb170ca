package mongolock

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// A document may have been changed by hand: a field of another type, a token at the
// end of its range. Such a document must not spoil the commands and answers that it
// shares with others, nothing of it may wrap around, and an error for its key says
// what is wrong.

// corruptError is the error for a key whose document somebody has changed. Without it a key
// goes on with tokens by the clock, and nobody was granted one that was out of range.
func (r row) corruptError(step string) *driver.Error {
	return &driver.Error{Lasting: true, Err: fmt.Errorf("mongo: %s %q: its document%s: %s", step, r.key, corruptAdvice, cmp.Or(r.corrupt, "it has no token"))}
}

// corruptAdvice: the fence beside the document stays: with it the next grant waits for the guarded
// transactions that are open.
const corruptAdvice = " was changed by hand: delete it, and it alone, which ends a hold that it may show"

// corruptDocument reports whether the server could not compute with what it found in a
// document. That one it has not changed; of others in the command the majority may be
// late.
func corruptDocument(err error) bool {
	switch command, _ := codes(err); command {
	case 14, 15, 16554, 16555, 16556, 16612, 5166401: // types that do not fit, dates out of range
		return true
	}
	return false
}

// tokenOf reads a token; one that is missing is 0, as is one below it. false: it is no
// whole number that a grant may have, and the answer is the nearest.
func tokenOf(v bson.RawValue) (int64, bool) {
	switch v.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return 0, true
	case bson.TypeDouble: // a number that was typed into a shell is one
		f, ok := v.DoubleOK()
		if !ok || f != math.Trunc(f) {
			return 0, false
		}
		if f > driver.MaxToken {
			return math.MaxInt64, false
		}
		return int64(max(f, 0)), true
	case bson.TypeInt32, bson.TypeInt64:
		n, _ := v.AsInt64OK()
		return max(n, 0), n <= driver.MaxToken
	}
	return 0, false
}

// truthy is a condition of a pipeline.
func truthy(v bson.RawValue) bool {
	switch v.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return false
	case bson.TypeBoolean:
		b, _ := v.BooleanOK()
		return b
	case bson.TypeDouble:
		f, _ := v.DoubleOK()
		return f != 0
	case bson.TypeInt32, bson.TypeInt64:
		n, _ := v.AsInt64OK()
		return n != 0
	case bson.TypeDecimal128:
		d, ok := v.Decimal128OK()
		return !ok || !d.IsZero()
	}
	return true
}

// leftOf is for how long after the moment at the key stays taken; 0: it is free. It
// is until and free of the pipelines, where values of different types have an order:
// https://www.mongodb.com/docs/v6.0/reference/bson-type-comparison-order/
func leftOf(doc bson.Raw, at int64) time.Duration {
	left := time.Duration(0)
	dates := []bson.RawValue{doc.Lookup("keepUntil")}
	if truthy(doc.Lookup("hold")) {
		dates = append(dates, doc.Lookup("expiresAt"))
	}
	for _, v := range dates {
		switch v.Type {
		case bson.TypeDateTime:
			if ms, ok := v.DateTimeOK(); ok && ms > at {
				left = max(left, time.Duration(min(ms-max(at, 0), int64(math.MaxInt64/time.Millisecond)))*time.Millisecond)
			}
		case bson.TypeTimestamp, bson.TypeRegex, bson.TypeDBPointer, bson.TypeJavaScript, bson.TypeCodeWithScope, bson.TypeMaxKey:
			return math.MaxInt64 // above every date
		}
	}
	return left
}

// above is the smallest token that a later grant can have.
func above(token int64) int64 { return min(token, driver.MaxToken-1) + driver.TokenRange }
