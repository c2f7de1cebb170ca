// P8: deadlocks, lock-wait time-outs, write conflicts and duplicate keys inside
// the library never reach the caller.

package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var deadlocks = []testCase{
	{name: "P8_RaceForAFreshKey", run: freshKey},
	{name: "P8_HotKeys", run: hotKeys},
	{name: "P8_BatchesInAnyOrder", run: crossedBatches},
}

// freshKey has many racers for keys that never existed.
func freshKey(t *testing.T, e *env) {
	const programs, rounds = 4, 8
	var clients []*rowlock.Client
	for range programs {
		clients = append(clients, e.client(t, rowlock.Options{}))
	}
	for range rounds {
		key := e.key(t)
		start := make(chan struct{})
		var mu sync.Mutex
		var won []*rowlock.Lease
		var wg sync.WaitGroup
		for i := range e.load(64) {
			wg.Go(func() {
				<-start
				lease, err := clients[i%programs].TryAcquire(soon(t), key)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, lease)
				} else if !errors.Is(err, rowlock.ErrHeld) {
					t.Errorf("P8: a racer for a new key: %v", err)
				}
			})
		}
		close(start)
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("P1: %d racers for a new key won it", len(won))
		}
		release1(t, won[0])
	}
}

// hotKeys has many clients on a few keys, with leases that often end by expiry,
// beside a reaper and readers.
func hotKeys(t *testing.T, e *env) {
	const programs, nkeys = 4, 4
	var names [nkeys]string
	for i := range names {
		names[i] = e.key(t)
	}
	end := time.Now().Add(e.stress(8))
	var wg sync.WaitGroup
	for range programs {
		s := e.Open(t)
		for range e.load(24) / programs {
			c := e.clientOn(t, s, rowlock.Options{TTL: e.short})
			wg.Go(func() {
				for time.Now().Before(end) {
					lease, err := c.Acquire(soon(t), names[rand.IntN(nkeys)], rowlock.NoRenew())
					if err != nil {
						t.Errorf("P8: acquire: %v", err)
						return
					}
					if rand.IntN(6) == 0 {
						<-lease.Done()
					}
					if err := lease.Release(context.Background()); err != nil && !errors.Is(err, rowlock.ErrLost) {
						t.Errorf("P8: release: %v", err)
					}
				}
			})
		}
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := s.Inspect(soon(t), names[:]); err != nil && !driver.IsSilent(err) {
					t.Errorf("P8: inspect: %v", err)
				}
				if e.lister {
					if _, err := s.(driver.Lister).List(soon(t), e.id, "", 100); err != nil && !driver.IsSilent(err) {
						t.Errorf("P8: list: %v", err)
					}
				}
				if e.reaper {
					if _, err := s.(driver.Reaper).Reap(soon(t), 24*time.Hour); err != nil && !driver.IsSilent(err) {
						t.Errorf("P8: reap: %v", err)
					}
				}
				time.Sleep(e.short / 5)
			}
		})
	}
	wg.Wait()
	c := e.client(t, rowlock.Options{})
	for _, key := range names {
		freeSoon(t, c, key)
	}
}

// crossedBatches takes, renews and releases overlapping sets of keys, each in an
// order of its own, straight at the seam. A step that another transaction, or a busy
// server, kept waiting for too long may be answered Unknown; it is repeated, as the
// engine does.
func crossedBatches(t *testing.T, e *env) {
	const programs, nkeys, rounds = 4, 8, 12
	var names []string
	for range nkeys {
		names = append(names, e.key(t))
	}
	each := func(what string, results []driver.Result, want driver.Status) {
		for _, r := range results {
			if r.Status != want {
				t.Errorf("P8: %s of %d holds: an answer is %v, want %v", what, len(results), r.Status, want)
			}
		}
	}
	var wg sync.WaitGroup
	for range programs {
		s := e.Open(t)
		for range 2 {
			wg.Go(func() {
				for range rounds {
					var reqs []driver.Request
					for _, i := range rand.Perm(nkeys)[:min(2+rand.IntN(nkeys-2), e.limits.Batch)] {
						reqs = append(reqs, driver.Request{Key: names[i], ID: newID(), Owner: "locktest", TTL: longTTL})
					}
					results, err := s.Acquire(context.Background(), reqs)
					if err != nil && late(err) {
						results, err = make([]driver.Result, len(reqs)), nil // all of them unknown
					}
					if err != nil || len(results) != len(reqs) {
						t.Errorf("P8: acquire %d keys: %d answers, %v", len(reqs), len(results), err)
						return
					}
					var holds []driver.Hold
					for i, r := range results {
						if r.Status == driver.Unknown {
							r = one(t, s, reqs[i])
						}
						if r.Status == driver.Granted {
							holds = append(holds, holdOf(reqs[i], r))
						}
					}
					shuffle := func(i, j int) { holds[i], holds[j] = holds[j], holds[i] }
					rand.Shuffle(len(holds), shuffle)
					each("renew", settle(t, s.Renew, holds), driver.Alive)
					rand.Shuffle(len(holds), shuffle)
					each("release", settle(t, s.Release, holds), driver.Released)
				}
			})
		}
	}
	wg.Wait()
	s := e.Open(t)
	for _, key := range names {
		if i := inspect(t, s, key); i.Held {
			t.Errorf("%q is still held: %+v", key, i)
		}
	}
}
