package mongolock

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// waiterOf is a request of a client that waits.
func waiterOf(key string, client uint32) driver.Request {
	q := request(key)
	q.Client, q.Wants = client, true
	return q
}

// refused has client ask for a key that is held.
func refused(t testing.TB, s *Store, key string, client uint32) {
	t.Helper()
	if r := acquire(t, s, waiterOf(key, client)); r.Status != driver.Held || r.Left <= 0 {
		t.Fatalf("acquire %q: %+v, want held", key, r)
	}
}

// hinted checks whose hint stands on a key; 0: nobody's.
func hinted(t testing.TB, s *Store, what, key string, client uint32) {
	t.Helper()
	if h := inspect(t, s, key).Wanted; h.Client != client {
		t.Errorf("%s: the hint is %+v, want one of client %d", what, h, client)
	}
}

// document is that of a key, without its hint.
func document(t testing.TB, s *Store, key string) string {
	t.Helper()
	doc, err := s.db.Collection(s.leases).FindOne(t.Context(), op("_id", keyID(key)), options.FindOne().SetProjection(op("wanted", 0))).Raw()
	must(t, err)
	return doc.String()
}

// TestHintOfARefusal: a waiter's refusal writes its hint, once in the half of the time for
// which it stands, and nothing else; any other refusal writes nothing.
func TestHintOfARefusal(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("k")
	q.Keep, q.Guarded = time.Hour, true
	h := granted(t, s, q)
	q2 := request("k2")
	granted(t, s, q2)
	was := document(t, s, "k")
	start, before := time.Now(), writes(t, s, s.leases)
	for range 3 {
		refused(t, s, "k", 1)
		refused(t, s, "k", 2)
		nobody := waiterOf("k", 0)
		if r := acquire(t, s, nobody); r.Status != driver.Held {
			t.Errorf("%+v", r)
		}
		if r := acquire(t, s, request("k")); r.Status != driver.Held {
			t.Errorf("%+v", r)
		}
		mustAll(t, s, []driver.Request{waiterOf("k", 2), request("k2")}, driver.Held)
	}
	if n := writes(t, s, s.leases) - before; n != 1 && time.Since(start) < driver.HintTime/2 {
		t.Errorf("the refusals wrote %d times, want once", n)
	}
	if is := document(t, s, "k"); is != was {
		t.Errorf("the hint changed more than itself:\n%s\n%s", was, is)
	}
	// The holder's own attempt again, however it waits.
	again := waiterOf("k", 3)
	again.ID = q.ID
	before = writes(t, s, s.leases)
	if g := granted(t, s, again); g.Token != h.Token {
		t.Errorf("token %d, then %d", h.Token, g.Token)
	}
	again2 := waiterOf("k2", 3)
	again2.ID = q2.ID
	mustAll(t, s, []driver.Request{again, again2}, driver.Granted)
	if n := writes(t, s, s.leases) - before; n != 0 {
		t.Errorf("finding the own hold wrote %d times", n)
	}
	// What MinHold keeps is wanted too.
	release(t, s, h)
	time.Sleep(inspect(t, s, "k").Wanted.Left + time.Millisecond)
	hinted(t, s, "after its time", "k", 0)
	refused(t, s, "k", 4)
	hinted(t, s, "kept by MinHold", "k", 4)
}

// TestHintStays: a grant of another client, renewals, a release, force and an undo leave a
// hint as it is. A list shows it.
func TestHintStays(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, key := range []string{"grant", "batch", "renew", "release", "force", "undo"} {
		h := granted(t, s, request(key))
		refused(t, s, key, 7)
		next := waiterOf(key, 8)
		switch key {
		case "grant":
			release(t, s, h)
			granted(t, s, next)
		case "batch":
			release(t, s, h)
			mustAll(t, s, []driver.Request{next, waiterOf("beside", 9)}, driver.Granted)
		case "renew":
			renew(t, s, h)
		case "release":
			release(t, s, h)
		case "undo":
			h.Undo = true
			release(t, s, h)
		case "force":
			if i, err := s.ForceRelease(t.Context(), key); err != nil || i.Wanted.Client != 7 {
				t.Errorf("force: %+v, %v", i, err)
			}
		}
		hinted(t, s, key, key, 7)
		infos, err := s.List(t.Context(), key, "", 1)
		if err != nil || len(infos) != 1 || infos[0].Wanted.Client != 7 || infos[0].Wanted.Left <= 0 {
			t.Errorf("%s: listed as %+v, %v", key, infos, err)
		}
		// Its own client takes it back.
		if _, err := s.ForceRelease(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		granted(t, s, driver.Request{Key: key, ID: newID(), TTL: time.Minute, Client: 7})
		hinted(t, s, key+", then its own grant", key, 0)
	}
}

// TestHintsInABatch: of several keys in one command each is refused to its own client,
// and to one that waits or not.
func TestHintsInABatch(t *testing.T) {
	t.Parallel()
	s := shared(t)
	reqs := requests("k", 6)
	for i := range reqs {
		reqs[i].Client = 1
	}
	holds := grantedAll(t, s, reqs)
	others := requests("k", 6)
	want := []uint32{2, 0, 3, 0, 2, 3}
	for i := range others {
		others[i].Client, others[i].Wants = max(want[i], 2), want[i] > 0
	}
	mustAll(t, s, others, driver.Held)
	for i, q := range others {
		hinted(t, s, "refused", q.Key, want[i])
		hinted(t, s, "refused", q.Key, want[i])
	}
	for _, h := range holds {
		release(t, s, h)
	}
	// The next are granted: every second one to who left the hint.
	last := requests("k", 6)
	for i := range last {
		if last[i].Client = 4; i%2 == 0 {
			last[i].Client = want[i]
		}
	}
	mustAll(t, s, last, driver.Granted)
	for i, q := range last {
		hinted(t, s, "granted", q.Key, []uint32{0, 0, 0, 0, 0, 3}[i])
	}
}

// TestHintCommands: a cycle of a waiter is two commands as everybody's, and a release in
// a batch has one more for all of it, if it asks.
func TestHintCommands(t *testing.T) {
	t.Parallel()
	s := shared(t)
	sent := func(what string, want uint64, call func()) {
		t.Helper()
		before := s.Statements()
		call()
		if n := s.Statements() - before; n != want {
			t.Errorf("%s: %d commands, want %d", what, n, want)
		}
	}
	release(t, s, granted(t, s, request("k")))
	sent("a cycle that nobody disturbs", 2, func() {
		h := granted(t, s, waiterOf("k", 1))
		h.Asks = true
		if r := release(t, s, h); r.Wanted != (driver.Hint{}) {
			t.Errorf("%+v", r)
		}
	})
	h := granted(t, s, waiterOf("k", 1))
	sent("a cycle of which another waits", 2, func() {
		refused(t, s, "k", 2)
		h.Asks = true
		if r := release(t, s, h); r.Wanted.Client != 2 || r.Wanted.Left <= 0 || r.Wanted.Left > driver.HintTime {
			t.Errorf("%+v", r)
		}
	})
	for _, asks := range []int{0, 1, 3} {
		holds := grantedAll(t, s, requests("b", 3))
		for i := range holds {
			refused(t, s, holds[i].Key, 2)
			holds[i].Asks = i < asks
		}
		want := uint64(1)
		if asks > 0 {
			want = 2
		}
		sent("a release of three keys", want, func() {
			results, err := s.Release(t.Context(), holds)
			must(t, err)
			for i, r := range results {
				if r.Status != driver.Released || (r.Wanted.Client == 2) != holds[i].Asks {
					t.Errorf("%d of which %d ask: %+v", i, asks, r)
				}
			}
		})
	}
}

// TestHintOfAnotherClock: one that ends too far ahead is none, and is replaced; neither is
// what somebody wrote by hand.
func TestHintOfAnotherClock(t *testing.T) {
	t.Parallel()
	s := shared(t)
	by := func(client, until any) d { return d{{Key: "by", Value: client}, {Key: "until", Value: until}} }
	ahead := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for what, c := range map[string]struct {
		hint   any
		client uint32 // whose it is, 0: none
		is     uint32 // whose it is after a refusal of 5
	}{
		"stands":        {by(6, ahead(5*time.Second)), 6, 6},
		"by a long":     {by(int64(6), ahead(5*time.Second)), 6, 6},
		"by a double":   {by(6.0, ahead(5*time.Second)), 6, 6},
		"over":          {by(6, ahead(-time.Second)), 0, 5},
		"too far ahead": {by(6, ahead(driver.MaxHintTime+time.Minute)), 0, 5},
		"a timestamp":   {by(6, bson.Timestamp{T: uint32(ahead(5 * time.Second).Unix())}), 0, 5},
		"a number":      {by(6, ahead(5*time.Second).UnixMilli()), 0, 5},
		"no date":       {d{{Key: "by", Value: 6}}, 0, 5},
		"an array":      {a{by(6, ahead(5*time.Second))}, 0, 5},
		"a text":        {"6", 0, 5},
		"null":          {nil, 0, 5},
	} {
		put := func() {
			t.Helper()
			_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), keyID(what), op("$set", op("wanted", c.hint)))
			must(t, err)
		}
		h := granted(t, s, request(what))
		put()
		hinted(t, s, what, what, c.client)
		refused(t, s, what, 5)
		hinted(t, s, what+", after a refusal", what, c.is)
		put()
		h.Asks = true
		if r := release(t, s, h); r.Status != driver.Released || r.Wanted.Client != c.client {
			t.Errorf("%s: release: %+v, want the hint of %d", what, r, c.client)
		}
		granted(t, s, request(what))
		var doc struct{ Wanted any }
		must(t, s.db.Collection(s.leases).FindOne(t.Context(), op("_id", keyID(what))).Decode(&doc))
		if kept := doc.Wanted != nil; kept != (c.client > 0) {
			t.Errorf("%s: after a grant: %v", what, doc.Wanted)
		}
	}
}

// TestWatchHints: a hint wakes nobody, not even on a key that MinHold keeps.
func TestWatchHints(t *testing.T) {
	s := shared(t)
	q := request("kept")
	q.Keep = time.Hour
	release(t, s, granted(t, s, q))
	h := granted(t, s, request("held"))
	freed, _ := watching(t, s)
	for range 20 {
		for _, key := range []string{"kept", "held"} {
			for client := range uint32(2) {
				_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), keyID(key), op("$unset", op("wanted", 1)))
				must(t, err)
				refused(t, s, key, client+1)
				hinted(t, s, "refused", key, client+1)
			}
		}
	}
	release(t, s, h)
	if key := next(t, freed); key != "held" {
		t.Errorf("an event for %q", key)
	}
	time.Sleep(100 * time.Millisecond)
	if n := len(freed); n != 0 {
		t.Errorf("%d events too many", n)
	}
}

// TestHintsBesideAGuard: neither an open guarded transaction nor a renewal waits for hints,
// nor the other way round.
func TestHintsBesideAGuard(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k")
	sess, ctx := begin(t, s)
	must(t, s.Guard(ctx, lease))
	for client := range uint32(5) {
		_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), keyID("k"), op("$unset", op("wanted", 1)))
		must(t, err)
		refused(t, s, "k", client+1)
		hinted(t, s, "an open guarded transaction", "k", client+1)
		must(t, lease.Renew(t.Context()))
	}
	must(t, s.Guard(ctx, lease))
	must(t, sess.CommitTransaction(ctx))
	must(t, lease.Err())
	must(t, lease.Release(t.Context()))
}

// TestHintAfterALostReply: a refusal that left a hint and whose reply is lost is a refusal.
func TestHintAfterALostReply(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	granted(t, beside, request("k"))
	p.lose("findAndModify")
	refused(t, s, "k", 1)
	hinted(t, beside, "after a lost reply", "k", 1)
}

// TestHintOfARelease: the first sending of a release found the hint, of which only the
// majority was late, and its repeat finds nothing. One that cannot be read is none.
func TestHintOfARelease(t *testing.T) {
	srv := testserver.Start(t, testserver.Mongo) // a fail point is the server's
	s := open(t, database(t, srv.DSN(), options.Client().SetAppName("hints")), Options{})
	h := granted(t, s, request("k"))
	refused(t, s, "k", 1)
	h.Asks = true
	failCommand(t, s, "hints", "findAndModify", bson.E{Key: "writeConcernError", Value: bson.D{
		{Key: "code", Value: codeMaxTimeMSExpired}, {Key: "codeName", Value: "MaxTimeMSExpired"}, {Key: "errmsg", Value: "test"}}})
	if r := release(t, s, h); r.Status != driver.Released || r.Wanted.Client != 1 {
		t.Errorf("%+v, want released, with the hint of 1", r)
	}
	for what, how := range map[string]bson.E{
		"refused": {Key: "errorCode", Value: codeUnauthorized},
		"slow":    {Key: "blockConnection", Value: true},
	} {
		holds := grantedAll(t, s, requests(what, 3))
		for i := range holds {
			refused(t, s, holds[i].Key, 1)
			holds[i].Asks = true
		}
		failCommand(t, s, "hints", "find", how, bson.E{Key: "blockTimeMS", Value: 5000})
		start := time.Now()
		results, err := s.Release(t.Context(), holds)
		must(t, err)
		for _, r := range results {
			if r.Status != driver.Released || what == "refused" && r.Wanted.Client != 0 {
				t.Errorf("the read of the hints is %s: %+v, want released", what, r)
			}
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("the read of the hints is %s: the release took %v", what, took)
		}
	}
}
