// P10: the reaper never ends a live hold, removes at most 500 rows a call, only
// dead ones, and does not stop the work on other keys.

package locktest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var reaper = []testCase{
	{name: "P10_LiveHolds", run: reapLive, needs: reaping, alone: true},
	{name: "P10_OnlyTheDead", run: onlyTheDead, needs: dead, alone: true},
	{name: "P10_ManyDead", long: true, run: manyDead, needs: dead, alone: true},
}

const (
	reapMost = 500 // rows a call
	dayGrace = 24 * time.Hour
)

func reap(t testing.TB, s driver.Store) int {
	t.Helper()
	n, err := s.(driver.Reaper).Reap(soon(t), dayGrace)
	if err != nil {
		t.Fatalf("reap: %v", err)
	}
	if n > reapMost {
		t.Fatalf("P10: reap removed %d rows in one call, at most %d", n, reapMost)
	}
	return n
}

// states are keys in every state that is not dead for long.
func (e *env) states(t testing.TB, s driver.Store) (live []driver.Hold, all []string) {
	live = []driver.Hold{
		grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL}),
		grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL, Keep: longTTL}),
		grant(t, s, driver.Request{Key: e.key(t), TTL: 48 * time.Hour}),
	}
	kept := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL, Keep: longTTL})
	answer(t, s.Release, kept, driver.Released)
	released := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
	answer(t, s.Release, released, driver.Released)
	over := grant(t, s, driver.Request{Key: e.key(t), TTL: e.limits.MinTTL})
	expired(t, s, over.Key)
	for _, h := range append(live, kept, released, over) {
		all = append(all, h.Key)
	}
	if e.forcer {
		forced := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
		force(t, s, forced.Key)
		all = append(all, forced.Key)
	}
	return live, all
}

// unchanged checks that reaping left the keys as they were.
func unchanged(t testing.TB, s driver.Store, before []driver.Info, live []driver.Hold) {
	t.Helper()
	for _, was := range before {
		is := inspect(t, s, was.Key)
		was.Left, is.Left = 0, 0
		if is != was {
			t.Errorf("P10: reaping changed %q:\n from %+v\n to   %+v", was.Key, was, is)
		}
	}
	for _, h := range live {
		answer(t, s.Renew, h, driver.Alive)
		answer(t, s.Release, h, driver.Released)
	}
}

func inspectAll(t testing.TB, s driver.Store, keys []string) (infos []driver.Info) {
	t.Helper()
	for some := range slices.Chunk(keys, s.Limits().Batch) {
		found, err := s.Inspect(soon(t), some)
		if err != nil || len(found) != len(some) {
			t.Fatalf("inspect %q: %d infos, %v", some, len(found), err)
		}
		infos = append(infos, found...)
	}
	return infos
}

func onlyTheDead(t *testing.T, e *env) {
	const n = reapMost + 100
	s := e.Open(t)
	prefix := e.key(t) + ":"
	e.Dead(t, prefix, n)
	if i := inspect(t, s, deadKey(prefix, n-1)); i.Held || i.Token == 0 {
		t.Fatalf("Harness.Dead wrote %+v, want a row of a key that is free", i)
	}
	live, all := e.states(t, s)
	before := inspectAll(t, s, all)
	removed := 0
	until(t, "nothing is left to reap", func() bool {
		n := reap(t, s)
		removed += n
		return n == 0 && inspect(t, s, deadKey(prefix, 0)).Token == 0
	})
	if removed == 0 { // fewer than n may be told: see driver.Reaper
		t.Errorf("no row was reaped, %d were dead", n)
	}
	dead := make([]string, n)
	for i := range dead {
		dead[i] = deadKey(prefix, i)
	}
	for _, is := range inspectAll(t, s, dead) {
		if is.Token != 0 {
			t.Errorf("a row that is long dead was not reaped: %+v", is)
		}
	}
	unchanged(t, s, before, live)
}

// manyDead works beside a reaper in a table full of dead rows.
func manyDead(t *testing.T, e *env) {
	const n = 100_000
	s := e.Open(t)
	prefix := e.key(t) + ":"
	e.Dead(t, prefix, n)
	live, all := e.states(t, s)
	before := inspectAll(t, s, all)
	c := e.client(t, rowlock.Options{})
	var stop atomic.Bool
	var cycles atomic.Int64
	var slowest time.Duration
	var wg sync.WaitGroup
	key := e.key(t)
	wg.Go(func() {
		for ; !stop.Load(); cycles.Add(1) {
			began := time.Now()
			lease, err := c.Acquire(soon(t), key)
			if err == nil {
				err = lease.Release(context.Background())
			}
			if err != nil {
				t.Errorf("P10: beside the reaper: %v", err)
				return
			}
			slowest = max(slowest, time.Since(began))
		}
	})
	func() {
		defer wg.Wait()
		defer stop.Store(true)
		calls := 0
		until(t, "lease cycles end beside the reaper", func() bool {
			if calls++; reap(t, s) == 0 && calls < 5 {
				t.Error("P10: nothing was reaped of 100000 dead rows")
			}
			return calls > 3 && cycles.Load() > 10
		})
	}()
	t.Logf("%d lease cycles beside the reaper, the slowest took %v", cycles.Load(), slowest)
	// A dead key can be taken like any other.
	answer(t, s.Release, grant(t, s, driver.Request{Key: deadKey(prefix, n-1), TTL: longTTL}), driver.Released)
	unchanged(t, s, before, live)
}

// reapLive asks for no grace at all: a Store refuses that, or touches no live hold.
func reapLive(t *testing.T, e *env) {
	s := e.Open(t)
	live, _ := e.states(t, s)
	kept := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL, Keep: longTTL})
	answer(t, s.Release, kept, driver.Released)
	for n, err := 1, error(nil); n > 0 && err == nil; {
		n, err = s.(driver.Reaper).Reap(soon(t), 0)
	}
	if i := inspect(t, s, kept.Key); !i.Held || !i.Kept {
		t.Errorf("P10: reaping freed a key that MinHold keeps: %+v", i)
	}
	for _, h := range live {
		if i := inspect(t, s, h.Key); !i.Held || i.Token > h.Token {
			t.Errorf("P10: reaping ended a live hold: %+v", i)
		}
		answer(t, s.Renew, h, driver.Alive)
		answer(t, s.Release, h, driver.Released)
	}
}
