// Steps at the seam that many cases make.

package locktest

import (
	"context"
	"crypto/rand"
	"errors"
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

// A machine under load makes a statement wait for longer than a Store allows it to,
// so at the seam any answer may be Unknown. A step with its hold ID can be repeated,
// and is, until it has an answer.

// one makes one acquire, and again while its answer is unknown.
func one(t testing.TB, s driver.Store, q driver.Request) (r driver.Result) {
	t.Helper()
	if q.ID == (driver.HoldID{}) {
		q.ID = newID()
	}
	if q.Owner == "" {
		q.Owner = "locktest"
	}
	until(t, fmt.Sprintf("an answer to the acquire of %q", q.Key), func() bool {
		results, err := s.Acquire(soon(t), []driver.Request{q})
		if err == nil && len(results) != 1 {
			t.Fatalf("acquire %q: %d answers", q.Key, len(results))
		}
		if err == nil {
			r, err = results[0], results[0].Err
		}
		if err != nil {
			t.Logf("acquire %q: %v", q.Key, err)
			if driver.IsLasting(err) {
				t.FailNow()
			}
		}
		return r.Status != driver.Unknown
	})
	return r
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
	return driver.Hold{
		Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Keep: q.Keep, Guarded: q.Guarded,
		Mode: q.Mode, Slot: r.Slot, Phase: r.Phase,
	}
}

// step is Store.Renew or Store.Release.
type step func(context.Context, []driver.Hold) ([]driver.Result, error)

// answer makes a step for one hold, and checks the answer.
func answer(t testing.TB, do step, h driver.Hold, want ...driver.Status) driver.Result {
	t.Helper()
	r := settle(t, do, []driver.Hold{h})[0]
	if !slices.Contains(want, r.Status) {
		t.Fatalf("%q: answer %v, want %v", h.Key, r.Status, want)
	}
	return r
}

// answerAll makes a step for many holds, and checks that each has one of these answers.
func answerAll(t testing.TB, do step, holds []driver.Hold, want ...driver.Status) {
	t.Helper()
	for i, r := range settle(t, do, holds) {
		if !slices.Contains(want, r.Status) {
			t.Errorf("%q in a batch: answer %v, want %v", holds[i].Key, r.Status, want)
		}
	}
}

// late reports whether an error says no more than that time ran out: the context's, the
// server's own limit of a command, for which MongoDB has a code, or that of a connection that gave no sign of life, which a
// client would ask again.
func late(err error) bool {
	const maxTimeExpired = 50
	var timeout interface{ Timeout() bool }
	var coded interface{ HasErrorCode(int) bool }
	return driver.IsSilent(err) || errors.As(err, &timeout) && timeout.Timeout() || errors.As(err, &coded) && coded.HasErrorCode(maxTimeExpired)
}

// settle makes a step, and again for the holds whose answer is unknown.
func settle(t testing.TB, do step, holds []driver.Hold) []driver.Result {
	t.Helper()
	all := make([]driver.Result, len(holds))
	if len(holds) == 0 {
		return all
	}
	open := make([]int, len(holds))
	for i := range open {
		open[i] = i
	}
	until(t, fmt.Sprintf("an answer for each of %d holds", len(holds)), func() bool {
		var some []driver.Hold
		for _, i := range open {
			some = append(some, holds[i])
		}
		results, err := do(soon(t), some)
		if err != nil {
			t.Logf("%d holds: %v", len(some), err)
			if driver.IsLasting(err) {
				t.FailNow()
			}
			return false
		}
		if len(results) != len(some) {
			t.Fatalf("%d answers for %d holds", len(results), len(some))
		}
		var again []int
		for n, r := range results {
			i := open[n]
			if all[i] = r; r.Status == driver.Unknown {
				t.Logf("%q: unknown: %v", holds[i].Key, r.Err)
				again = append(again, i)
			}
		}
		open = again
		return len(open) == 0
	})
	return all
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
	var keys []string
	for range n {
		keys = append(keys, e.key(t))
	}
	slices.Reverse(keys)
	return e.grantAll(t, s, keys, ttl)
}

// grantAll takes keys that are free, in batches.
func (e *env) grantAll(t testing.TB, s driver.Store, keys []string, ttl time.Duration) []driver.Hold {
	t.Helper()
	var holds []driver.Hold
	for batch := range slices.Chunk(keys, e.limits.Batch) {
		var reqs []driver.Request
		for _, key := range batch {
			reqs = append(reqs, driver.Request{Key: key, ID: newID(), Owner: "locktest", TTL: ttl})
		}
		for i, r := range e.askAll(t, s, reqs) {
			if r.Status != driver.Granted {
				t.Fatalf("P9: acquire %d free keys: %q is %v", len(reqs), reqs[i].Key, r.Status)
			}
			holds = append(holds, holdOf(reqs[i], r))
		}
	}
	return holds
}

// askAll makes an acquire for many keys. A key whose answer is unknown, or which a
// slow statement still pins (RowLocks), is asked for again, alone.
func (e *env) askAll(t testing.TB, s driver.Store, reqs []driver.Request) []driver.Result {
	t.Helper()
	results, err := s.Acquire(soon(t), reqs)
	if err != nil {
		t.Logf("acquire %d keys: %v", len(reqs), err)
		results = make([]driver.Result, len(reqs))
	}
	if len(results) != len(reqs) {
		t.Fatalf("acquire %d keys: %d answers", len(reqs), len(results))
	}
	for i, q := range reqs {
		if results[i].Status == driver.Unknown || e.RowLocks && results[i].Status == driver.Pinned {
			t.Logf("acquire %d keys: %q is %v: %v", len(reqs), q.Key, results[i].Status, results[i].Err)
			until(t, fmt.Sprintf("%q is not pinned", q.Key), func() bool {
				results[i] = one(t, s, q)
				return results[i].Status != driver.Pinned || !e.RowLocks
			})
		}
	}
	return results
}
