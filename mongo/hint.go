package mongolock

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
)

// The hint of a client that waits is one field of the key's document, wanted: {by: the
// client's number, until: date}. A refused attempt of a waiter leaves it, a grant keeps
// another's and drops its own, and all else leaves it as it is. Whether a key is free
// never depends on it. Expressions only compare what is stored, because arithmetic with
// a value of another type, which somebody may have put there, would fail the command.

// hintStands: there is a hint that ends later than least from now. One that ends too far
// ahead was left by a node whose clock was ahead, and is none.
func hintStands(least time.Duration) bson.D {
	from := any(now)
	if least > 0 {
		from = plus(now, millis(least))
	}
	return op("$and", bson.A{
		op("$gt", bson.A{"$wanted.until", from}),
		op("$lte", bson.A{"$wanted.until", plus(now, millis(driver.MaxHintTime))}),
	})
}

// hintOfAnother: a client other than this one waits.
func hintOfAnother(client any) bson.D {
	return op("$and", bson.A{hintStands(0), op("$ne", bson.A{"$wanted.by", client})})
}

// keepHint is the field in the document of a grant.
func keepHint(client any) bson.D {
	return op("$cond", bson.A{hintOfAnother(client), "$wanted", "$$REMOVE"})
}

// leaveHint is the document of a key that was refused to client, which waits for it. It
// stays as it is where the hold is the client's own, so that a repeated attempt changes
// nothing, where another waits, and where the client's own hint has half of its time left.
func leaveHint(hold, client any) bson.D {
	hint := op("wanted", bson.D{{Key: "by", Value: client}, {Key: "until", Value: plus(now, millis(driver.HintTime))}})
	return op("$cond", bson.A{
		op("$or", bson.A{op("$eq", bson.A{"$hold", hold}), hintOfAnother(client), hintStands(driver.HintTime / 2)}),
		"$$ROOT",
		op("$mergeObjects", bson.A{"$$ROOT", hint}),
	})
}

// leaves reports whether q leaves a hint if it is refused.
func leaves(q driver.Request) bool { return q.Wants && q.Client > 0 }

// hintAt is the hint in a document at a moment of the server's clock.
func hintAt(doc bson.Raw, at int64) driver.Hint {
	wanted, _ := doc.Lookup("wanted").DocumentOK()
	by, _ := wanted.Lookup("by").AsInt64OK()
	until, ok := wanted.Lookup("until").DateTimeOK()
	if !ok || by < 1 || by > driver.MaxClient || until <= at || until > at+millis(driver.MaxHintTime) {
		return driver.Hint{}
	}
	return driver.Hint{Client: uint32(by), Left: time.Duration(until-at) * time.Millisecond}
}

// hintIn is the hint in the reply of a findAndModify.
func hintIn(reply bson.Raw) driver.Hint {
	doc, _ := reply.Lookup("value").DocumentOK()
	return parse(doc).wanted
}

// readHints completes the answers to releases that were sent in one command, whose reply
// has no documents. A hint that cannot be read in time counts as none.
func (s *Store) readHints(ctx context.Context, holds []driver.Hold, group []int, results []driver.Result) {
	var keys []string
	for _, i := range group {
		if holds[i].Asks && results[i].Status == driver.Released {
			keys = append(keys, holds[i].Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longWait)
	defer cancel()
	rows, err := s.rows(ctx, keys, nil)
	if err != nil {
		return
	}
	for _, i := range group {
		if holds[i].Asks && results[i].Status == driver.Released {
			results[i].Wanted = rows[holds[i].Key].wanted
		}
	}
}
