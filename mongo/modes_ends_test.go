package mongolock

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The ends of holds in a phase.

// TestP16_LateRenewalAfterATake: an exclusive request ends a phase whose holds have all expired in
// the step that grants, and a renewal that comes later revives nothing.
func TestP16_LateRenewalAfterATake(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := granted(t, s, readerOf("k")), granted(t, s, slotOf("k", 3))
	expireAll(t, s, "k")
	if st := renew(t, s, a); st != driver.Alive { // as an exclusive hold that nobody has taken
		t.Errorf("a renewal of a reader that has expired: %v", st)
	}
	expireAll(t, s, "k")
	w := granted(t, s, request("k"))
	for _, h := range []driver.Hold{a, b} {
		if st := renew(t, s, h); st != driver.Taken {
			t.Errorf("P16: a late renewal of mode %v: %v", h.Mode, st)
		}
		if r := release(t, s, h); r.Status != driver.Taken {
			t.Errorf("P5: a late release of mode %v: %v", h.Mode, r.Status)
		}
	}
	if st := renew(t, s, w); st != driver.Alive {
		t.Errorf("the writer after them: %v", st)
	}
}

// TestExpiredEntriesGo: what crashed readers leave in a phase that goes on is forgotten, not at once.
func TestExpiredEntriesGo(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lives := granted(t, s, readerOf("k"))
	crashed := granted(t, s, readerOf("k"))
	entries := func() int {
		var doc struct{ Holds []bson.D }
		must(t, s.db.Collection(s.leases).FindOne(t.Context(), document.ByKey("k")).Decode(&doc))
		return len(doc.Holds)
	}
	end := func(ago time.Duration) {
		t.Helper()
		_, err := s.db.Collection(s.leases).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: document.KeyID("k")}, {Key: "holds.h", Value: document.HoldID(crashed.ID)}},
			document.Op("$set", document.Op("holds.$.e", time.Now().Add(-ago))))
		must(t, err)
	}
	end(time.Second)
	release(t, s, granted(t, s, readerOf("k")))
	if n := entries(); n != 2 {
		t.Errorf("%d entries a second after the end of one of two", n)
	}
	end(time.Hour)
	release(t, s, granted(t, s, readerOf("k")))
	if n := entries(); n != 1 {
		t.Errorf("%d entries an hour after the end of one of two", n)
	}
	if st := renew(t, s, crashed); st != driver.Removed {
		t.Errorf("a renewal of an entry that is forgotten: %v", st)
	}
	if st := renew(t, s, lives); st != driver.Alive {
		t.Errorf("the reader beside it: %v", st)
	}
}
