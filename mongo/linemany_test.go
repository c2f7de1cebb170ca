package mongolock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The line, of many keys in one call.

func acquireAll(t testing.TB, s *Store, reqs []driver.Request) []driver.Result {
	t.Helper()
	results, err := patiently(func() ([]driver.Result, error) { return s.Acquire(patient(t), reqs) })
	must(t, err)
	for i, r := range results { // what a busy server did not finish in time
		if r.Status == driver.Unknown || r.Status == driver.Held && reqs[i].Stand && r.Place == 0 {
			results[i] = stand(t, s, reqs[i])
		}
	}
	return results
}

func releaseAll(t testing.TB, s *Store, holds []driver.Hold) []driver.Result {
	t.Helper()
	results, err := patiently(func() ([]driver.Result, error) { return s.Release(patient(t), holds) })
	must(t, err)
	for i, r := range results {
		if r.Status == driver.Unknown {
			results[i] = release(t, s, holds[i])
		}
	}
	return results
}

func views(t testing.TB, s *Store, reqs []driver.Request) []driver.View {
	t.Helper()
	entries := make([]driver.Entry, len(reqs))
	for i, q := range reqs {
		entries[i] = document.EntryOf(q)
	}
	views, err := patiently(func() ([]driver.View, error) { return s.Look(patient(t), entries) })
	must(t, err)
	return views
}

// TestP29_ManyKeys: requests of many keys stand, are refreshed, are passed the keys and go on by few commands; keys with and
// without a line, new ones, and all modes in one call.
func TestP29_ManyKeys(t *testing.T) {
	t.Parallel()
	s, sent := monitored(t)
	const n = 20
	keys := make([]string, n)
	first, waiting, free := make([]driver.Request, n), make([]driver.Request, n), make([]driver.Request, n)
	for i := range n {
		keys[i] = fmt.Sprint("k", i)
		used(t, s, keys[i])
		first[i], waiting[i] = standerOf(keys[i]), standerOf(keys[i])
		free[i] = standerOf(fmt.Sprint("new", i))
	}
	holds := make([]driver.Hold, n)
	mustSend(t, "20 grants of keys that nobody waits for", []string{"update", "find"}, func(int) []string {
		for i := range n {
			if holds[i].Token > 0 {
				release(t, s, holds[i])
			}
			first[i].ID = newID()
		}
		return commandsOf(t, sent, func() {
			for i, r := range acquireAll(t, s, first) {
				if r.Status != driver.Granted {
					t.Fatalf("grant %d: %+v", i, r)
				}
				holds[i] = holdOf(first[i], r)
			}
		})
	})
	stand := func() {
		t.Helper()
		for i, r := range acquireAll(t, s, append(append([]driver.Request{}, waiting...), free...)) {
			if i < n && (r.Status != driver.Held || r.Place != 1 || r.Standing != 1) || i >= n && r.Status != driver.Granted {
				t.Fatalf("P29: request %d: %+v", i, r)
			}
		}
	}
	stand()
	stand()
	mustSend(t, "20 requests that stand come again", []string{"update", "find"}, func(int) []string {
		return commandsOf(t, sent, func() {
			for i, r := range acquireAll(t, s, waiting) {
				if r.Status != driver.Held || r.Place != 1 {
					t.Fatalf("P29: request %d: %+v", i, r)
				}
			}
		})
	})
	mustSend(t, "a look at 20 keys", []string{"find"}, func(int) []string {
		return commandsOf(t, sent, func() {
			for i, v := range views(t, s, waiting) {
				if v.Place != 1 || v.Mine || v.Free || v.Owner != "test" {
					t.Errorf("look %d: %+v", i, v)
				}
			}
		})
	})
	nexts := make([]driver.Request, n)
	for i := range holds {
		nexts[i] = standerOf(keys[i])
		if i%2 == 0 {
			holds[i].Next = &nexts[i]
		}
	}
	for i, r := range releaseAll(t, s, holds) {
		if r.Status != driver.Released || i%2 == 0 && r.Place != 1 || i%2 == 1 && r.Place != 0 {
			t.Errorf("release %d: %+v", i, r)
		}
	}
	for i, v := range views(t, s, waiting) {
		if !v.Mine || v.Token < holds[i].Token+driver.TokenRange || v.Standing != 1-i%2 {
			t.Errorf("P29: the first of key %d: %+v", i, v)
		}
		holds[i] = driver.Hold{Key: keys[i], ID: waiting[i].ID, Token: v.Token, Stored: v.Stored}
	}
	late := holds
	names := commandsOf(t, sent, func() {
		for i, r := range releaseAll(t, s, holds) {
			if r.Status != driver.Released {
				t.Errorf("release %d: %+v", i, r)
			}
		}
	})
	if len(names) != 1 {
		t.Logf("20 releases that pass the key send %v", names) // more if a busy server stops the first
	}
	for i, v := range views(t, s, nexts) {
		if i%2 == 0 && !v.Mine || i%2 == 1 && (v.Mine || !v.Free || v.Standing != 0) {
			t.Errorf("P29: the next of key %d: %+v", i, v)
		}
	}
	releaseAll(t, s, late)
	for i, v := range views(t, s, nexts) {
		if i%2 == 0 && !v.Mine {
			t.Errorf("P5: a release that comes again ends the hold of key %d: %+v", i, v)
		}
	}
}

// TestP29_ManyReleasesOfAStoreThatKnowsOfNoLine: they pass the keys all the same.
func TestP29_ManyReleasesOfAStoreThatKnowsOfNoLine(t *testing.T) {
	t.Parallel()
	s := shared(t)
	other := beside(t, s, uriOf(t))
	var holds []driver.Hold
	var waiting []driver.Request
	for i := range 6 {
		key := used(t, s, fmt.Sprint("k", i))
		holds = append(holds, granted(t, other, request(key)))
		if i%2 == 0 {
			waiting = append(waiting, standerOf(key))
			placed(t, s, waiting[len(waiting)-1], 1, 1)
		}
	}
	for i, r := range releaseAll(t, other, holds) {
		if r.Status != driver.Released {
			t.Errorf("release %d: %+v", i, r)
		}
	}
	for _, q := range waiting {
		mineNow(t, s, q)
	}
	tries := make([]driver.Request, len(waiting))
	for i, q := range waiting {
		tries[i] = request(q.Key)
	}
	for i, r := range acquireAll(t, beside(t, s, uriOf(t)), tries) {
		if r.Status != driver.Held {
			t.Errorf("P29: try %d: %+v", i, r)
		}
	}
	// Those who were passed the keys leave: the keys are free, and are advanced by tries that know of no line.
	for _, q := range waiting {
		placed(t, s, standerOf(q.Key), 1, 1)
		expire(t, s, q.Key)
	}
	for i, r := range acquireAll(t, beside(t, s, uriOf(t)), tries) {
		if r.Status != driver.Held {
			t.Errorf("P29: try %d of a key whose hold is over passes the line: %+v", i, r)
		}
	}
}

// TestP29_ManyModes: readers and slots of many keys stand, and are passed the keys, in one call with others.
func TestP29_ManyModes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var reqs []driver.Request
	var holds []driver.Hold
	for i := range 12 {
		key := used(t, s, fmt.Sprint("k", i))
		holds = append(holds, granted(t, s, request(key)))
		reqs = append(reqs, stands([]driver.Request{readerOf(key), slotOf(key, 2), request(key)}[i%3]))
	}
	for range 2 {
		for i, r := range acquireAll(t, s, reqs) {
			if r.Status != driver.Held || r.Place != 1 {
				t.Fatalf("P29: request %d: %+v", i, r)
			}
		}
	}
	releaseAll(t, s, holds)
	for i, v := range views(t, s, reqs) {
		if !v.Mine {
			t.Errorf("P29: %d: %+v", i, v)
		}
		holds[i] = driver.Hold{Key: reqs[i].Key, ID: reqs[i].ID, Mode: reqs[i].Mode, Token: v.Token, Stored: v.Stored, Slot: v.Slot, Phase: v.Phase}
	}
	for i, r := range acquireAll(t, s, reqs) {
		if r.Status != driver.Granted || r.Token != holds[i].Token || r.Left <= 0 || r.Left > reqs[i].Claim {
			t.Errorf("P29: the request %d again: %+v", i, r)
		}
	}
	for i, r := range releaseAll(t, s, holds) {
		if r.Status != driver.Released {
			t.Errorf("release %d: %+v", i, r)
		}
	}
	for i, v := range views(t, s, reqs) {
		if v.Mine || !v.Free || v.Standing != 0 {
			t.Errorf("P29: %d at the end: %+v", i, v)
		}
	}
}

// TestP29_OneKeyInAllModes: a look tells each of them its own.
func TestP29_OneKeyInAllModes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	used(t, s, "k")
	granted(t, s, slotOf("k", 1))
	slot, w, r := stands(slotOf("k", 1)), standerOf("k"), stands(readerOf("k"))
	reqs := []driver.Request{slot, w, r}
	for i, q := range reqs {
		waits(t, s, q, i+1)
	}
	for i, v := range views(t, s, reqs) {
		if v.Place != i+1 || v.Standing != 3 || v.Free || v.Mine || !v.Shared {
			t.Errorf("look %d: %+v", i, v)
		}
	}
}

// TestN8_RefreshOnASlowServer: places that are refreshed together take few commands also where the server needs longer for them than the
// commands before let expect, and all of them are refreshed.
func TestN8_RefreshOnASlowServer(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	s := shared(t)
	const n = 400
	held, reqs := requests("slow", n), requests("slow", n)
	for i := range reqs {
		reqs[i] = stands(reqs[i])
	}
	mustAll(t, s, held, driver.Granted)
	acquireAll(t, s, reqs)
	for _, c := range []struct {
		name string
		of   func(i int, q *driver.Request)
	}{
		{"alike", func(_ int, q *driver.Request) { q.EntryTime = 20 * time.Second }},
		{"different", func(i int, q *driver.Request) { q.EntryTime = 40*time.Second + time.Duration(i)*20*time.Second/n }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range reqs {
				c.of(i, &reqs[i])
			}
			var results []driver.Result
			var start time.Time
			for try := 1; ; try++ { // a server that needs a second for each command is the machine's
				for _, l := range []*command.Limit{&s.limits.alike, &s.limits.inLine} {
					*l = command.Limit{}
					l.Observe(n, time.Microsecond)
				}
				sent := s.Statements()
				start = time.Now()
				results = acquireAll(t, s, reqs)
				commands := s.Statements() - sent
				t.Logf("%d places in %d commands, %v", n, commands, time.Since(start))
				if commands <= n/4 {
					break
				}
				if try == 3 {
					t.Errorf("%d commands for %d places", commands, n)
					break
				}
			}
			for i, r := range results {
				if r.Status != driver.Held || r.Place != 1 {
					t.Fatalf("%q: %+v", reqs[i].Key, r)
				}
				end, err := documentOf(t, s, reqs[i].Key).LookupErr("line", "0", "u")
				must(t, err)
				if left := end.Time().Sub(start); left < reqs[i].EntryTime-5*time.Second { // no clock is that far off
					t.Fatalf("%q stands for %v, want %v", reqs[i].Key, left, reqs[i].EntryTime)
				}
			}
		})
	}
}
