package mongolock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

func TestOwnHoldAgain(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("k")
	q.TTL = 200 * time.Millisecond
	h := granted(t, s, q)
	before := writes(t, s, s.leases)
	if again := granted(t, s, q); again.Token != h.Token {
		t.Errorf("token %d, then %d for the same hold", h.Token, again.Token)
	}
	time.Sleep(250 * time.Millisecond) // expired, but not taken
	if again := granted(t, s, q); again.Token != h.Token {
		t.Errorf("token %d, then %d for the same expired hold", h.Token, again.Token)
	}
	if n := writes(t, s, s.leases) - before; n != 0 {
		t.Errorf("finding the own hold wrote %d times", n)
	}
	if i := inspect(t, s, "k"); i.Held {
		t.Errorf("a repeated acquire revived an expired hold: %+v", i)
	}
}

func TestRefusalWritesNothing(t *testing.T) {
	t.Parallel()
	s := shared(t)
	granted(t, s, request("k"))
	before := writes(t, s, s.leases)
	for range 5 {
		if r := acquire(t, s, request("k")); r.Status != driver.Held {
			t.Fatalf("%v, want held", r.Status)
		}
	}
	if n := writes(t, s, s.leases) - before; n != 0 {
		t.Errorf("5 refusals wrote %d times", n)
	}
}

// A hold that is gone frees the key whatever its expiry says: a node whose clock
// is an hour ahead may have written it.
func TestReleasedWithADateAhead(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	release(t, s, h)
	_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), document.KeyID("k"),
		document.Op("$set", document.Op("expiresAt", time.Now().Add(time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
	if i := inspect(t, s, "k"); i.Held {
		t.Errorf("held: %+v", i)
	}
	granted(t, s, request("k"))
}

func TestKeysThatAreNoText(t *testing.T) {
	t.Parallel()
	s := shared(t)
	keys := []string{"p/a", "p/A", "p/a ", "p/a\x00", "p/a\x00b", "p/a\xff\xfe", "p/\u00e9", "p/e\u0301", "p/$a", "p/.", "p/😀", " ", "\x00", "\xff"}
	long := make([]byte, driver.MaxKey)
	for i := range long {
		long[i] = 'x'
	}
	keys = append(keys, string(long))
	for _, k := range keys {
		granted(t, s, request(k))
	}
	infos, err := s.Inspect(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range infos {
		if !info.Held || info.Key != keys[i] {
			t.Errorf("P9: %q: %+v", keys[i], info)
		}
	}
	list, err := s.List(t.Context(), "p/", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 11 {
		t.Errorf("%d keys begin with p/, want 11: %v", len(list), list)
	}
}

func TestValuesThatLookLikeExpressions(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, text := range []string{"$_id", "$$NOW", "$host:1", "{$set:1}", ""} {
		q := request("k" + text)
		q.Owner = text
		h := granted(t, s, q)
		if i := inspect(t, s, q.Key); i.Owner != text || i.Key != q.Key {
			t.Errorf("owner %q became %q", text, i.Owner)
		}
		// And once more on the document that is there now, by the batch.
		release(t, s, h)
		q2, other := request(q.Key), request("other"+text)
		q2.Owner, other.Owner = text, "$token"
		mustAll(t, s, []driver.Request{q2, other}, driver.Granted)
		if i := inspect(t, s, q.Key); i.Owner != text || i.Token <= h.Token {
			t.Errorf("batch: %+v, want owner %q", i, text)
		}
		if i := inspect(t, s, other.Key); i.Owner != "$token" {
			t.Errorf("batch: %+v", i)
		}
	}
}

func TestRacersOnFreshKeys(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for n := range 40 {
		key := fmt.Sprint("fresh", n)
		var mu sync.Mutex
		grants, errs := 0, 0
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				results, err := s.Acquire(patient(t), []driver.Request{request(key)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					errs++
					t.Errorf("P8: %v", err)
				} else if results[0].Status == driver.Granted {
					grants++
				} else if results[0].Status != driver.Held {
					t.Errorf("%v (%v)", results[0].Status, results[0].Err)
				}
			})
		}
		wg.Wait()
		if grants != 1 {
			t.Fatalf("P1: %q was granted %d times", key, grants)
		}
	}
}

// The caller's transaction is not joined: its abort takes nothing back.
func TestAcquireKeepsOutOfTheCallersTransaction(t *testing.T) {
	t.Parallel()
	s := shared(t)
	sess, err := s.db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer sess.EndSession(t.Context())
	if err := sess.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	ctx := mongo.NewSessionContext(t.Context(), sess)
	mine := s.db.Collection("mine")
	if _, err := mine.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	reqs := []driver.Request{request("a"), request("b"), request("c")}
	one, err := s.Acquire(ctx, reqs[:1])
	if err != nil || one[0].Status != driver.Granted {
		t.Fatalf("%v, %v", one, err)
	}
	if _, err := s.Acquire(ctx, reqs[1:]); err != nil {
		t.Fatal(err)
	}
	if results, err := s.Renew(ctx, []driver.Hold{holdOf(reqs[0], one[0])}); err != nil || results[0].Status != driver.Alive {
		t.Fatalf("renew: %v, %v", results, err)
	}
	if infos, err := s.Inspect(ctx, []string{"a"}); err != nil || !infos[0].Held {
		t.Fatalf("inspect: %v, %v", infos, err)
	}
	if err := sess.AbortTransaction(ctx); err != nil {
		t.Fatalf("the caller's transaction was disturbed: %v", err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if i := inspect(t, s, key); !i.Held {
			t.Errorf("P14: the hold of %q vanished with the caller's transaction", key)
		}
	}
	if n, _ := mine.CountDocuments(t.Context(), bson.D{}); n != 0 {
		t.Errorf("the caller's transaction did not abort")
	}
}

func TestBlockedByAForeignTransaction(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	release(t, s, h)
	unblock := blockDocument(t, s.db.Collection(s.leases), document.KeyID("k"))
	if r, err := s.Acquire(patient(t), []driver.Request{request("k")}); err == nil || driver.IsLasting(err) || !driver.IsNotApplied(err) {
		t.Errorf("%v, %v; want a passing error that says that nothing was applied", r, err)
	}
	unblock()
	if i := inspect(t, s, "k"); i.Held {
		t.Errorf("an attempt that was blocked left a hold behind: %+v", i)
	}
	granted(t, s, request("k"))
}

// A live hold is answered without waiting for a transaction that blocks it.
func TestHeldAndBlocked(t *testing.T) {
	t.Parallel()
	s := shared(t)
	granted(t, s, request("k"))
	blockDocument(t, s.db.Collection(s.leases), document.KeyID("k"))
	if r := acquire(t, s, request("k")); r.Status != driver.Held || r.Owner != "test" {
		t.Errorf("%+v, want held", r)
	}
}

func TestFencePinsTheKey(t *testing.T) {
	t.Parallel()
	s := shared(t)
	fences := s.db.Collection(s.fences)
	q := request("k")
	q.Guarded = true
	h := granted(t, s, q)
	fence := func() int64 {
		var doc struct{ Token int64 }
		if err := fences.FindOne(t.Context(), document.ByKey("k")).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		return doc.Token
	}
	if fence() != h.Token {
		t.Errorf("fence %d, token %d", fence(), h.Token)
	}
	if i := inspect(t, s, "k"); i.Pinned {
		t.Errorf("pinned: %+v", i)
	}
	unblock := blockDocument(t, fences, document.KeyID("k")) // the guard of an open transaction
	if st := renew(t, s, h); st != driver.Alive {
		t.Errorf("renew beside an open guard: %v", st)
	}
	release(t, s, h)
	for _, guarded := range []bool{true, false} { // the flag is sticky
		q := request("k")
		q.Guarded = guarded
		if r := acquire(t, s, q); r.Status != driver.Pinned {
			t.Errorf("guarded %v: %v, want pinned", guarded, r.Status)
		}
		if i := inspect(t, s, "k"); i.Held {
			t.Errorf("a pinned attempt left a hold behind: %+v", i)
		}
	}
	free, pinned := request("free"), request("k")
	results, err := s.Acquire(patient(t), []driver.Request{pinned, free})
	if err != nil || results[0].Status != driver.Pinned || results[1].Status != driver.Granted {
		t.Errorf("batch: %v, %v; want pinned and granted", results, err)
	}
	unblock()
	h2 := granted(t, s, request("k"))
	if fence() != h2.Token {
		t.Errorf("P4: fence %d below the granted token %d", fence(), h2.Token)
	}
}

func TestInspectSeesPinned(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("k")
	q.Guarded = true
	h := granted(t, s, q)
	_, err := s.db.Collection(s.fences).UpdateByID(t.Context(), document.KeyID("k"), document.Op("$set", document.Op("token", h.Token-1)))
	if err != nil {
		t.Fatal(err)
	}
	if i := inspect(t, s, "k"); !i.Pinned || !i.Held {
		t.Errorf("granted, but the fence is not raised: %+v, want pinned", i)
	}
}

func TestDeadContext(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sent := s.Statements()
	q := request("k")
	_, err1 := s.Acquire(ctx, []driver.Request{q})
	_, err2 := s.Renew(ctx, []driver.Hold{{Key: "k", ID: q.ID, TTL: time.Second}})
	_, err3 := s.Release(ctx, []driver.Hold{{Key: "k", ID: q.ID}})
	_, err4 := s.Inspect(ctx, []string{"k"})
	for _, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, context.Canceled) || !driver.IsNotApplied(err) || driver.IsLasting(err) {
			t.Errorf("error %v, want a passing one that matches context.Canceled and says that nothing was applied", err)
		}
	}
	if n := s.Statements() - sent; n != 0 {
		t.Errorf("%d commands were sent", n)
	}
}
