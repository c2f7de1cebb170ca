package mongolock

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The line of a key at the seam: rules 19 to 23 of package driver.

// standerOf is an exclusive request that stands.
func standerOf(key string) driver.Request { return stands(request(key)) }

// stands makes q one that stands.
func stands(q driver.Request) driver.Request {
	q.Stand, q.EntryTime, q.Claim = true, 30*time.Second, 20*time.Second
	return q
}

// viewOf is what one look says of a request.
func viewOf(t testing.TB, s *Store, q driver.Request) driver.View {
	t.Helper()
	views, err := patiently(func() ([]driver.View, error) { return s.Look(patient(t), []driver.Entry{document.EntryOf(q)}) })
	if err != nil {
		t.Fatalf("look at %q: %v", q.Key, err)
	}
	return views[0]
}

// stand sends a request that stands, again where a busy server did not do it in time.
func stand(t testing.TB, s *Store, q driver.Request) (r driver.Result) {
	t.Helper()
	for range 20 {
		if r = acquire(t, s, q); r.Status != driver.Held || r.Place > 0 {
			break
		}
	}
	return r
}

// placed sends q and wants it to stand at a place of so many.
func placed(t testing.TB, s *Store, q driver.Request, place, standing int) {
	t.Helper()
	if r := stand(t, s, q); r.Status != driver.Held || r.Place != place || r.Standing != standing {
		t.Fatalf("P29: %q: %+v, want held, at place %d of %d", q.Key, r, place, standing)
	}
	if v := viewOf(t, s, q); v.Place != place || v.Standing != standing || v.Mine || v.First <= 0 {
		t.Fatalf("P29: a look at %q: %+v, want place %d of %d", q.Key, v, place, standing)
	}
}

// passedTo wants the key to have been passed to q.
func passedTo(t testing.TB, s *Store, q driver.Request, above int64) driver.Hold {
	t.Helper()
	v := viewOf(t, s, q)
	if !v.Mine || v.Token < above+driver.TokenRange || v.Left <= 0 || v.Left > q.Claim {
		t.Fatalf("P29: %q is not passed: %+v", q.Key, v)
	}
	return driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Token: v.Token, Stored: v.Stored, Slot: v.Slot, Phase: v.Phase, TTL: q.TTL, Owner: q.Owner, Keep: q.Keep, Guarded: q.Guarded}
}

func documentOf(t testing.TB, s *Store, key string) bson.Raw {
	t.Helper()
	doc, err := s.db.Collection(s.leases).FindOne(t.Context(), document.ByKey(key)).Raw()
	must(t, err)
	return doc
}

// TestP29_Order: twelve programs are served in the order in which they came, whatever is sent twice or late, and a
// TryAcquire passes none of them.
func TestP29_Order(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	var all []driver.Request
	for i := range 12 {
		q := standerOf("k")
		all = append(all, q)
		placed(t, s, q, i+1, i+1)
		placed(t, s, q, i+1, i+1) // the same again
	}
	for i, q := range all {
		placed(t, s, q, i+1, 12)
	}
	for i, q := range all {
		if r := acquire(t, s, request("k")); r.Status != driver.Held {
			t.Fatalf("P29: a try passes %d who stand: %+v", 12-i, r)
		}
		before := h
		if r := release(t, s, h); r.Status != driver.Released {
			t.Fatalf("release: %+v", r)
		}
		h = passedTo(t, s, q, before.Token)
		if i > 0 { // a late copy finds nothing
			if r := release(t, s, before); r.Status != driver.Taken {
				t.Errorf("P5: a release that comes again: %+v", r)
			}
		}
		if st := renew(t, s, h); st != driver.Alive {
			t.Fatalf("a renewal of the hold that was passed: %v", st)
		}
	}
	release(t, s, h)
	doc := documentOf(t, s, "k")
	for _, name := range []string{"line", "keepUntil", "passed", "passing", "hold"} {
		if v := doc.Lookup(name); v.Type != 0 {
			t.Errorf("P25: a key without a line has %s: %v", name, v)
		}
	}
	if again := granted(t, s, request("k")); again.Token < h.Token+driver.TokenRange {
		locktest.Breach(t, "P3", "token %d after %d", again.Token, h.Token)
	}
}

// TestP29_Leave: who leaves is out of the line, also at the moment at which it is passed the key.
func TestP29_Leave(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	a, b, c := standerOf("k"), standerOf("k"), standerOf("k")
	for i, q := range []driver.Request{a, b, c} {
		placed(t, s, q, i+1, i+1)
	}
	undo := func(q driver.Request) driver.Result {
		return release(t, s, driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Slot: -1, Undo: true})
	}
	if r := undo(b); r.Status != driver.Released || !r.Final {
		t.Errorf("P6: one who stands leaves: %+v", r)
	}
	if v := viewOf(t, s, c); v.Place != 2 || v.Standing != 2 {
		t.Errorf("P29: behind one who left: %+v", v)
	}
	if v := viewOf(t, s, b); v.Place != 0 || v.Mine || v.Standing != 2 {
		t.Errorf("P6: one who left: %+v", v)
	}
	release(t, s, h)
	passedTo(t, s, a, h.Token)
	if r := undo(a); r.Status != driver.Released || !r.Final {
		t.Errorf("P6: one who was passed the key leaves: %+v", r)
	}
	ch := passedTo(t, s, c, h.Token)
	if r := undo(a); r.Status == driver.Released || r.Status == driver.Unknown {
		t.Errorf("P5: an undo that comes again: %+v", r)
	}
	passedTo(t, s, c, h.Token)
	release(t, s, ch)
	if i := inspect(t, s, "k"); i.Held || i.Waiting != 0 {
		t.Errorf("the key is not free: %+v", i)
	}
}

// TestP29_Next: a release with Next adds it behind all others, and passes the key to it where it is alone.
func TestP29_Next(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	n := standerOf("k")
	h.Next = &n
	if r := release(t, s, h); r.Status != driver.Released || r.Place != 0 {
		t.Errorf("alone: %+v", r)
	}
	h2 := passedTo(t, s, n, h.Token)
	if r := release(t, s, h); r.Status != driver.Taken {
		t.Errorf("P5: the release again: %+v", r)
	}
	if v := viewOf(t, s, n); !v.Mine || v.Standing != 0 {
		t.Errorf("P5: the release again adds its Next again: %+v", v)
	}
	a := standerOf("k")
	placed(t, s, a, 1, 1)
	n2 := standerOf("k")
	h2.Next = &n2
	if r := release(t, s, h2); r.Status != driver.Released || r.Place != 1 || r.Standing != 1 || r.First <= 0 {
		t.Errorf("behind another: %+v", r)
	}
	h3 := passedTo(t, s, a, h2.Token)
	release(t, s, h3)
	passedTo(t, s, n2, h3.Token)
}

// TestP29_Dead: an entry that is over counts for nobody; a claim that runs out is passed on by whoever stands, in order.
func TestP29_Dead(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	dead, a, b := standerOf("k"), standerOf("k"), standerOf("k")
	dead.EntryTime = 20 * time.Millisecond
	a.Claim = 20 * time.Millisecond
	if r := acquire(t, s, dead); r.Place != 1 {
		t.Errorf("it stands: %+v", r)
	}
	waitFor(t, "the entry to be over", func() bool { return viewOf(t, s, dead).Standing == 0 })
	placed(t, s, a, 1, 1)
	placed(t, s, b, 2, 2)
	release(t, s, h)
	if v := viewOf(t, s, dead); v.Mine || v.Place != 0 {
		t.Errorf("P29: a dead entry: %+v", v)
	}
	waitFor(t, "the claim to be over", func() bool { return viewOf(t, s, b).Free })
	if v := viewOf(t, s, b); v.Place != 1 || v.Mine {
		t.Errorf("P29: behind a claim that ran out: %+v", v)
	}
	if r := acquire(t, s, request("k")); r.Status != driver.Held || r.Standing != 0 && r.Standing != 1 {
		t.Errorf("P29: a try advances the line and is refused: %+v", r)
	}
	bh := passedTo(t, s, b, h.Token)
	placed(t, s, a, 1, 1) // it stands again, at the end
	if st := renew(t, s, bh); st != driver.Alive {
		t.Errorf("renewal: %v", st)
	}
	// The first one, whose request comes again, passes the key to itself as it asked.
	expire(t, s, "k")
	if v := viewOf(t, s, a); !v.Free || v.Place != 1 {
		t.Errorf("a hold that is over: %+v", v)
	}
	a.TTL = 40 * time.Second
	r := acquire(t, s, a)
	if r.Status != driver.Granted || r.Token < bh.Token+driver.TokenRange {
		t.Errorf("the first of the line: %+v", r)
	}
	if i := inspect(t, s, "k"); i.Owner != "test" || i.Left < 30*time.Second {
		t.Errorf("granted as it asked: %+v", i)
	}
}

// waitFor waits for something that the server's clock brings.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(testserver.Patience(t)); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// TestP29_AcquireOfAPassedHold: an acquire that finds that it was passed the key changes nothing, and says how long it has it.
func TestP29_AcquireOfAPassedHold(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, by := range []*Store{s, beside(t, s, uriOf(t))} { // one that knows of the line, and another
		key := used(t, s, fmt.Sprint("k", by == s))
		h := granted(t, s, request(key))
		q := standerOf(key)
		placed(t, s, q, 1, 1)
		release(t, s, h)
		passed := passedTo(t, s, q, h.Token)
		was := documentOf(t, s, key)
		for range 2 {
			if r := acquire(t, by, q); r.Status != driver.Granted || r.Token != passed.Token || r.Left <= 0 || r.Left > q.Claim {
				t.Errorf("the request again: %+v, want token %d", r, passed.Token)
			}
		}
		if is := documentOf(t, s, key); !bytes.Equal(is, was) {
			t.Errorf("P5: the request again changes %v to %v", was, is)
		}
		// One whose grant was not answered, too.
		other := standerOf(key + "b")
		was2 := acquire(t, by, other)
		waitFor(t, "time to pass", func() bool { return acquire(t, by, other).Left > 0 })
		if r := acquire(t, by, other); r.Status != driver.Granted || r.Token != was2.Token || was2.Left != 0 || r.Left > other.TTL {
			t.Errorf("P7: the request of a grant again: %+v after %+v", r, was2)
		}
	}
}

// TestP29_MinHold: a key that MinHold keeps is not passed; the first one gets it at the end.
func TestP29_MinHold(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("k")
	q.Keep = 4 * time.Second
	h := granted(t, s, q)
	a := standerOf("k")
	placed(t, s, a, 1, 1)
	release(t, s, h)
	if v := viewOf(t, s, a); v.Mine || v.Free || v.Left <= 0 || v.Left > q.Keep || !v.Kept || v.Place != 1 {
		t.Errorf("MinHold: %+v", v)
	}
	placed(t, s, a, 1, 1)
	waitFor(t, "MinHold to end", func() bool { return viewOf(t, s, a).Free })
	if r := acquire(t, s, request("k")); r.Status != driver.Held {
		t.Errorf("P29: a try at the end of MinHold: %+v", r)
	}
	passedTo(t, s, a, h.Token)
}

// TestP29_Full: a line has 64 entries; who finds it full has no place.
func TestP29_Full(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	var first driver.Request
	for i := range driver.MaxLine {
		q := standerOf("k")
		if i == 0 {
			first = q
		}
		if r := stand(t, s, q); r.Status != driver.Held || r.Place != i+1 {
			t.Fatalf("entry %d: %+v", i, r)
		}
	}
	late := standerOf("k")
	if r := acquire(t, s, late); r.Status != driver.Held || r.Place != 0 || r.Standing != driver.MaxLine {
		t.Errorf("a full line: %+v", r)
	}
	n := standerOf("k")
	h.Next = &n
	if r := release(t, s, h); r.Status != driver.Released || r.Place != 0 {
		t.Errorf("a Next at a full line: %+v", r)
	}
	passedTo(t, s, first, h.Token)
	placed(t, s, late, driver.MaxLine, driver.MaxLine)
}

// TestP29_Operators: ForceRelease leaves the line as it is and passes nothing; Inspect, List and ForceRelease count it; a
// document with a live entry is not reaped.
func TestP29_Operators(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	a, b := standerOf("k"), standerOf("k")
	placed(t, s, a, 1, 1)
	placed(t, s, b, 2, 2)
	counts := func(what string, i driver.Info) {
		t.Helper()
		if i.Waiting != 2 || time.Since(i.WaitingSince).Abs() > time.Hour || i.WaitingSince.IsZero() {
			t.Errorf("%s: %+v", what, i)
		}
	}
	i := inspect(t, s, "k")
	counts("inspect", i)
	if i.Left > time.Minute || i.Hold != h.ID || i.Kept {
		t.Errorf("inspect: %+v", i)
	}
	list, err := s.List(t.Context(), "", "", 10)
	must(t, err)
	counts("list", list[0])
	info, err := s.ForceRelease(t.Context(), "k")
	must(t, err)
	counts("force", info)
	if v := viewOf(t, s, a); v.Mine || !v.Free || v.Place != 1 || v.Standing != 2 {
		t.Errorf("after ForceRelease: %+v", v)
	}
	counts("free, with a line", inspect(t, s, "k"))
	if st := renew(t, s, h); st != driver.Forced {
		t.Errorf("the holder: %v", st)
	}
	if r := acquire(t, beside(t, s, uriOf(t)), request("k")); r.Status != driver.Held {
		t.Errorf("P29: a try after ForceRelease: %+v", r)
	}
	ah := passedTo(t, s, a, h.Token)
	_, err = s.ForceRelease(t.Context(), "k")
	must(t, err)
	age(t, s, "k", 48*time.Hour)
	if n, err := s.Reap(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("reaped %d with a live entry, %v", n, err)
	}
	if r := acquire(t, s, b); r.Status != driver.Granted || r.Token < ah.Token+2*driver.TokenRange {
		t.Errorf("the next: %+v", r)
	}
}

func uriOf(t testing.TB) string { return testserver.DSN(t, testserver.Mongo) }
