// P1: at most one exclusive hold of a key at a time. Seen from inside one process
// (an int that only the lock guards), from several processes (a file), by the
// server's own account (Inspect), and with leases so short that many end by expiry
// while their holders go on (spans of trust that must not overlap).

package locktest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

var exclusion = []testCase{
	{name: "P1_LostUpdateCounter", run: lostUpdateCounter},
	{name: "P1_LostUpdateProcesses", long: true, run: lostUpdateProcesses, needs: processes},
	{name: "P1_TrustNeverOverlaps", run: trustNeverOverlaps},
	{name: "P1_TryNeverGetsAHeldKey", run: tryHeld},
}

func lostUpdateCounter(t *testing.T, e *env) {
	const programs, rounds = 4, 5
	key := e.key(t)
	counter := 0 // no atomics, no mutex: the lock is all there is
	var wg sync.WaitGroup
	for range programs {
		c := e.client(t, rowlock.Options{})
		for range e.load(32) / programs {
			wg.Go(func() {
				for round := range rounds {
					lease, err := c.Acquire(soon(t), key)
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					n := counter
					runtime.Gosched()
					if round == 0 {
						info, err := c.Inspect(soon(t), key)
						// UniqueInsert shows a provisional token, at most the lease's.
						if err != nil || !info.Held || info.Kept || info.Token > lease.Token() {
							t.Errorf("P1: the server says %+v, %v of a key held with token %d", info, err, lease.Token())
						}
					}
					counter = n + 1
					if err := lease.Release(context.Background()); err != nil {
						t.Errorf("release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	if want := e.load(32) / programs * programs * rounds; counter != want && !t.Failed() {
		Breach(t, "P1", "counter is %d after %d increments under the lock", counter, want)
		t.FailNow()
	}
}

func lostUpdateProcesses(t *testing.T, e *env) {
	const programs, rounds = 4, 12
	file := filepath.Join(t.TempDir(), "counter")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := job{Role: "count", Key: e.key(t), TTL: longTTL, Rounds: rounds, File: file}
	var children []*process
	for range programs {
		children = append(children, e.start(t, j))
	}
	for _, p := range children {
		p.expect("done")
	}
	text, err := os.ReadFile(file)
	if want := fmt.Sprint(programs * rounds); err != nil || string(text) != want {
		Breach(t, "P1", "the counter in the file is %s after %s increments by %d processes (%v)", text, want, programs, err)
		t.FailNow()
	}
}

// trustNeverOverlaps has holders that let their leases run out under the eyes of
// others that wait for the key.
func trustNeverOverlaps(t *testing.T, e *env) {
	const programs = 4
	key := e.key(t)
	var mu sync.Mutex
	var spans []span
	var seen atomic.Int64
	goesOn := working(t, e.stress(10), func() bool { return seen.Load() >= fewestSpans })
	var wg sync.WaitGroup
	for range programs {
		c := e.client(t, rowlock.Options{TTL: e.short})
		for range 2 {
			wg.Go(func() {
				for goesOn() {
					lease, err := c.Acquire(soon(t), key, rowlock.NoRenew())
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					s := span{token: lease.Token()}
					s.watch(lease, rand.N(2*e.short))
					_ = lease.Release(context.Background()) // often lost
					if s.first != 0 {
						seen.Add(1)
					}
					mu.Lock()
					spans = append(spans, s)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	checkSpans(t, spans)
}

// fewestSpans is of how many leases a case must have seen that they were trusted.
const fewestSpans = 3

// checkSpans checks that the spans of one key's leases do not overlap, and are in
// the order of their tokens.
func checkSpans(t testing.TB, spans []span) {
	t.Helper()
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.first == 0 })
	if len(spans) < fewestSpans {
		t.Fatalf("still not: more than %d leases were seen in this time", len(spans))
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(spans); i++ {
		a, b := spans[i-1], spans[i]
		if b.first < a.last {
			Breach(t, "P1", "token %d was trusted for %v after token %d was granted",
				a.token, time.Duration(a.last-b.first), b.token)
		}
		if b.token <= a.token {
			Breach(t, "P3", "token %d was granted after token %d", b.token, a.token)
		}
	}
}

func tryHeld(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{Owner: "first"}), e.client(t, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key)
	for range 5 {
		refused(t, a, key)
		refused(t, b, key)
	}
	if err := lease.Err(); err != nil {
		t.Fatal(err)
	}
	if info, err := b.Inspect(soon(t), key); err != nil || !info.Held || info.Owner != "first" || info.Left <= 0 {
		t.Fatalf("the server says %+v, %v of a held key", info, err)
	}
	release1(t, lease)
	release1(t, acquire(t, b, key))
}
