package mongolock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// pin has n keys guarded by transactions of the caller that hang, as long as unpin is
// not called; their leases are released.
func pin(t testing.TB, s *Store, prefix string, n int) (unpin func()) {
	t.Helper()
	c, err := rowlock.New(s, rowlock.Options{TTL: time.Minute})
	must(t, err)
	defer c.Close(context.Background())
	var open []*mongo.Session
	for i := range n {
		lease, err := c.Acquire(patient(t), fmt.Sprint(prefix, i), rowlock.Guarded())
		must(t, err)
		sess, err := s.db.Client().StartSession()
		must(t, err)
		must(t, sess.StartTransaction())
		must(t, s.Guard(mongo.NewSessionContext(t.Context(), sess), lease))
		must(t, lease.Release(patient(t)))
		open = append(open, sess)
	}
	return func() {
		for _, sess := range open {
			_ = sess.AbortTransaction(context.Background())
			sess.EndSession(context.Background())
		}
	}
}

// Keys that were pinned the last time are looked at without waiting, and without a write
// to their documents: by one command for all, and one for each of some.
func TestP15_PinnedKeysAreLookedAt(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const n = 32
	unpin := pin(t, s, "k", n)
	defer unpin()
	first := requests("k", n)
	for i := range first {
		first[i].Apart = true
	}
	mustAll(t, s, first, driver.Pinned) // whatever sessions the fences name were ended
	wrote, sent := writes(t, s, s.leases), s.Statements()
	reqs := requests("k", n)
	for i := range reqs {
		reqs[i].Pinned = true
	}
	for _, some := range [][]driver.Request{reqs, reqs[:1]} {
		results, err := s.Acquire(patient(t), some)
		must(t, err)
		for i, r := range results {
			if r.Status != driver.Pinned {
				t.Errorf("%q: %v (%v), want pinned", some[i].Key, r.Status, r.Err)
			}
		}
	}
	if more := s.Statements() - sent; more > maxLooks+2+3 {
		t.Errorf("P15: a look at %d pinned keys, and one at one of them, took %d commands", n, more)
	}
	if more := writes(t, s, s.leases) - wrote; more > 0 {
		t.Errorf("P15: a look at pinned keys wrote their documents %d times", more)
	}
	granted(t, s, request("other"))
	unpin()
	for i, q := range grantedAll(t, s, reqs) { // where none of some is pinned, all are looked at
		if i%2 == 0 {
			release(t, s, q)
		}
	}
	for i, q := range requests("k", n) {
		if i%2 == 0 {
			q.Pinned = true
			granted(t, s, q)
		}
	}
}

// Where many keys of a batch may be pinned the others have their answers after a few
// commands: which are pinned is told when they come without them.
func TestP15_ManyPinnedKeysAmongOthers(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	s := shared(t)
	const n = 24
	unpin := pin(t, s, "p", n)
	defer unpin()
	pin(t, s, "g", 4)() // guarded once, and not pinned
	freed(t, s, requests("k", 4))
	fewest := uint64(1000)
	for try := 0; ; try++ { // a loaded server may need more commands, or more time
		doubtful := append(requests("p", n), requests("g", 4)...)
		others := requests("k", 4)
		sent, sure := s.Statements(), true
		results, err := s.Acquire(patient(t), append(slices.Clone(others), doubtful...))
		must(t, err)
		fewest = min(fewest, s.Statements()-sent)
		for i, r := range results {
			if i >= len(others) {
				sure = sure && r.Status == driver.Pinned && r.Apart
				continue
			}
			if r.Status == driver.Granted {
				release(t, s, holdOf(others[i], r))
			}
			sure = sure && r.Status == driver.Granted
		}
		for _, q := range doubtful {
			if i := inspect(t, s, q.Key); i.Hold == q.ID {
				t.Errorf("P6: %q was not given back: %+v", q.Key, i)
			}
		}
		if sure && fewest <= 8 {
			break
		}
		if try == 20 {
			t.Fatalf("P15: at least %d commands, at last with %+v", fewest, results)
		}
	}
	for try := 0; ; try++ {
		apart := append(requests("p", n), requests("g", 4)...)
		for i := range apart {
			apart[i].Apart = true
		}
		results, err := s.Acquire(patient(t), apart)
		must(t, err)
		sure := true
		for i, r := range results {
			want := driver.Pinned
			if i >= n {
				want = driver.Granted
			}
			sure = sure && r.Status == want && !r.Apart
			if r.Status == driver.Granted {
				release(t, s, holdOf(apart[i], r))
			}
		}
		if sure {
			break
		}
		if try == 20 {
			t.Fatalf("keys that came apart: %+v", results)
		}
	}
	unpin()
	apart := append(requests("p", n), requests("g", 4)...)
	for i := range apart {
		apart[i].Apart = true
	}
	grantedAll(t, s, apart)
}

// One that is pinned among many is found without a look at each.
func TestFencesWritten(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const n = 64
	pin(t, s, "k", n)()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	which := func(open ...int) {
		t.Helper()
		for _, i := range open {
			defer blockDocument(t, s.db.Collection(s.fences), document.KeyID(keys[i]))()
		}
		var sent uint64
		var written []bool
		for { // on a busy machine a connection may be silent for a second
			sent = s.Statements()
			var err error
			if written, err = s.fence.WhichWritten(t.Context(), keys); !driver.IsSilent(err) {
				must(t, err)
				break
			}
		}
		for i, is := range written {
			if is != slices.Contains(open, i) {
				t.Errorf("%q: written %v, want %v", keys[i], is, !is)
			}
		}
		if most := uint64(1 + 2*split.Parts*len(open) + 3); s.Statements()-sent > most {
			t.Errorf("to find %d of %d keys took %d commands", len(open), n, s.Statements()-sent)
		}
	}
	which()
	which(7)
	which(0, n-1)
}

// Acquires of pinned keys leave connections for the others, however many there are.
func TestP15_PinnedKeysHaveFewConnections(t *testing.T) {
	t.Parallel()
	const n = 4 * split.Parts
	uri := testserver.DSN(t, testserver.Mongo)
	commands := &inFlight{}
	db := database(t, uri, options.Client().SetMonitor(commands.monitor()))
	s := open(t, db, Options{})
	defer pin(t, open(t, connect(t, uri).Database(db.Name()), Options{}), "k", n)()
	granted(t, s, request("first"))
	for !commands.none() { // the first use looks how large the pool is
		time.Sleep(time.Millisecond)
	}
	commands.most = 0
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			reqs := requests("k", n)
			for j := range reqs {
				reqs[j].Pinned, reqs[j].Apart = i%2 == 0, i%2 == 1
			}
			for j := 0; j < split.Parts && i > 1; j++ { // each alone
				_, _ = s.Acquire(patient(t), reqs[j:j+1])
			}
			_, err := s.Acquire(patient(t), reqs)
			must(t, err)
		})
	}
	calls.Wait()
	if commands.most > command.PinnedPlaces {
		t.Errorf("P15: %d commands at once for pinned keys", commands.most)
	}
	t.Logf("%d commands at once", commands.most)
}

// A look at a pinned key leaves the guarded transaction that pins it alone.
func TestP14_ALookAtAPinnedKey(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("k")
	q.Guarded = true
	h := granted(t, s, q)
	if open, err := s.fence.Written(t.Context(), "k"); open || err != nil {
		t.Errorf("nothing is open: %v, %v", open, err)
	}
	if open, err := s.fence.Written(t.Context(), "none"); open || err != nil {
		t.Errorf("there is no such fence: %v, %v", open, err)
	}
	before := fenceOf(t, s, "k")
	unblock := blockDocument(t, s.db.Collection(s.fences), document.KeyID("k"))
	if open, err := s.fence.Written(t.Context(), "k"); !open || err != nil {
		t.Errorf("a transaction is open: %v, %v", open, err)
	}
	unblock()
	if after := fenceOf(t, s, "k"); after.Token != before.Token || after.N != before.N {
		t.Errorf("P14: the look changed the fence: %+v, then %+v", before, after)
	}
	release(t, s, h)
}

// BenchmarkPinnedKeys is P15: cycles of keys that nobody else wants, beside keys that
// hung guarded transactions pin and that the same client waits for, against the same
// load without: five pairs in turns, with -short one. delay-p99-ms is the median of the
// differences of their p99, to be at most 100 ms and four round trips (trip-ms).
func BenchmarkPinnedKeys(b *testing.B) {
	pairs := 5
	if testing.Short() {
		pairs = 1
	}
	for _, n := range []int{1, 8, 32, 100} {
		b.Run(fmt.Sprint("keys=", n), func(b *testing.B) {
			s := open(b, database(b, testserver.DSN(b, testserver.Mongo)), Options{})
			for b.Loop() {
				var differences, worst []time.Duration
				for pair := range pairs {
					p99, most := make(map[bool]time.Duration), make(map[bool]time.Duration)
					for _, pinned := range [][]bool{{false, true}, {true, false}}[pair%2] {
						p99[pinned], most[pinned] = besidePinned(b, s, n, pinned)
					}
					differences = append(differences, p99[true]-p99[false])
					worst = append(worst, most[true]-most[false])
				}
				var trips []time.Duration
				for range 100 {
					start := time.Now()
					must(b, s.db.RunCommand(b.Context(), document.Op("ping", 1)).Err())
					trips = append(trips, time.Since(start))
				}
				middle := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) / 1e6 }
				b.ReportMetric(middle(differences), "delay-p99-ms")
				b.ReportMetric(middle(worst), "delay-max-ms")
				b.ReportMetric(middle(trips), "trip-ms")
			}
		})
	}
}

// besidePinned runs four workers for two seconds, and returns the p99 and the largest
// time of a cycle.
func besidePinned(b *testing.B, s *Store, n int, pinned bool) (p99, most time.Duration) {
	b.Helper()
	prefix := newID().String()
	if pinned {
		defer pin(b, s, prefix, n)()
	}
	c, err := rowlock.New(s, rowlock.Options{TTL: 30 * time.Second})
	must(b, err)
	defer c.Close(context.Background())
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
	defer cancel()
	var waiters, workers sync.WaitGroup
	if pinned {
		for i := range n {
			waiters.Go(func() {
				if _, err := c.Acquire(ctx, fmt.Sprint(prefix, i)); !errors.Is(err, context.DeadlineExceeded) {
					b.Errorf("acquire of a pinned key: %v", err)
				}
			})
		}
	}
	var mu sync.Mutex
	var took []time.Duration
	for w := range 4 {
		workers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				start := time.Now()
				lease, err := c.Acquire(b.Context(), fmt.Sprint(prefix, "-", w, "-", i%100))
				must(b, err)
				must(b, lease.Release(b.Context()))
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	waiters.Wait()
	slices.Sort(took)
	return took[len(took)*99/100], took[len(took)-1]
}
