package document

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// State is a document as replies show it.
type State struct {
	Key     string
	Hold    driver.HoldID // of an exclusive holder; zero: none
	Owner   string
	Token   int64
	Fenced  bool
	Fresh   bool // nobody is known to have looked for a fence
	OfPhase bool // there may be fences of readers and slots
	Forced  bool
	Since   time.Time
	Left    time.Duration   // 0: free
	At      *bson.Timestamp // the server's logical time of the answer
	Corrupt string          // what in it only a person can have written; see CorruptError

	Phase int64 // the token of the phase; 0: there is none
	phase       // what is known of it

	Waiting
	owned     bool  // somebody is named as its owner: it was not passed, or its holder has told
	holdEnd   int64 // when the hold ends, or the last of the phase, in ms; 0: there is none
	keepUntil int64 // the end of MinHold
	at        int64 // the server's clock; 0: not known
}

// Held reports whether the document has a hold, which may have expired.
func (r State) Held() bool { return r.Hold != driver.HoldID{} || r.Phase != 0 }

// Parse reads a document that was asked for by fields. Whatever is missing or of
// another type, as in a document that is none of ours or was changed by hand, stays
// zero. A key whose hold or expiry cannot be read is shown as free; an acquire, which the
// server refuses or not, says that it is corrupt.
func Parse(doc bson.Raw) State {
	var r State
	if _, data, ok := doc.Lookup("_id").BinaryOK(); ok {
		r.Key = string(data)
	}
	hold := doc.Lookup("hold")
	if subtype, data, ok := hold.BinaryOK(); ok && subtype == bson.TypeBinaryGeneric && len(data) == len(r.Hold) {
		copy(r.Hold[:], data)
	} else if phase, ok := hold.Int64OK(); ok && phase > 0 && phase <= driver.MaxToken {
		r.Phase = phase
	} else if hold.Type != 0 {
		r.Corrupt = "the hold is none"
	}
	r.Owner, r.owned = doc.Lookup("owner").StringValueOK()
	r.Owner = r.Owner[:min(len(r.Owner), 255)]
	var ok bool
	if r.Token, ok = tokenOf(doc.Lookup("token")); !ok {
		r.Corrupt = "the token is out of range, or no whole number"
	}
	r.Fenced, _ = doc.Lookup("fenced").BooleanOK()
	r.Fresh = doc.Lookup("fresh").Type != 0
	r.OfPhase = isText(doc.Lookup("fresh"), freshPhase)
	r.Forced, _ = doc.Lookup("forced").BooleanOK()
	for _, name := range []string{"expiresAt", "keepUntil"} {
		if t := doc.Lookup(name).Type; t != 0 && t != bson.TypeDateTime {
			r.Corrupt = name + " is no date"
		}
	}
	if ms, ok := doc.Lookup("acquiredAt").DateTimeOK(); ok {
		r.Since = time.UnixMilli(ms)
	}
	r.keepUntil, _ = doc.Lookup("keepUntil").DateTimeOK()
	if r.Held() {
		r.holdEnd, _ = doc.Lookup("expiresAt").DateTimeOK()
	}
	r.parsePhase(doc)
	r.parseLine(doc)
	if at, ok := doc.Lookup("now").DateTimeOK(); ok {
		r.Judge(doc, at)
	}
	return r
}

func isText(v bson.RawValue, text string) bool {
	s, ok := v.StringValueOK()
	return ok && s == text
}

// Judge says what of a document holds at a moment of the server's clock.
func (r *State) Judge(doc bson.Raw, at int64) {
	r.Left, r.at = leftOf(doc, at), at
}

// Granted is the answer to an acquire whose hold the document has.
func (r State) Granted() driver.Result {
	if r.Corrupt != "" || r.Token <= 0 {
		return driver.Result{Status: driver.Unknown, Err: r.CorruptError("acquire")} // to be undone
	}
	return driver.Result{Status: driver.Granted, Token: r.Token, Stored: r.Token}
}

// Refused is the answer to an acquire of a key that is not free.
func (r State) Refused() driver.Result {
	return driver.Result{Status: driver.Held, Left: r.Left, Owner: r.Owner}
}

// Info is what Inspect and List show of the key.
func (r State) Info(key string) driver.Info {
	if r.Phase > 0 {
		return r.infoOfPhase(key)
	}
	i := driver.Info{Key: key, Owner: r.Owner, Token: r.Token, Since: r.Since, Waiting: r.Standing, WaitingSince: r.First}
	if r.Left > 0 {
		i.Held, i.Kept, i.Left, i.Hold = true, !r.Held(), r.Left, r.Hold
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

// Above is the smallest token that a later grant can have.
func Above(token int64) int64 { return min(token, driver.MaxToken-1) + driver.TokenRange }

// leftOf is for how long after the moment at the key stays taken; 0: it is free. It
// is until and Free of the pipelines.
func leftOf(doc bson.Raw, at int64) time.Duration {
	end, _ := doc.Lookup("keepUntil").DateTimeOK()
	if doc.Lookup("hold").Type != 0 {
		expires, _ := doc.Lookup("expiresAt").DateTimeOK()
		end = max(end, expires)
	}
	return between(at, end)
}

// between is the time from one moment to another, in milliseconds; 0: the other is not later.
func between(at, end int64) time.Duration {
	if end <= at {
		return 0
	}
	return time.Duration(min(end-max(at, 0), int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// Fate says what became of a hold. A released document keeps the token of its
// last hold. One that is free with a higher token was forced, or had another hold
// meanwhile; force leaves a mark until the next grant.
func Fate(r State, there bool, h driver.Hold) driver.Status {
	stored := h.Stored
	if stored == 0 {
		stored = h.Token
	}
	switch {
	case !there:
		return driver.Removed
	case h.Mode != driver.Exclusive:
		return r.fateOfEntry(h)
	case r.Hold == h.ID:
		return driver.Alive
	case r.Held():
		return driver.Taken
	case stored == 0:
		return driver.Removed
	case r.Token > stored && r.Forced:
		return driver.Forced
	case r.Token > stored:
		return driver.Taken
	}
	return driver.Released
}

// A document may have been changed by hand: a field of another type, a token at the
// end of its range. Such a document must not spoil the commands and answers that it
// shares with others, nothing of it may wrap around, and an error for its key says
// what is wrong.

// CorruptAdvice is what to do with a corrupt document. The fence beside it stays: with it
// the next grant waits for the guarded transactions that are open.
const CorruptAdvice = " was changed by hand: delete it, and it alone, which ends a hold that it may show"

// CorruptError is the error for a key whose document somebody has changed. Without it a key
// goes on with tokens by the clock, and nobody was granted one that was out of range.
func (r State) CorruptError(step string) *driver.Error {
	return &driver.Error{Lasting: true, Err: fmt.Errorf("mongo: %s %q: its document%s: %s", step, r.Key, CorruptAdvice, cmp.Or(r.Corrupt, "it has no token"))}
}
