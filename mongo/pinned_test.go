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

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
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
		lease, err := c.Acquire(t.Context(), fmt.Sprint(prefix, i), rowlock.Guarded())
		must(t, err)
		sess, err := s.db.Client().StartSession()
		must(t, err)
		must(t, sess.StartTransaction())
		must(t, s.Guard(mongo.NewSessionContext(t.Context(), sess), lease))
		must(t, lease.Release(t.Context()))
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
	wrote, sent := writes(t, s, s.leases), s.Statements()
	reqs := requests("k", n)
	for i := range reqs {
		reqs[i].Pinned = true
	}
	for _, some := range [][]driver.Request{reqs, reqs[:1]} {
		results, err := s.Acquire(t.Context(), some)
		must(t, err)
		for i, r := range results {
			if r.Status != driver.Pinned {
				t.Errorf("%q: %v (%v), want pinned", some[i].Key, r.Status, r.Err)
			}
		}
	}
	if more := s.Statements() - sent; more > n+3 {
		t.Errorf("P15: a look at %d pinned keys, and one at one of them, took %d commands", n, more)
	}
	if more := writes(t, s, s.leases) - wrote; more > 0 {
		t.Errorf("P15: a look at pinned keys wrote their documents %d times", more)
	}
	granted(t, s, request("other"))
	unpin()
	for _, q := range requests("k", n) {
		q.Pinned = true
		granted(t, s, q)
	}
}

// A look at a pinned key leaves the guarded transaction that pins it alone.
func TestP14_ALookAtAPinnedKey(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("k")
	q.Guarded = true
	h := granted(t, s, q)
	if open, err := s.written(t.Context(), "k"); open || err != nil {
		t.Errorf("nothing is open: %v, %v", open, err)
	}
	if open, err := s.written(t.Context(), "none"); open || err != nil {
		t.Errorf("there is no such fence: %v, %v", open, err)
	}
	before := fenceOf(t, s, "k")
	unblock := blockDocument(t, s.db.Collection(s.fences), keyID("k"))
	if open, err := s.written(t.Context(), "k"); !open || err != nil {
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
// load without: five pairs in turns. delay-p99-ms is the median of the differences of
// their p99, to be at most 100 ms and four round trips (trip-ms).
func BenchmarkPinnedKeys(b *testing.B) {
	for _, n := range []int{1, 8, 32, 100} {
		b.Run(fmt.Sprint("keys=", n), func(b *testing.B) {
			s := open(b, database(b, testserver.DSN(b, testserver.Mongo)), Options{})
			for b.Loop() {
				var differences, worst []time.Duration
				for pair := range 5 {
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
					must(b, s.db.RunCommand(b.Context(), op("ping", 1)).Err())
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
