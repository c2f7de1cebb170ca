package mongolock

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// refused has client ask for a key that is held. A busy server that does not come to it is
// asked again.
func refused(t testing.TB, s *Store, key string, client uint32) {
	t.Helper()
	results, err := s.Acquire(patient(t), []driver.Request{waiterOf(key, client)})
	for try := 0; try < 20 && driver.IsNotApplied(err); try++ {
		results, err = s.Acquire(patient(t), []driver.Request{waiterOf(key, client)})
	}
	must(t, err)
	if r := results[0]; r.Status != driver.Held || r.Left <= 0 {
		t.Fatalf("acquire %q: %+v, want held", key, r)
	}
}

// leave writes a hint of client that stands for d from now: longer than any that a refusal
// leaves, where a test has much to do meanwhile.
func leave(t testing.TB, s *Store, key string, client uint32, d time.Duration) {
	t.Helper()
	hint := bson.D{{Key: "by", Value: int32(client)}, {Key: "until", Value: document.Op("$add", bson.A{document.Now, document.Millis(d)})}}
	_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), document.KeyID(key), bson.A{document.Op("$set", document.Op("wanted", hint))})
	must(t, err)
}

const lasting = driver.MaxHintTime - time.Second

// hinted checks whose hint stands on a key; 0: nobody's.
func hinted(t testing.TB, s *Store, what, key string, client uint32) {
	t.Helper()
	if h := inspect(t, s, key).Wanted; h.Client != client {
		t.Errorf("%s: the hint is %+v, want one of client %d", what, h, client)
	}
}

// inTime runs a test of what has to happen within d, until it did so in time; fail is for
// what it finds.
func inTime(t *testing.T, d time.Duration, test func(fail func(format string, args ...any))) {
	t.Helper()
	for range 50 {
		var found []func()
		start := time.Now()
		test(func(format string, args ...any) {
			found = append(found, func() { t.Helper(); t.Errorf(format, args...) })
		})
		if time.Since(start) < d {
			for _, f := range found {
				f()
			}
			return
		}
	}
	t.Logf("the machine was never fast enough for what takes %v", d)
}

// storedDocument is that of a key, without its hint.
func storedDocument(t testing.TB, s *Store, key string) string {
	t.Helper()
	doc, err := s.db.Collection(s.leases).FindOne(t.Context(), document.ByKey(key), options.FindOne().SetProjection(document.Op("wanted", 0))).Raw()
	must(t, err)
	return doc.String()
}

// TestHintOfARefusal: a waiter's refusal writes its hint, once in the half of the time for
// which it stands, and nothing else; any other refusal writes nothing.
func TestHintOfARefusal(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q, q2 := request("k"), request("k2")
	q.Keep, q.Guarded = time.Hour, true
	h := granted(t, s, q)
	granted(t, s, q2)
	was := storedDocument(t, s, "k")
	wrote := func(call func()) int64 {
		t.Helper()
		before := writes(t, s, s.leases)
		call()
		return writes(t, s, s.leases) - before
	}
	if n := wrote(func() {
		for _, r := range []driver.Request{waiterOf("k", 0), request("k")} { // a client without a number; one that only tries
			if r := acquire(t, s, r); r.Status != driver.Held {
				t.Errorf("%+v, want held", r)
			}
			mustAll(t, s, []driver.Request{r, waiterOf("k2", 0)}, driver.Held)
		}
	}); n != 0 {
		t.Errorf("refusals of nobody who waits wrote %d times", n)
	}
	inTime(t, driver.HintTime/2, func(fail func(string, ...any)) {
		leave(t, s, "k", 3, -time.Second)
		if n := wrote(func() {
			for range 3 {
				refused(t, s, "k", 1)
				refused(t, s, "k", 2)
				mustAll(t, s, []driver.Request{waiterOf("k", 2), request("k2")}, driver.Held)
			}
		}); n != 1 {
			fail("the refusals of two who wait wrote %d times, want once", n)
		}
		if h := inspect(t, s, "k").Wanted; h.Client != 1 {
			fail("the hint is %+v, want that of the first", h)
		}
	})
	inTime(t, driver.HintTime/2, func(fail func(string, ...any)) { // the second half of its time
		leave(t, s, "k", 1, driver.HintTime/2-10*time.Millisecond)
		refused(t, s, "k", 2)
		if h := inspect(t, s, "k").Wanted; h.Client != 1 {
			fail("the hint is %+v, want that of the first until it is over", h)
		}
		refused(t, s, "k", 1)
		if h := inspect(t, s, "k").Wanted; h.Client != 1 || h.Left < driver.HintTime/2 {
			fail("the hint is %+v, want a new one of the same client", h)
		}
	})
	if is := storedDocument(t, s, "k"); is != was {
		t.Errorf("hints changed more than themselves:\n%s\n%s", was, is)
	}
	// The holder's own attempt again, however it waits.
	again, again2 := waiterOf("k", 3), waiterOf("k2", 3)
	again.ID, again2.ID = q.ID, q2.ID
	leave(t, s, "k", 1, -time.Second)
	if n := wrote(func() {
		if g := granted(t, s, again); g.Token != h.Token {
			t.Errorf("token %d, then %d", h.Token, g.Token)
		}
		mustAll(t, s, []driver.Request{again, again2}, driver.Granted)
	}); n != 0 {
		t.Errorf("finding the own hold wrote %d times", n)
	}
	// What MinHold keeps is wanted too.
	release(t, s, h)
	inTime(t, driver.HintTime, func(fail func(string, ...any)) {
		refused(t, s, "k", 4)
		if h := inspect(t, s, "k").Wanted; h.Client != 4 {
			fail("kept by MinHold: the hint is %+v, want one of 4", h)
		}
	})
}

// TestHintStays: a grant of another client, renewals, a release, force and an undo leave a
// hint as it is. A list shows it.
func TestHintStays(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, key := range []string{"grant", "batch", "renew", "release", "force", "undo"} {
		h := granted(t, s, request(key))
		leave(t, s, key, 7, lasting)
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
			if i, err := s.ForceRelease(patient(t), key); err != nil || i.Wanted.Client != 7 {
				t.Errorf("force: %+v, %v", i, err)
			}
		}
		hinted(t, s, key, key, 7)
		infos, err := s.List(t.Context(), key, "", 1)
		if err != nil || len(infos) != 1 || infos[0].Wanted.Client != 7 || infos[0].Wanted.Left <= 0 {
			t.Errorf("%s: listed as %+v, %v", key, infos, err)
		}
		// Its own client takes it back.
		if _, err := s.ForceRelease(patient(t), key); err != nil {
			t.Fatal(err)
		}
		granted(t, s, driver.Request{Key: key, ID: newID(), TTL: time.Minute, Client: 7})
		hinted(t, s, key+", then its own grant", key, 0)
	}
}

// TestHintsInABatch: of several keys in one command each is refused to its own client, and
// to one that waits or not.
func TestHintsInABatch(t *testing.T) {
	t.Parallel()
	s := shared(t)
	holds := grantedAll(t, s, requests("k", 6))
	for _, want := range [][]uint32{{2, 0, 3, 0, 2, 3}, {2, 2, 2, 2, 2, 2}, {2, 3, 2, 3, 2, 3}, {0, 0, 0, 0, 0, 0}} {
		others := requests("k", 6)
		for i := range others {
			others[i].Client, others[i].Wants = max(want[i], 2), want[i] > 0
		}
		inTime(t, driver.HintTime, func(fail func(string, ...any)) {
			for _, h := range holds {
				leave(t, s, h.Key, 9, -time.Second)
			}
			mustAll(t, s, others, driver.Held)
			for i, q := range others {
				if h := inspect(t, s, q.Key).Wanted; h.Client != want[i] {
					fail("refused to %v: the hint is %+v, want one of %d", want, h, want[i])
				}
			}
		})
	}
	// The next are granted: half of them to who left the hint.
	hints := []uint32{2, 3, 2, 3, 2, 3}
	for _, clients := range [][]uint32{{2, 2, 2, 2, 2, 2}, {2, 3, 4, 5, 2, 2}} {
		for i, h := range holds {
			release(t, s, h)
			leave(t, s, h.Key, hints[i], lasting)
		}
		next := requests("k", 6)
		for i := range next {
			next[i].Client, next[i].Wants = clients[i], i%2 == 0
		}
		holds = grantedAll(t, s, next)
		for i, h := range holds {
			want := hints[i]
			if clients[i] == want {
				want = 0
			}
			hinted(t, s, "granted in a batch", h.Key, want)
		}
	}
}

// TestHintCommands: a cycle of a waiter is two commands as everybody's, and a release in
// a batch has one more for all of it, if it asks.
func TestHintCommands(t *testing.T) {
	t.Parallel()
	s := shared(t)
	sent := func(what string, want uint64, call func()) {
		t.Helper()
		fewest := uint64(1000)
		for range 10 { // a busy server is asked again
			before := s.Statements()
			call()
			if fewest = min(fewest, s.Statements()-before); fewest <= want {
				break
			}
		}
		if fewest != want {
			t.Errorf("%s: %d commands, want %d", what, fewest, want)
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
	leave(t, s, "k", 2, lasting)
	sent("a cycle while another waits", 2, func() {
		h := granted(t, s, waiterOf("k", 1))
		h.Asks = true
		if r := release(t, s, h); r.Wanted.Client != 2 || r.Wanted.Left <= 0 || r.Wanted.Left > lasting {
			t.Errorf("%+v", r)
		}
	})
	freed(t, s, requests("b", 3))
	for asks := range 4 {
		want := uint64(3) // with two for the acquire
		if asks > 0 {
			want = 4
		}
		for _, q := range requests("b", 3) {
			leave(t, s, q.Key, 2, lasting)
		}
		sent("a cycle of three keys", want, func() {
			holds := grantedAll(t, s, requests("b", 3))
			for i := range holds {
				holds[i].Asks = i < asks
			}
			results, err := s.Release(patient(t), holds)
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
	by := func(client, until any) bson.D {
		return bson.D{{Key: "by", Value: client}, {Key: "until", Value: until}}
	}
	ahead := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for what, c := range map[string]struct {
		hint   func() any
		client uint32 // whose it is, 0: none
	}{
		"stands":        {func() any { return by(6, ahead(lasting)) }, 6},
		"by a long":     {func() any { return by(int64(6), ahead(lasting)) }, 6},
		"by a double":   {func() any { return by(6.0, ahead(lasting)) }, 6},
		"over":          {func() any { return by(6, ahead(-time.Second)) }, 0},
		"too far ahead": {func() any { return by(6, ahead(driver.MaxHintTime+time.Hour)) }, 0},
		"a timestamp":   {func() any { return by(6, bson.Timestamp{T: uint32(ahead(lasting).Unix())}) }, 0},
		"a number":      {func() any { return by(6, ahead(lasting).UnixMilli()) }, 0},
		"no date":       {func() any { return bson.D{{Key: "by", Value: 6}} }, 0},
		"an array":      {func() any { return bson.A{by(6, ahead(lasting))} }, 0},
		"a text":        {func() any { return "6" }, 0},
		"null":          {func() any { return nil }, 0},
	} {
		put := func() {
			t.Helper()
			_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), document.KeyID(what), document.Op("$set", document.Op("wanted", c.hint())))
			must(t, err)
		}
		h := granted(t, s, request(what))
		put()
		hinted(t, s, what, what, c.client)
		inTime(t, driver.HintTime, func(fail func(string, ...any)) {
			put()
			refused(t, s, what, 5)
			want := c.client
			if want == 0 {
				want = 5
			}
			if h := inspect(t, s, what).Wanted; h.Client != want {
				fail("%s: the hint after a refusal is %+v, want one of %d", what, h, want)
			}
		})
		put()
		h.Asks = true
		if r := release(t, s, h); r.Status != driver.Released || r.Wanted.Client != c.client {
			t.Errorf("%s: release: %+v, want the hint of %d", what, r, c.client)
		}
		granted(t, s, request(what))
		var doc struct{ Wanted any }
		must(t, s.db.Collection(s.leases).FindOne(t.Context(), document.ByKey(what)).Decode(&doc))
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
	before := writes(t, s, s.leases)
	const rounds = 20
	for range rounds {
		for _, key := range []string{"kept", "held"} {
			leave(t, s, key, 1, -time.Second) // one that is over becomes a new one
			refused(t, s, key, 2)
			_, err := s.db.Collection(s.leases).UpdateByID(t.Context(), document.KeyID(key), document.Op("$unset", document.Op("wanted", 1)))
			must(t, err)
			refused(t, s, key, 3)
		}
	}
	if n := writes(t, s, s.leases) - before; n != 2*4*rounds {
		t.Errorf("%d writes, want %d: the hints were not left", n, 2*4*rounds)
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

// TestHintsBesideAGuard: neither an open guarded transaction nor a renewal is disturbed by
// hints, nor the other way round.
func TestHintsBesideAGuard(t *testing.T) {
	t.Parallel()
	s := shared(t)
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	sess, ctx := begin(t, s)
	must(t, s.Guard(ctx, lease))
	for client := range uint32(5) {
		inTime(t, driver.HintTime, func(fail func(string, ...any)) {
			leave(t, s, "k", 9, -time.Second)
			refused(t, s, "k", client+1)
			if h := inspect(t, s, "k").Wanted; h.Client != client+1 {
				fail("beside an open guarded transaction the hint is %+v, want one of %d", h, client+1)
			}
		})
		err := lease.Renew(t.Context())
		for try := 0; try < 20 && driver.IsNotApplied(err); try++ { // a busy server is asked again
			err = lease.Renew(t.Context())
		}
		must(t, err)
	}
	must(t, s.Guard(ctx, lease))
	must(t, sess.CommitTransaction(ctx))
	must(t, lease.Err())
	must(t, lease.Release(patient(t)))
}

// TestHintAfterALostReply: a refusal that left a hint and whose reply is lost is a refusal.
func TestHintAfterALostReply(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	granted(t, beside, request("k"))
	inTime(t, driver.HintTime, func(fail func(string, ...any)) {
		leave(t, beside, "k", 9, -time.Second)
		p.lose("findAndModify")
		refused(t, s, "k", 1)
		if h := inspect(t, beside, "k").Wanted; h.Client != 1 {
			fail("the hint after a lost reply is %+v", h)
		}
	})
}

// TestHintOfARelease: the first sending of a release found the hint, of which only the
// majority was late, and its repeat finds nothing. One that cannot be read is none.
func TestHintOfARelease(t *testing.T) {
	srv := testserver.Start(t, testserver.Mongo) // a fail point is the server's
	s := open(t, database(t, srv.DSN(), options.Client().SetAppName("hints")), Options{})
	h := granted(t, s, request("k"))
	leave(t, s, "k", 1, lasting)
	h.Asks = true
	failCommand(t, s, "hints", "findAndModify", bson.E{Key: "writeConcernError", Value: bson.D{
		{Key: "code", Value: command.CodeMaxTimeMSExpired}, {Key: "codeName", Value: "MaxTimeMSExpired"}, {Key: "errmsg", Value: "test"}}})
	if r := release(t, s, h); r.Status != driver.Released || r.Wanted.Client != 1 {
		t.Errorf("%+v, want released, with the hint of 1", r)
	}
	for what, how := range map[string]bson.E{
		"refused": {Key: "errorCode", Value: command.CodeUnauthorized},
		"slow":    {Key: "blockConnection", Value: true},
	} {
		holds := grantedAll(t, s, requests(what, 3))
		for i := range holds {
			leave(t, s, holds[i].Key, 1, lasting)
			holds[i].Asks = true
		}
		const blocked = 30 * time.Second
		failCommand(t, s, "hints", "find", how, bson.E{Key: "blockTimeMS", Value: document.Millis(blocked)})
		start := time.Now()
		results, err := s.Release(patient(t), holds)
		must(t, err)
		for _, r := range results {
			if r.Status != driver.Released || what == "refused" && r.Wanted.Client != 0 {
				t.Errorf("the read of the hints is %s: %+v, want released", what, r)
			}
		}
		if took := time.Since(start); took > blocked/2 {
			t.Errorf("the read of the hints is %s: the release took %v", what, took)
		}
	}
}
