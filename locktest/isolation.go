// P15: a blocked or pinned key delays no work on other keys and loses none of
// their leases.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var isolation = []testCase{
	{name: "P15_PinnedKey", engine: true, run: pinnedKey},
	{name: "P15_BlockedKey", run: blockedKey, needs: blocking},
	{name: "P15_BlockedKeyInABatch", run: blockedInBatch, needs: blocking},
	{name: "P15_NeighbourOfABlockedBatch", long: true, run: neighbour, needs: blockingProcesses},
}

// others is the work on keys beside a blocked one: leases that are renewed for
// several TTLs, and acquires and releases all the time. It tells of a lost lease.
func (e *env) others(t testing.TB, ttl time.Duration, clients ...*rowlock.Client) error {
	t.Helper()
	var leases []*rowlock.Lease
	for _, c := range clients {
		for range 5 {
			leases = append(leases, acquire(t, c, e.key(t), rowlock.TTL(ttl)))
		}
	}
	var slowest time.Duration
	cycles := 0
	for end := time.Now().Add(3 * ttl); time.Now().Before(end); cycles++ {
		c := clients[rand.IntN(len(clients))]
		began := time.Now()
		release1(t, acquire(t, c, e.key(t), rowlock.TTL(ttl)))
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("beside a blocked key: %d lease cycles, the slowest took %v", cycles, slowest)
	var err error
	for _, lease := range leases {
		if lost := lease.Release(context.Background()); lost != nil {
			err = fmt.Errorf("P15: beside a blocked key: %w", lost)
		}
	}
	return err
}

// waits has callers of each client wait for key, until the function returned is
// called; it says how the waits ended.
func waits(key string, clients ...*rowlock.Client) (giveUp func() []error) {
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error)
	for _, c := range clients {
		for range 4 {
			go func() {
				lease, err := c.Acquire(ctx, key)
				if err == nil {
					err = lease.Release(ctx)
				}
				errs <- err
			}()
		}
	}
	return func() (all []error) {
		cancel()
		for range 4 * len(clients) {
			all = append(all, <-errs)
		}
		return all
	}
}

// allHeld checks how waits for a key that nobody could have ended: given up, and
// but for a machine under load with the key last seen held.
func allHeld(t testing.TB, errs []error) {
	t.Helper()
	held := 0
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was given up: %v, want the context's error", err)
		}
		if errors.Is(err, rowlock.ErrHeld) {
			held++
		}
	}
	if held == 0 {
		t.Errorf("of the waits for a key that was held none says so: %v", errs)
	}
}

// pinnedKey has a Store that answers Pinned for one key after the longest wait
// that the seam allows.
func pinnedKey(t *testing.T, e *env) {
	pinned := e.key(t)
	f := NewFault(e.Open(t))
	f.On(OpAcquire, func(ctx context.Context, c *Call, send Send) (results []driver.Result, err error) {
		at := slices.IndexFunc(c.Requests, func(q driver.Request) bool { return q.Key == pinned })
		if at < 0 {
			return send(ctx)
		}
		time.Sleep(50 * time.Millisecond)
		if c.Requests = slices.Delete(c.Requests, at, at+1); len(c.Requests) > 0 {
			results, err = send(ctx)
		}
		if err != nil {
			return nil, err
		}
		return slices.Insert(results, at, driver.Result{Status: driver.Pinned}), nil
	})
	a, b := e.clientOn(t, f, rowlock.Options{}), e.client(t, rowlock.Options{})
	giveUp := waits(pinned, a)
	var held *rowlock.HeldError
	if _, err := a.TryAcquire(soon(t), pinned); !errors.As(err, &held) || !held.Pinned {
		t.Errorf("a try for a pinned key: %v, want a HeldError that says so", err)
	}
	e.patiently(t, func(ttl time.Duration) error { return e.others(t, ttl, a, b) })
	allHeld(t, giveUp())
	f.Clear()
	release1(t, acquire(t, a, pinned))
}

func blockedKey(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	release1(t, acquire(t, a, key)) // so that there is something to block
	unblock := e.Block(t, key)
	giveUp := waits(key, a, b)
	e.patiently(t, func(ttl time.Duration) error { return e.others(t, ttl, a, b) })
	until(t, "a try for a blocked key says ErrHeld", func() bool {
		_, err := b.TryAcquire(soon(t), key)
		if err == nil {
			t.Fatal("a blocked key was granted")
		}
		return errors.Is(err, rowlock.ErrHeld)
	})
	allHeld(t, giveUp())
	next := make(chan error, 1)
	go func() {
		lease, err := a.Acquire(soon(t), key)
		if err == nil {
			err = lease.Release(context.Background())
		}
		next <- err
	}()
	unblock()
	if err := <-next; err != nil {
		t.Errorf("acquire after the block ended: %v", err)
	}
	freeSoon(t, b, key)
}

// blockedInBatch sends a blocked key among others.
func blockedInBatch(t *testing.T, e *env) {
	s := e.Open(t)
	blocked := e.key(t)
	answer(t, s.Release, grant(t, s, driver.Request{Key: blocked, TTL: longTTL}), driver.Released)
	unblock := e.Block(t, blocked)
	until(t, "a batch with a blocked key has an answer for each key", func() bool { return withBlocked(t, e, s, blocked) })
	unblock()
	answer(t, s.Release, grant(t, s, driver.Request{Key: blocked, TTL: longTTL}), driver.Released)
}

// withBlocked acquires a blocked key with new ones in one call; false: an answer was
// unknown, as it may be on a machine under load.
func withBlocked(t testing.TB, e *env, s driver.Store, blocked string) bool {
	t.Helper()
	n := min(5, e.limits.Batch)
	var reqs []driver.Request
	for i := range n {
		q := driver.Request{Key: e.key(t), ID: newID(), Owner: "locktest", TTL: longTTL}
		if i == n/2 {
			q.Key = blocked
		}
		reqs = append(reqs, q)
	}
	began := time.Now()
	results, err := s.Acquire(soon(t), reqs)
	t.Logf("a batch with a blocked key took %v", time.Since(began))
	if err != nil && late(err) {
		t.Log(err)
		return false
	}
	if err != nil || len(results) != n {
		t.Fatalf("acquire: %d answers for %d keys, %v", len(results), n, err)
	}
	all := true
	for i, r := range results {
		want := driver.Granted
		if reqs[i].Key == blocked {
			want = driver.Pinned
		}
		switch {
		case r.Status == driver.Unknown:
			t.Logf("key %d: %v", i, r.Err)
			all = false
		case r.Status != want:
			t.Errorf("P15: key %d of a batch with a blocked key: %v, want %v", i, r.Status, want)
		case r.Status == driver.Granted:
			h := holdOf(reqs[i], r)
			answer(t, s.Renew, h, driver.Alive)
			answer(t, s.Release, h, driver.Released)
		}
	}
	return all
}
