package mongolock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// next is the key that the stream tells of.
func next(t *testing.T, changed <-chan string) string {
	t.Helper()
	select {
	case key := <-changed:
		return key
	case <-time.After(testserver.Patience(t)):
		t.Fatal("no event")
		return ""
	}
}

// told wants the stream to tell of these keys, in any order.
func told(t *testing.T, what string, changed <-chan string, want ...string) {
	t.Helper()
	var got []string
	for range want {
		got = append(got, next(t, changed))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%s: events for %q, want %q", what, got, want)
	}
}

// TestWatch: the stream tells of grants and of releases of every kind, and of nothing else.
func TestWatch(t *testing.T) {
	s := shared(t)
	freed(t, s, []driver.Request{request("a\x00\xff"), request("b"), request("c"), request("d")})
	changed, stop := watching(t, s)
	a := granted(t, s, request("a\x00\xff"))
	told(t, "a grant", changed, a.Key)
	for range 10 { // renewals, refusals and what becomes of the line do not pass
		renew(t, s, a)
		refused(t, s, a.Key)
		q := standerOf(a.Key)
		stand(t, s, q)
		release(t, s, undoOf(q))
	}
	waiting := standerOf(a.Key)
	stand(t, s, waiting)
	release(t, s, a)
	told(t, "a release that passes the key", changed, a.Key)
	release(t, s, passedTo(t, s, waiting, a.Token))
	told(t, "a release", changed, a.Key)
	for range 10 { // now and then the server logs the whole document
		a = granted(t, s, request(a.Key))
		told(t, "a grant", changed, a.Key)
		release(t, s, a)
		told(t, "a release", changed, a.Key)
	}
	kept := request("b")
	kept.Keep = time.Hour
	holds := grantedAll(t, s, []driver.Request{kept, request("c")})
	told(t, "grants", changed, "b", "c")
	_, err := s.Release(patient(t), holds)
	must(t, err)
	told(t, "releases", changed, "b", "c")
	granted(t, s, request("new"))
	told(t, "the first grant of a key", changed, "new")
	_, err = s.ForceRelease(patient(t), "new")
	must(t, err)
	told(t, "a forced release", changed, "new")

	x, y := granted(t, s, readerOf("d")), granted(t, s, slotOf("d", 3))
	told(t, "the first reader", changed, "d")
	renew(t, s, x)
	release(t, s, x)
	release(t, s, y)
	told(t, "the end of a phase", changed, "d")

	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v", err)
	}
	select {
	case key := <-changed:
		t.Errorf("one event too many: %q", key)
	default:
	}
}

// TestWatchEnds: a stream that cannot go on says so.
func TestWatchEnds(t *testing.T) {
	s := shared(t)
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- s.Watch(t.Context(), func() { close(ready) }, func(string) {}) }()
	<-ready
	if err := s.db.Collection(s.leases).Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || driver.IsLasting(err) {
			t.Errorf("Watch = %v", err)
		}
	case <-time.After(testserver.Patience(t)):
		t.Fatal("the stream of a dropped collection goes on")
	}
}

// streams counts the change streams on the collection of s: a stream waits on the server, or is idle there for a moment.
func streams(t testing.TB, s *Store) int {
	t.Helper()
	docs, err := s.db.Client().Database("admin").Aggregate(t.Context(), []any{
		document.Op("$currentOp", map[string]any{"allUsers": true, "idleCursors": true}),
		document.Op("$match", map[string]any{
			"ns": s.db.Name() + "." + s.leases,
			"cursor.originatingCommand.pipeline.0.$changeStream": document.Op("$exists", true),
		}),
	})
	must(t, err)
	var found []map[string]any
	must(t, docs.All(t.Context(), &found))
	return len(found)
}

// TestStreamsOfObserversOnly: programs that wait open no change stream, and write little while they wait. The loops of Observe
// of a program share one.
func TestStreamsOfObserversOnly(t *testing.T) {
	t.Parallel()
	s := shared(t)
	holder := locker(t, s, rowlock.Options{})
	lease, err := holder.Acquire(patient(t), "k")
	must(t, err)
	const programs = 16
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, programs)
	for range programs {
		c := locker(t, beside(t, s, testserver.DSN(t, testserver.Mongo)), rowlock.Options{})
		go func() {
			_, err := c.Acquire(ctx, "k")
			ended <- err
		}()
	}
	waitFor(t, "all to stand", func() bool { return inspect(t, s, "k").Waiting == programs })
	if n := streams(t, s); n != 0 {
		t.Errorf("%d programs that wait have %d change streams", programs, n)
	}
	before := writes(t, s, s.leases)
	const while = 3 * time.Second
	time.Sleep(while)
	// An entry is written again once in two fifths of its time, or more rarely; the lease is renewed.
	if n, most := writes(t, s, s.leases)-before, int64(programs*(while/(driver.EntryTime*2/5)+1)+10); n > most {
		t.Errorf("%d programs that wait have written %d times in %v, want at most %d", programs, n, while, most)
	}
	seen := make(chan rowlock.Leader, 10)
	observing, stop := context.WithCancel(t.Context())
	defer stop()
	for _, key := range []string{"k", "k", "other"} {
		go func() {
			for leader := range holder.Observe(observing, key) {
				seen <- leader
			}
		}()
	}
	for range 3 {
		<-seen
	}
	waitFor(t, "the stream", func() bool { return streams(t, s) > 0 })
	if n := streams(t, s); n != 1 {
		t.Errorf("three loops of Observe of one program have %d change streams", n)
	}
	cancel()
	for range programs {
		<-ended
	}
	must(t, lease.Release(patient(t)))
}
