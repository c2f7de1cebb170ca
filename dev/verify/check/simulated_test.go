package check

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/internal/testserver"
)

var simulated = Options{Spaces: map[string]history.Space{"version": {Strategy: "version", TTL: simulatedTTL}}}

// seeds is n, and in the short tier a fifth of it.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 5
	}
	return n
}

// What a right lock did is accepted.
func TestSimulated(t *testing.T) {
	t.Parallel()
	for seed := range seeds(40) {
		for _, v := range Run(simulate(seed, "k", 3, 4, 600), simulated) {
			t.Errorf("seed %d: %v", seed, v)
		}
	}
}

// A right history in which one thing is changed is rejected, by the right checker.
func TestSimulatedAndBroken(t *testing.T) {
	t.Parallel()
	is := func(kind history.Kind, result history.Result) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == kind && e.Result == result }
	}
	for _, c := range []struct {
		checker string // empty: any
		pick    func(history.Event) bool
		change  func(*history.Event)
	}{
		{"tokens", is(history.Acquire, history.OK), func(e *history.Event) { e.Token -= 1024 }},
		{"", is(history.Acquire, history.OK), func(e *history.Event) { e.Token -= 5000 }}, // if it was lost while it stood still: stale
		{"loss", is(history.Look, history.Lost), func(e *history.Event) { e.Result = history.OK }},
		{"lock", is(history.Release, history.OK), func(e *history.Event) { e.Begin += 30 * simulatedTTL; e.End += 30 * simulatedTTL }},
		{"stale", is(history.Commit, history.OK), func(e *history.Event) { e.Sent += 30 * simulatedTTL; e.End += 30 * simulatedTTL }},
		{"ledger", is(history.Commit, history.OK), func(e *history.Event) { e.Result = history.Conflict }},
		{"ledger", is(history.Ledger, ""), func(e *history.Event) { e.Token -= 1024 }},
		{"ledger", is(history.Ledger, ""), func(e *history.Event) { e.Value++ }},
		{"register", is(history.Write, history.OK), func(e *history.Event) { e.Result = history.Stale }},
		{"register", is(history.Read, history.OK), func(e *history.Event) { e.Token++ }},
		{"orphan", is(history.Observe, history.Held), func(e *history.Event) { e.Begin += 30 * simulatedTTL; e.End += 30 * simulatedTTL }},
		{"shape", is(history.Look, history.OK), func(e *history.Event) { e.Lease += 100000 }},
	} {
		for seed := range seeds(10) {
			events := simulate(seed, "k", 3, 4, 600)
			var candidates []int
			for i, e := range events[:len(events)-10] {
				if i > 20 && c.pick(e) {
					candidates = append(candidates, i)
				}
			}
			if len(candidates) == 0 {
				continue
			}
			i := candidates[int(seed)%len(candidates)]
			old := events[i]
			change(events, i, c.change)
			for at := time.Duration(0); c.checker == "orphan" && at < events[i].Begin; at += simulatedTTL / 5 { // the server is well
				events = append(events, history.Event{Client: "pulse", ID: int64(at + 1), Kind: history.Pulse, Result: history.OK, Begin: at, End: at + 1})
			}
			found := Run(events, simulated)
			if !slices.ContainsFunc(found, func(v Violation) bool { return c.checker == "" || v.Checker == c.checker }) {
				t.Errorf("%s, seed %d: changed %+v, found %v", c.checker, seed, old, found)
			}
		}
	}
}

// change changes an event, and the token of a lease wherever it is named.
func change(events []history.Event, i int, do func(*history.Event)) {
	do(&events[i])
	if e := events[i]; e.Kind == history.Acquire {
		for j := range events {
			if events[j].Lease == e.ID && events[j].Client == e.Client {
				events[j].Token = e.Token
			}
		}
	}
}

// A large round is judged in a time that can be waited for. The bound is there for a
// checker that takes time by the square or worse; what it took is logged.
func TestSpeed(t *testing.T) {
	testserver.Long(t)
	var events []history.Event
	for key := range 50 {
		workers := 2
		if key < 8 {
			workers = 8 // contended
		}
		events = append(events, simulate(uint64(key), fmt.Sprintf("k%d", key), 3, workers, 4000)...)
	}
	start := time.Now()
	if found := Run(events, simulated); len(found) > 0 {
		t.Errorf("%d violations, the first: %v", len(found), found[0])
	}
	took := time.Since(start)
	t.Logf("%d events judged in %v on %d processors", len(events), took, runtime.GOMAXPROCS(0))
	if took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// Bad histories are found in a time that can be waited for, too.
func TestSpeedOfBad(t *testing.T) {
	testserver.Long(t)
	events := simulate(1, "k", 3, 8, 8000)
	for i, e := range events {
		if i > 4000 && e.Kind == history.Read {
			events[i].Value--
			break
		}
	}
	for i, e := range events {
		if i > 6000 && e.Kind == history.Release {
			events[i].Begin += simulatedTTL
			events[i].End += simulatedTTL
			break
		}
	}
	start := time.Now()
	found := Run(events, simulated)
	t.Logf("%d events judged in %v", len(events), time.Since(start))
	for _, want := range []string{"lock", "register"} {
		if !slices.ContainsFunc(found, func(v Violation) bool { return v.Checker == want }) {
			t.Errorf("%s found nothing in %v", want, found)
		}
	}
}
