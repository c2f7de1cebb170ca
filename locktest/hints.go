// Hints: a client that waits for a key says so on the key's row, and the holder and an
// operator see it.

package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var hints = []testCase{
	{name: "Store_HintOfAWaiter", run: hintOfWaiter, needs: hinting},
	{name: "Store_HintIsTakenBackByItsOwnerOnly", run: hintTaken, needs: hinting},
	{name: "Store_HintInABatch", run: hintBatch, needs: hinting},
	{name: "Store_HintEnds", run: hintEnds, needs: hinting},
}

// Numbers of clients.
const clientA, clientB, clientC = 4711, 4712, driver.MaxClient

// refuse has client ask for a key that is held.
func refuse(t *testing.T, s driver.Store, key string, client uint32, wants bool) {
	t.Helper()
	if r := one(t, s, driver.Request{Key: key, ID: newID(), TTL: longTTL, Client: client, Wants: wants}); r.Status != driver.Held {
		t.Fatalf("asked for a held key: %+v", r)
	}
}

// wanted checks whose hint is on key.
func wanted(t *testing.T, s driver.Store, key string, client uint32) {
	t.Helper()
	h := inspect(t, s, key).Wanted
	if h.Client != client || client > 0 && (h.Left <= 0 || h.Left > driver.HintTime) || client == 0 && h.Left != 0 {
		t.Errorf("the hint is %+v, want one of client %d for at most %v", h, client, driver.HintTime)
	}
}

// freed releases h.
func freed(t testing.TB, s driver.Store, h driver.Hold) {
	t.Helper()
	results, err := s.Release(context.Background(), []driver.Hold{h})
	if err != nil || results[0].Status != driver.Released {
		t.Fatalf("release: %+v, %v", results, err)
	}
}

func hintOfWaiter(t *testing.T, e *env) {
	s := e.Open(t)
	q := driver.Request{Key: e.key(t), ID: newID(), TTL: longTTL, Client: clientA, Wants: true}
	h := grant(t, s, q)
	wanted(t, s, q.Key, 0)
	refuse(t, s, q.Key, clientB, false)
	wanted(t, s, q.Key, 0) // TryAcquire leaves none
	refuse(t, s, q.Key, clientB, true)
	wanted(t, s, q.Key, clientB)
	refuse(t, s, q.Key, clientC, true)
	wanted(t, s, q.Key, clientB) // another's is there
	h.Asks = true
	results, err := s.Release(context.Background(), []driver.Hold{h})
	if err != nil || results[0].Status != driver.Released {
		t.Fatalf("release: %+v, %v", results, err)
	}
	if w := results[0].Wanted; w.Client != clientB || w.Left <= 0 || w.Left > driver.HintTime {
		t.Errorf("the release tells of %+v, want the hint of %d", w, clientB)
	}
	wanted(t, s, q.Key, clientB) // and leaves it
}

func hintTaken(t *testing.T, e *env) {
	s := e.Open(t)
	key := e.key(t)
	h := grant(t, s, driver.Request{Key: key, ID: newID(), TTL: longTTL, Client: clientA})
	refuse(t, s, key, clientB, true)
	freed(t, s, h)
	h = grant(t, s, driver.Request{Key: key, ID: newID(), TTL: longTTL, Client: clientC, Wants: true})
	wanted(t, s, key, clientB) // another took the key
	freed(t, s, h)
	h = grant(t, s, driver.Request{Key: key, ID: newID(), TTL: longTTL, Client: clientB, Wants: true})
	wanted(t, s, key, 0)
	h.Asks = true
	results, err := s.Release(context.Background(), []driver.Hold{h})
	if err != nil || results[0].Status != driver.Released || results[0].Wanted != (driver.Hint{}) {
		t.Errorf("release of a key that nobody wants: %+v, %v", results, err)
	}
}

// hintBatch has more keys in one call than a statement for a single one.
func hintBatch(t *testing.T, e *env) {
	s := e.Open(t)
	const n, hintWait = 5, 30 * time.Second
	deadline := time.Now().Add(hintWait)
	var reqs, others []driver.Request
	for range n {
		key := e.key(t)
		reqs = append(reqs, driver.Request{Key: key, ID: newID(), TTL: longTTL, Client: clientA})
		others = append(others, driver.Request{Key: key, ID: newID(), TTL: longTTL, Client: clientB, Wants: len(others)%2 == 0})
	}
	results, err := s.Acquire(context.Background(), reqs)
	if err != nil {
		t.Fatal(err)
	}
	var holds []driver.Hold
	for i, r := range results {
		if r.Status != driver.Granted {
			t.Fatalf("%+v", r)
		}
		holds = append(holds, driver.Hold{Key: reqs[i].Key, ID: reqs[i].ID, Token: r.Token, Stored: r.Stored, TTL: longTTL, Asks: true})
	}
	// A batch that a busy server cut short answers what it knows of a held key, and leaves
	// the hint to the next attempt.
	for missing := true; missing; {
		if results, err = s.Acquire(context.Background(), others); err != nil {
			t.Fatal(err)
		}
		missing = false
		for i, r := range results {
			if r.Status != driver.Held {
				t.Fatalf("%+v", r)
			}
			missing = missing || others[i].Wants && inspect(t, s, others[i].Key).Wanted.Client == 0
		}
		if missing && time.Now().After(deadline) {
			t.Fatalf("no hint on a key within %v of attempts", hintWait)
		}
	}
	for i, q := range others {
		wanted(t, s, q.Key, []uint32{clientB, 0}[i%2])
	}
	if results, err = s.Release(context.Background(), holds); err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if want := []uint32{clientB, 0}[i%2]; r.Status != driver.Released || r.Wanted.Client != want {
			t.Errorf("release %d of a batch: %+v, want the hint of %d", i, r, want)
		}
	}
}

// hintEnds by itself; its owner renews it when half of it is gone.
func hintEnds(t *testing.T, e *env) {
	s := e.Open(t)
	key := e.key(t)
	grant(t, s, driver.Request{Key: key, ID: newID(), TTL: longTTL, Client: clientA})
	refuse(t, s, key, clientB, true)
	before := inspect(t, s, key).Wanted
	refuse(t, s, key, clientB, true)
	if now := inspect(t, s, key).Wanted; now.Left > before.Left {
		t.Errorf("a fresh hint was written again: %+v after %+v", now, before)
	}
	time.Sleep(driver.HintTime * 6 / 10)
	start := time.Now()
	refuse(t, s, key, clientB, true)
	now := inspect(t, s, key).Wanted
	if least := driver.HintTime - time.Since(start) - 10*time.Millisecond; now.Left < least {
		t.Errorf("the hint of which more than half was gone is %+v, want at least %v left", now, least)
	}
	time.Sleep(driver.HintTime + 100*time.Millisecond)
	wanted(t, s, key, 0)
	refuse(t, s, key, clientC, true)
	wanted(t, s, key, clientC)
}
