package mongolock

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// TestCorruptLines: a line, or an entry, with each value by hand is read as if it were not there, and is mended by the next
// write; those who stand beside it keep their places.
func TestCorruptLines(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	leases := s.db.Collection(s.leases)
	id, soon := document.HoldID(newID()), func() time.Time { return time.Now().Add(time.Minute) }
	entry := func(field string, v any) bson.D {
		e := bson.D{{Key: "h", Value: id}, {Key: "m", Value: int32(0)}, {Key: "n", Value: int32(0)}, {Key: "c", Value: int64(1000)}, {Key: "s", Value: soon()}, {Key: "u", Value: soon()}}
		for i := range e {
			if e[i].Key == field {
				e[i].Value = v
			}
		}
		return e
	}
	type corrupt struct {
		what  string
		line  func() any
		alive bool // the entry counts all the same, with a claim within the bounds
	}
	cases := []corrupt{
		{"ends far ahead", func() any { return bson.A{entry("u", time.Now().Add(10*driver.MaxEntryTime))} }, false},
		{"no mode", func() any { return bson.A{entry("m", int32(7))} }, false},
		{"a slot of none", func() any { return bson.A{entry("n", int32(driver.MaxSlots+1))} }, false},
	}
	for _, v := range anyValues {
		if v == gone {
			continue
		}
		cases = append(cases, corrupt{fmt.Sprintf("line %v", v), func() any { return v }, false}, corrupt{fmt.Sprintf("an entry %v", v), func() any { return bson.A{v} }, false})
		for _, f := range []string{"h", "m", "n", "u", "c", "s"} {
			cases = append(cases, corrupt{fmt.Sprintf("%s %v", f, v), func() any { return bson.A{entry(f, v)} }, f == "c" || f == "s" || f == "n" && v == int32(7) || f == "m" && (v == int64(0) || v == 0.0)})
		}
	}
	if testing.Short() {
		cases = cases[:40]
	}
	for _, c := range cases {
		h := granted(t, s, request("k"))
		_, err := leases.UpdateOne(t.Context(), document.ByKey("k"), document.Op("$set", document.Op("line", c.line())))
		if err != nil {
			release(t, s, h)
			continue // no document at all
		}
		q := standerOf("k")
		before := viewOf(t, s, q).Standing
		if want := map[bool]int{true: 1}[c.alive]; before != want {
			t.Errorf("%s: counts as %d who stand", c.what, before)
		}
		if r := stand(t, s, q); r.Status != driver.Held || r.Place != before+1 || r.Standing != before+1 {
			t.Errorf("%s: behind %d: %+v", c.what, before, r)
		}
		if r := release(t, s, h); r.Status != driver.Released {
			t.Errorf("%s: release: %+v", c.what, r)
		}
		if before > 0 { // its values are such that it counts: it leaves
			release(t, s, driver.Hold{Key: "k", ID: idIn(t, documentOf(t, s, "k")), Undo: true})
		}
		h = passedTo(t, s, q, h.Token)
		if doc := documentOf(t, s, "k"); doc.Lookup("line").Type != 0 || doc.Lookup("passing").Type != 0 {
			t.Errorf("%s: is not mended: %v", c.what, doc)
		}
		if r := release(t, s, h); r.Status != driver.Released {
			t.Errorf("%s: release: %+v", c.what, r)
		}
	}
}

// idIn is the hold in a document.
func idIn(t testing.TB, doc bson.Raw) driver.HoldID {
	t.Helper()
	_, data, ok := doc.Lookup("hold").BinaryOK()
	if !ok || len(data) != 16 {
		t.Fatalf("no hold: %v", doc)
	}
	return driver.HoldID(data)
}

// TestClockSetBack: entries whose ends are further ahead than they can be were left before the clock was set back. They are
// dead, and so is what they kept the key for.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	h := granted(t, s, request("k"))
	before := standerOf("k")
	placed(t, s, before, 1, 1)
	hour := document.Op("$add", bson.A{"$$this.u", time.Hour.Milliseconds()})
	_, err := s.db.Collection(s.leases).UpdateOne(t.Context(), document.ByKey("k"), bson.A{document.Op("$set", document.Op("line",
		document.Op("$map", bson.D{{Key: "input", Value: "$line"}, {Key: "in", Value: document.Op("$mergeObjects", bson.A{"$$this", document.Op("u", hour)})}})))})
	must(t, err)
	other := beside(t, s, uriOf(t))
	if r := release(t, other, h); r.Status != driver.Released {
		t.Errorf("release: %+v", r)
	}
	if v := viewOf(t, s, before); v.Mine || v.Place != 0 || v.Standing != 0 || !v.Free || v.Left != 0 {
		t.Errorf("an entry of before the clock was set back: %+v", v)
	}
	if r := acquire(t, beside(t, s, uriOf(t)), request("k")); r.Status != driver.Granted {
		t.Errorf("a try: %+v", r)
	}
}
