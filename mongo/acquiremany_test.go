package mongolock

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	s := shared(t)
	fewest := make(map[string]uint64) // commands, where the server was not too busy
	count := func(what string, n uint64) {
		if few, ok := fewest[what]; !ok || n < few {
			fewest[what] = n
		}
	}
	for i, n := range []int{2, 3, 64, maxBatch, 4, 5, 6, 7, 8, 9, 10, 11} {
		prefix := fmt.Sprint("n", i, "/")
		sent := s.Statements()
		reqs := requests(prefix, n)
		holds := grantedAll(t, s, reqs)
		count("fresh keys", s.Statements()-sent)
		held := mustAll(t, s, requests(prefix, n), driver.Held)
		if held[0].Left < 50*time.Second || held[0].Owner != "test" {
			t.Errorf("refusal: %+v", held[0])
		}
		mustAll(t, s, reqs, driver.Granted) // each finds its own hold
		sent = s.Statements()
		alive, err := s.Renew(t.Context(), holds)
		if err != nil || alive[n-1].Status != driver.Alive {
			t.Fatal(alive, err)
		}
		gone, err := s.Release(patient(t), holds)
		if err != nil || gone[n-1].Status != driver.Released {
			t.Fatal(gone, err)
		}
		again := requests(prefix, n)
		next := mustAll(t, s, again, driver.Granted)
		count("renew, release and acquire", s.Statements()-sent)
		for i := range next {
			if next[i].Token < holds[i].Token+driver.TokenRange {
				locktest.Breach(t, "P3", "%q: token %d after %d", reqs[i].Key, next[i].Token, holds[i].Token)
				t.FailNow()
			}
		}
	}
	// Fresh keys take an updateMany, a find, the upserts, a find and the look for fences.
	for what, want := range map[string]uint64{"fresh keys": 5, "renew, release and acquire": 4} {
		if fewest[what] != want {
			t.Errorf("%s: %d commands, want %d", what, fewest[what], want)
		}
	}
	if _, err := s.Acquire(patient(t), requests("x", maxBatch+1)); !driver.IsLasting(err) {
		t.Errorf("a batch that is too large: %v", err)
	}
}

// Held, free, fresh and expired keys, each with wishes of its own, in one batch.
func TestMixedBatch(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, key := range []string{"free", "kept", "guarded"} {
		release(t, s, granted(t, s, request(key)))
	}
	short := request("expired")
	short.TTL = time.Millisecond
	granted(t, s, short)
	granted(t, s, request("held"))
	time.Sleep(5 * time.Millisecond)

	reqs := []driver.Request{request("held"), request("free"), request("fresh1"), request("expired"), request("kept"), request("guarded"), request("fresh2")}
	for i := range reqs {
		reqs[i].TTL = time.Duration(i+1) * time.Minute
		reqs[i].Owner = fmt.Sprint("owner", i)
	}
	reqs[4].Keep = 10 * time.Minute
	reqs[5].Guarded = true
	results, err := s.Acquire(patient(t), reqs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		want := driver.Granted
		if i == 0 {
			want = driver.Held
		}
		if r.Status != want {
			t.Errorf("%q: %v, want %v", reqs[i].Key, r.Status, want)
			continue
		}
		if i == 0 {
			continue
		}
		info := inspect(t, s, reqs[i].Key)
		left := reqs[i].TTL
		if reqs[i].Keep > left {
			left = reqs[i].Keep
		}
		if info.Owner != reqs[i].Owner || info.Token != r.Token || info.Left > left || info.Left < left-10*time.Second {
			t.Errorf("%q: %+v, want %v left for %s", reqs[i].Key, info, left, reqs[i].Owner)
		}
	}
	n, err := s.db.Collection(s.leases).CountDocuments(t.Context(), document.Op("keepUntil", document.Op("$exists", true)))
	if err != nil || n != 1 {
		t.Errorf("%d documents with keepUntil (%v), want 1", n, err)
	}
	n, err = s.db.Collection(s.leases).CountDocuments(t.Context(), document.Op("fenced", document.Op("$exists", true)))
	if err != nil || n != 1 {
		t.Errorf("%d documents with fenced (%v), want 1", n, err)
	}
}

func TestRacingBatches(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const keys, racers, size = 320, 8, 16
	var mu sync.Mutex
	grants, unknown := make(map[string]int), make(map[string]bool)
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			order := rand.Perm(keys)
			for len(order) > 0 {
				var reqs []driver.Request
				for _, k := range order[:size] {
					reqs = append(reqs, request(fmt.Sprint("k", k)))
				}
				order = order[size:]
				results, err := s.Acquire(patient(t), reqs)
				if err != nil {
					t.Errorf("P8: %v", err)
					return
				}
				mu.Lock()
				for i, r := range results {
					switch r.Status {
					case driver.Granted:
						grants[reqs[i].Key]++
					case driver.Held:
					default:
						unknown[reqs[i].Key] = true // a time ran out: the key may be this one's
						t.Errorf("%q: %v (%v)", reqs[i].Key, r.Status, r.Err)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for k := range keys {
		key := fmt.Sprint("k", k)
		if n := grants[key]; n > 1 {
			t.Errorf("P1: %q was granted %d times", key, n)
		} else if n == 0 && !unknown[key] {
			t.Errorf("P8: %q was granted to nobody, and all were told that it is held", key)
		}
	}
}

// One key of a large batch is blocked for each step: all others have their answer,
// by few commands and not by as many as there are keys.
func TestP15_BlockedKeyInALargeBatch(t *testing.T) {
	t.Parallel()
	s := shared(t)
	fresh := requests("k", maxBatch)
	holds := make([]driver.Hold, maxBatch)
	for i, r := range mustAll(t, s, fresh, driver.Granted) {
		holds[i] = holdOf(fresh[i], r)
	}
	for try := 0; ; try++ { // a loaded server may take it for blocked
		if _, err := s.Release(patient(t), holds); err == nil {
			break
		} else if try == 20 {
			t.Fatal(err)
		}
	}
	reqs := requests("k", maxBatch)
	for i, q := range reqs {
		holds[i] = driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL}
	}
	blocked := maxBatch / 3
	fewest := make(map[string]uint64)
	step := func(what string, other, want driver.Status, do func() ([]driver.Result, error)) {
		for range 3 { // a loaded server may need more commands
			sent, start := s.Statements(), time.Now()
			results, err := do()
			if err != nil {
				t.Fatal(err)
			}
			n := s.Statements() - sent
			t.Logf("%s %d keys, one blocked: %v, %d commands", what, maxBatch, time.Since(start), n)
			if few, ok := fewest[what]; !ok || n < few {
				fewest[what] = n
			}
			for i, r := range results {
				want := map[bool]driver.Status{true: want, false: other}[i == blocked]
				switch {
				case r.Status == want, r.Status == driver.Unknown && driver.IsNotApplied(r.Err):
				case what == "renew" && r.Status == driver.Alive && r.Left > 0 && r.Left < holds[i].TTL: // no longer than before
				default:
					t.Errorf("%s %q: %v (%v), want %v", what, reqs[i].Key, r.Status, r.Err, want)
				}
			}
		}
	}
	unblock := blockDocument(t, s.db.Collection(s.leases), document.KeyID(reqs[blocked].Key))
	step("acquire", driver.Granted, driver.Unknown, func() ([]driver.Result, error) { return s.Acquire(patient(t), reqs) })
	unblock()
	mustAll(t, s, reqs, driver.Granted)
	defer blockDocument(t, s.db.Collection(s.leases), document.KeyID(reqs[blocked].Key))()
	step("renew", driver.Alive, driver.Unknown, func() ([]driver.Result, error) { return s.Renew(t.Context(), holds) })
	step("release", driver.Released, driver.Unknown, func() ([]driver.Result, error) { return s.Release(patient(t), holds) })
	for what, n := range fewest {
		if n > 8 {
			t.Errorf("P15: %s of %d keys, one blocked: %d commands", what, maxBatch, n)
		}
	}
}

func TestP15_BlockedKeyInAnAcquire(t *testing.T) {
	t.Parallel()
	s := shared(t)
	reqs := requests("k", 20)
	freed(t, s, reqs)
	for _, blocked := range []string{"k0", "k5"} {
		unblock := blockDocument(t, s.db.Collection(s.leases), document.KeyID(blocked))
		var reqs []driver.Request
		var results []driver.Result
		for end := time.Now().Add(testserver.Patience(t)); ; { // a server under load may not finish the others in time either
			reqs = requests("k", 20)
			start := time.Now()
			var err error
			results, err = s.Acquire(patient(t), reqs)
			took, late := time.Since(start), 0
			must(t, err)
			for i, r := range results {
				want := driver.Granted
				if reqs[i].Key == blocked {
					want = driver.Unknown // the document's own transaction is no guard
				} else if r.Status == driver.Unknown && driver.IsNotApplied(r.Err) {
					late++
					continue
				}
				if r.Status != want {
					t.Errorf("%q: %v (%v), want %v", reqs[i].Key, r.Status, r.Err, want)
				}
			}
			t.Logf("20 keys, %s blocked: %v", blocked, took)
			if late == 0 || t.Failed() {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d of the others were not taken, and the answer took %v", late, took)
			}
			for i, r := range results {
				if r.Status == driver.Granted {
					release(t, s, holdOf(reqs[i], r))
				}
			}
		}
		// The engine says which key was pinned; then it delays nobody.
		again := requests("k", 20)
		for i := range again {
			again[i].Pinned = again[i].Key == blocked
		}
		if _, err := s.Acquire(patient(t), again); err != nil {
			t.Error(err)
		}
		unblock()
		for i, r := range results {
			if r.Status == driver.Granted {
				release(t, s, holdOf(reqs[i], r))
			}
		}
	}
}
