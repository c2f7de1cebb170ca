package document

import (
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
	from := any(Now)
	if least > 0 {
		from = plus(Now, Millis(least))
	}
	return Op("$and", bson.A{
		Op("$gt", bson.A{"$wanted.until", from}),
		Op("$lte", bson.A{"$wanted.until", plus(Now, Millis(driver.MaxHintTime))}),
	})
}

// hintOfAnother: a client other than this one waits.
func hintOfAnother(client any) bson.D {
	return Op("$and", bson.A{hintStands(0), Op("$ne", bson.A{"$wanted.by", client})})
}

// keepHint is the field in the document of a grant.
func keepHint(client any) bson.D {
	return Op("$cond", bson.A{hintOfAnother(client), "$wanted", "$$REMOVE"})
}

// leaveHint is the document of a key that was refused to client, which waits for it. It
// stays as it is where the hold is the client's own, so that a repeated attempt changes
// nothing, where another waits, and where the client's own hint has half of its time left.
func leaveHint(hold, client any) bson.D {
	hint := Op("wanted", bson.D{{Key: "by", Value: client}, {Key: "until", Value: plus(Now, Millis(driver.HintTime))}})
	return Op("$cond", bson.A{
		Op("$or", bson.A{Op("$eq", bson.A{"$hold", hold}), hintOfAnother(client), hintStands(driver.HintTime / 2)}),
		"$$ROOT",
		Op("$mergeObjects", bson.A{"$$ROOT", hint}),
	})
}

// leaves reports whether q leaves a hint if it is refused.
func leaves(q driver.Request) bool { return q.Wants && q.Client > 0 }
