package mongolock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

func TestForceRelease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	if i, err := s.ForceRelease(t.Context(), "never"); err != nil || i.Held || i.Token != 0 || i.Key != "never" {
		t.Errorf("a key that was never held: %+v, %v", i, err)
	}
	if n, _ := s.db.Collection(s.leases).CountDocuments(t.Context(), document.ByKey("never")); n != 0 {
		t.Error("ForceRelease made a document")
	}
	q := request("k")
	q.Keep, q.Guarded = time.Hour, true
	h := granted(t, s, q)
	i, err := s.ForceRelease(t.Context(), "k")
	if err != nil || !i.Held || i.Owner != "test" || i.Token != h.Token || i.Left < 50*time.Minute || i.Pinned {
		t.Errorf("%+v, %v; want the state before", i, err)
	}
	if i := inspect(t, s, "k"); i.Held || i.Token != h.Token+driver.TokenRange {
		t.Errorf("afterwards: %+v", i)
	}
	var fence struct{ Token int64 }
	if err := s.db.Collection(s.fences).FindOne(t.Context(), document.ByKey("k")).Decode(&fence); err != nil || fence.Token <= h.Token {
		t.Errorf("P4: fence %d (%v) after force of token %d", fence.Token, err, h.Token)
	}
	if st := renew(t, s, h); st != driver.Forced {
		t.Errorf("renew: %v, want forced", st)
	}
	if r := release(t, s, h); r.Status != driver.Forced {
		t.Errorf("release: %v, want forced", r.Status)
	}
	h2 := granted(t, s, request("k"))
	if h2.Token < h.Token+2*driver.TokenRange {
		locktest.Breach(t, "P3", "token %d after force of %d", h2.Token, h.Token)
	}
	// A guarded transaction that is open does not stop force, but is told.
	blockDocument(t, s.db.Collection(s.fences), document.KeyID("k"))
	if i, err := s.ForceRelease(t.Context(), "k"); err != nil || !i.Pinned {
		t.Errorf("force beside an open guard: %+v, %v", i, err)
	}
	for _, key := range []string{"", string(make([]byte, driver.MaxKey+1))} {
		_, err := s.ForceRelease(t.Context(), key)
		mustErr(t, err, driver.ErrInvalid, true)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var reqs []driver.Request
	for n := range 700 {
		reqs = append(reqs, request(fmt.Sprintf("svc3/%03d", n)))
	}
	for _, key := range []string{"svc3", "svc30", "svc2/x", "svc3/\xff\xff", "svc3/\xff", "\xff\xff"} {
		reqs = append(reqs, request(key))
	}
	mustAll(t, s, reqs[:500], driver.Granted)
	mustAll(t, s, reqs[500:], driver.Granted)
	s.Release(t.Context(), []driver.Hold{{Key: "svc3/007", ID: reqs[7].ID}})

	all, err := s.List(t.Context(), "svc3/", "", 1000)
	if err != nil || len(all) != 702 {
		t.Fatalf("%d keys, %v; want 702", len(all), err)
	}
	for i, info := range all[:700] {
		if info.Key != reqs[i].Key || info.Held != (i != 7) || info.Owner != "test" || info.Token == 0 {
			t.Fatalf("%d: %+v", i, info)
		}
	}
	if all[700].Key != "svc3/\xff" || all[701].Key != "svc3/\xff\xff" {
		t.Errorf("the last two are %q and %q", all[700].Key, all[701].Key)
	}
	page, err := s.List(t.Context(), "svc3/", "svc3/009", 5)
	if err != nil || len(page) != 5 || page[0].Key != "svc3/010" {
		t.Errorf("page: %v, %v", page, err)
	}
	if page, err := s.List(t.Context(), "\xff", "", 5); err != nil || len(page) != 1 {
		t.Errorf("prefix 0xff: %v, %v", page, err)
	}
	if page, err := s.List(t.Context(), "", "", 5000); err != nil || len(page) != len(reqs) {
		t.Errorf("all: %d of %d keys, %v", len(page), len(reqs), err)
	}
	if page, err := s.List(t.Context(), "none", "", 5); err != nil || len(page) != 0 {
		t.Errorf("no such prefix: %v, %v", page, err)
	}
	_, err = s.List(t.Context(), "", "", 0)
	mustErr(t, err, driver.ErrInvalid, true)
}

func TestP10_Reap(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx := t.Context()
	h := make(map[string]driver.Hold)
	for _, key := range []string{"live", "dead", "crashed", "young", "guarded", "pinned", "kept"} {
		q := request(key)
		q.Guarded = key == "guarded" || key == "pinned"
		if key == "kept" {
			q.Keep = 3 * time.Hour
		}
		h[key] = granted(t, s, q)
	}
	for _, key := range []string{"dead", "young", "guarded", "pinned", "kept"} {
		release(t, s, h[key])
	}
	for _, key := range []string{"dead", "crashed", "guarded", "pinned", "kept"} {
		age(t, s, key, 2*time.Hour+time.Minute)
	}
	// A hold may be older than the grace: it was renewed.
	leases := s.db.Collection(s.leases)
	_, err := leases.UpdateByID(ctx, document.KeyID("live"), document.Op("$set", document.Op("acquiredAt", time.Now().Add(-10*time.Hour))))
	must(t, err)
	// Documents that are no locks.
	for _, doc := range []bson.D{
		{{Key: "_id", Value: "mine"}, {Key: "expiresAt", Value: time.Now().Add(-1000 * time.Hour)}},
		{{Key: "_id", Value: document.KeyID("odd")}, {Key: "note", Value: "no dates"}},
	} {
		if _, err := leases.InsertOne(ctx, doc); err != nil {
			t.Fatal(err)
		}
	}
	unblock := blockDocument(t, s.db.Collection(s.fences), document.KeyID("pinned"))
	n, err := s.Reap(ctx, 2*time.Hour)
	if err != nil || n != 3 {
		t.Errorf("reaped %d, %v; want dead, crashed and guarded", n, err)
	}
	unblock()
	var left []string
	cursor, err := leases.Find(ctx, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	for cursor.Next(ctx) {
		if r := document.Parse(cursor.Current); r.Key != "" {
			left = append(left, r.Key)
		}
	}
	if fmt.Sprint(left) != "[live young pinned kept odd]" {
		t.Errorf("left: %v", left)
	}
	if st := renew(t, s, h["live"]); st != driver.Alive {
		t.Errorf("P10: the live hold is %v", st)
	}
	// The fence was raised before its lease document went, and tokens go on.
	var fence struct{ Token int64 }
	if err := s.db.Collection(s.fences).FindOne(ctx, document.ByKey("guarded")).Decode(&fence); err != nil || fence.Token <= h["guarded"].Token {
		t.Errorf("P4: fence %d (%v), token %d", fence.Token, err, h["guarded"].Token)
	}
	time.Sleep(1100 * time.Millisecond)
	if next := granted(t, s, request("dead")); next.Token < h["dead"].Token+driver.TokenRange {
		locktest.Breach(t, "P3", "token %d after reaping %d", next.Token, h["dead"].Token)
	}
	if st := renew(t, s, h["crashed"]); st != driver.Removed {
		t.Errorf("renew of a reaped hold: %v", st)
	}
	sent := s.Statements()
	_, err = s.Reap(ctx, time.Hour-1)
	mustErr(t, err, driver.ErrInvalid, true)
	if s.Statements() != sent {
		t.Error("something was sent")
	}
}

// A foreign document that ends a page of the server ends no list, and is not in it.
func TestListPassesForeignDocuments(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const keys = maxBatch + 100
	writeDead(t, s, "k", keys)
	infos, err := s.List(t.Context(), "", "", 10*maxBatch)
	must(t, err)
	last := infos[maxBatch-2].Key // one before the end of the first page
	_, err = s.db.Collection(s.leases).InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a string"}, {Key: "name", Value: last + "\x00"}})
	must(t, err)
	infos, err = s.List(t.Context(), "", "", 10*maxBatch)
	must(t, err)
	if len(infos) != keys || slices.ContainsFunc(infos, func(i driver.Info) bool { return i.Key == "" }) {
		t.Errorf("%d keys were listed, want %d, and none without a name", len(infos), keys)
	}
}

func TestReapIsBounded(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const dead = 700
	for try := 1; ; try++ {
		writeDead(t, s, "d", dead)
		left, sum := dead, 0
		for calls := 1; left > 0; calls++ {
			n, err := s.Reap(t.Context(), time.Hour)
			if err != nil || n > driver.MaxReap {
				t.Fatalf("reaped %d, %v; want at most %d", n, err, driver.MaxReap)
			}
			sum += n
			of, err := s.db.Collection(s.leases).CountDocuments(t.Context(), document.Op("owner", "gone"))
			must(t, err)
			if left = int(of); calls == 50 && left > 0 { // a server without time leaves some to the next call
				t.Fatalf("reaped %d of %d in %d calls, %d are left", sum, dead, calls, left)
			}
		}
		if sum == dead {
			break
		}
		if sum > dead || try == 5 { // of a command that the server ended nobody knows what it removed
			t.Fatalf("reaped %d of %d", sum, dead)
		}
	}
	if n, err := s.Reap(t.Context(), time.Hour); err != nil || n != 0 {
		t.Errorf("reaped %d and %v of none", n, err)
	}
}
