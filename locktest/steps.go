// Steps at the seam that many cases make.

package locktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// newID makes a hold ID.
func newID() (id driver.HoldID) {
	rand.Read(id[:]) // never fails
	return id
}

// one makes one acquire.
func one(t testing.TB, s driver.Store, q driver.Request) driver.Result {
	t.Helper()
	if q.ID == (driver.HoldID{}) {
		q.ID = newID()
	}
	if q.Owner == "" {
		q.Owner = "locktest"
	}
	results, err := s.Acquire(soon(t), []driver.Request{q})
	if err != nil || len(results) != 1 {
		t.Fatalf("acquire %q: %d answers, %v", q.Key, len(results), err)
	}
	return results[0]
}

// grant takes a key, and waits for it if it is held.
func grant(t testing.TB, s driver.Store, q driver.Request) driver.Hold {
	t.Helper()
	var r driver.Result
	if q.ID == (driver.HoldID{}) {
		q.ID = newID()
	}
	until(t, fmt.Sprintf("%q is granted", q.Key), func() bool {
		r = one(t, s, q)
		return r.Status == driver.Granted
	})
	if r.Token <= 0 || r.Stored <= 0 {
		t.Fatalf("granted with token %d, stored %d", r.Token, r.Stored)
	}
	return holdOf(q, r)
}

func holdOf(q driver.Request, r driver.Result) driver.Hold {
	return driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Keep: q.Keep, Guarded: q.Guarded}
}

// step is Store.Renew or Store.Release.
type step func(context.Context, []driver.Hold) ([]driver.Result, error)

// answer makes a step for one hold, and checks the answer.
func answer(t testing.TB, do step, h driver.Hold, want ...driver.Status) driver.Result {
	t.Helper()
	results, err := do(soon(t), []driver.Hold{h})
	if err != nil || len(results) != 1 {
		t.Fatalf("%q: %d answers, %v", h.Key, len(results), err)
	}
	if r := results[0]; !slices.Contains(want, r.Status) {
		t.Fatalf("%q: answer %v (%v), want %v", h.Key, r.Status, r.Err, want)
	}
	return results[0]
}

// answerAll makes a step for many holds, and checks that each has the same answer.
func answerAll(t testing.TB, do step, holds []driver.Hold, want driver.Status) {
	t.Helper()
	results, err := do(soon(t), holds)
	if err != nil || len(results) != len(holds) {
		t.Fatalf("%d answers for %d holds, %v", len(results), len(holds), err)
	}
	for i, r := range results {
		if r.Status != want {
			t.Errorf("%q in a batch: answer %v (%v), want %v", holds[i].Key, r.Status, r.Err, want)
		}
	}
}

func force(t testing.TB, s driver.Store, key string) driver.Info {
	t.Helper()
	info, err := s.(driver.Forcer).ForceRelease(soon(t), key)
	if err != nil {
		t.Errorf("force release of %q: %v", key, err)
	}
	return info
}

// deadKey names the i-th row of Harness.Dead.
func deadKey(prefix string, i int) string { return fmt.Sprint(prefix, i) }

// expired waits until the server says that key is free.
func expired(t testing.TB, s driver.Store, key string) {
	t.Helper()
	until(t, fmt.Sprintf("%q is free by the server's clock", key), func() bool { return !inspect(t, s, key).Held })
}

// holds are n holds of keys of the case's own, not sorted by key.
func (e *env) holds(t testing.TB, s driver.Store, n int, ttl time.Duration) []driver.Hold {
	t.Helper()
	reqs := make([]driver.Request, n)
	for i := range reqs {
		reqs[i] = driver.Request{Key: e.key(t), ID: newID(), Owner: "locktest", TTL: ttl}
	}
	slices.Reverse(reqs)
	var holds []driver.Hold
	for batch := range slices.Chunk(reqs, e.limits.Batch) {
		results, err := s.Acquire(soon(t), batch)
		if err != nil || len(results) != len(batch) {
			t.Fatalf("acquire %d keys: %d answers, %v", len(batch), len(results), err)
		}
		for i, r := range results {
			if r.Status != driver.Granted {
				t.Fatalf("acquire %d new keys: answer %d is %v (%v)", len(batch), i, r.Status, r.Err)
			}
			holds = append(holds, holdOf(batch[i], r))
		}
	}
	return holds
}
