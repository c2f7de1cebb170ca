package locktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// neighbour has a process that keeps leases alive while this one sends batch after
// batch with their keys, keys of its own and a blocked one: what a batch that is
// blocked has locked meanwhile must not cost the neighbour a lease.
func neighbour(t *testing.T, e *env) {
	s := e.Open(t)
	blocked := e.key(t)
	answer(t, s.Release, grant(t, s, driver.Request{Key: blocked, TTL: longTTL}), driver.Released)
	unblock := e.Block(t, blocked)
	e.patiently(t, func(ttl time.Duration) error { return e.besideNeighbour(t, s, blocked, ttl) })
	unblock()
	answer(t, s.Release, grant(t, s, driver.Request{Key: blocked, TTL: longTTL}), driver.Released)
}

func (e *env) besideNeighbour(t testing.TB, s driver.Store, blocked string, ttl time.Duration) error {
	t.Helper()
	n := min(e.limits.Batch, 500)
	if e.MaxConnections != nil { // SelectForUpdate needs a connection for each
		n = min(n, max(e.hold(n), 3))
	}
	var theirs, keys []string
	for i := range n - 1 {
		key := e.key(t)
		if keys = append(keys, key); i%2 == 0 && len(theirs) < 50 {
			theirs = append(theirs, key)
		}
	}
	keys = append(keys, blocked)
	child := e.start(t, job{Role: "keep", Keys: theirs, TTL: ttl})
	child.expect("held")
	batches, slowest := 0, time.Duration(0)
	for end := time.Now().Add(3 * ttl); time.Now().Before(end); batches++ {
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		var reqs []driver.Request
		for _, key := range keys {
			reqs = append(reqs, driver.Request{Key: key, ID: newID(), Owner: "locktest", TTL: longTTL})
		}
		began := time.Now()
		results, err := s.Acquire(soon(t), reqs)
		slowest = max(slowest, time.Since(began))
		var mine []driver.Hold
		for i, q := range reqs {
			h := driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Undo: true}
			switch {
			case err != nil || results[i].Status == driver.Unknown:
				mine = append(mine, h)
			case results[i].Status == driver.Granted && q.Key == blocked:
				t.Fatal("a blocked key was granted")
			case results[i].Status == driver.Granted && slices.Contains(theirs, q.Key):
				mine = append(mine, h) // their process tells whether it lost it
			case results[i].Status == driver.Granted:
				mine = append(mine, holdOf(q, results[i]))
			}
		}
		for part := range slices.Chunk(mine, e.limits.Batch) {
			settle(t, s.Release, part)
		}
	}
	t.Logf("beside a process with %d leases: %d batches of %d keys, one blocked; the slowest took %v", len(theirs), batches, n, slowest)
	child.tell("enough")
	var lost int
	if _, err := fmt.Sscan(child.expect("lost"), &lost); err != nil {
		t.Fatal(err)
	}
	if lost > 0 {
		return fmt.Errorf("P15: beside blocked batches of another process %d of %d leases were lost", lost, len(theirs))
	}
	return nil
}

// keep takes keys, says "held", keeps them until it is told that it is enough, and
// says how many it has "lost".
func (j job) keep(ctx context.Context, c *rowlock.Client, input <-chan string) error {
	var leases []*rowlock.Lease
	for _, key := range j.Keys {
		lease, err := c.Acquire(ctx, key)
		if err != nil {
			return err
		}
		leases = append(leases, lease)
	}
	fmt.Println("held")
	<-input
	lost := 0
	for _, lease := range leases {
		if lease.Release(ctx) != nil {
			lost++
		}
	}
	fmt.Println("lost", lost)
	return nil
}
