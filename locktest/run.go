package locktest

import (
	"sync"
	"testing"

	"github.com/rowlock/rowlock/driver"
)

// Run runs the whole suite. It returns when all of it has ended.
func Run(t *testing.T, h Harness) {
	t.Helper()
	run(t, h, exclusion, loss, reasons, frozen, tokens, stale, giveUp, lostReply, deadlocks, keys, reaper,
		connections, release, closing, isolation, holdTimes, turns, seam, seamBatch, hints)
}

// P1 runs the cases of P1: by the database's clock, at most one exclusive hold of
// a key is unexpired.
func P1(t *testing.T, h Harness) { t.Helper(); run(t, h, exclusion) }

// P2 runs the cases of P2: the holder knows of its loss before the database may
// grant the key to another, and a live holder keeps its lease.
func P2(t *testing.T, h Harness) { t.Helper(); run(t, h, loss, reasons, frozen) }

// P3 runs the cases of P3: tokens are strictly increasing in the order of grants.
func P3(t *testing.T, h Harness) { t.Helper(); run(t, h, tokens) }

// P5 runs the cases of P5: a stale holder changes nothing.
func P5(t *testing.T, h Harness) { t.Helper(); run(t, h, stale) }

// P6 runs the cases of P6: an acquire that was given up leaves no hold behind.
func P6(t *testing.T, h Harness) { t.Helper(); run(t, h, giveUp) }

// P7 runs the cases of P7: a lost reply makes neither two holders nor a hold that
// nobody knows of.
func P7(t *testing.T, h Harness) { t.Helper(); run(t, h, lostReply) }

// P8 runs the cases of P8: the database's own conflicts never reach the caller.
func P8(t *testing.T, h Harness) { t.Helper(); run(t, h, deadlocks) }

// P9 runs the cases of P9: keys are bytes.
func P9(t *testing.T, h Harness) { t.Helper(); run(t, h, keys) }

// P10 runs the cases of P10: the reaper never ends a live hold.
func P10(t *testing.T, h Harness) { t.Helper(); run(t, h, reaper) }

// P11 runs the cases of P11: connections are bounded.
func P11(t *testing.T, h Harness) { t.Helper(); run(t, h, connections) }

// P12 runs the cases of P12: Release works on a dead context, Close frees
// everything, nothing leaks.
func P12(t *testing.T, h Harness) { t.Helper(); run(t, h, release, closing) }

// P15 runs the cases of P15: a blocked key delays no other.
func P15(t *testing.T, h Harness) { t.Helper(); run(t, h, isolation) }

// Hold runs the cases of MinHold, MaxHold and NoRenew.
func Hold(t *testing.T, h Harness) { t.Helper(); run(t, h, holdTimes) }

// Wait runs the cases of waiters that belong to no promise.
func Wait(t *testing.T, h Harness) { t.Helper(); run(t, h, turns) }

// Store runs the cases of the seam that belong to no promise.
func Store(t *testing.T, h Harness) { t.Helper(); run(t, h, seam, seamBatch, hints) }

// testCase is one named case.
type testCase struct {
	name  string
	run   func(*testing.T, *env)
	needs func(*env) bool // nil: runs on every backend
	alone bool            // needs the lock space, or the machine, for itself
}

// What a case may need.
func processes(e *env) bool { return e.Config != "" }
func freezing(e *env) bool  { return e.Config != "" && canFreeze }
func server(e *env) bool    { return e.Server != nil }
func blocking(e *env) bool  { return e.Block != nil }
func blockingProcesses(e *env) bool {
	return e.Block != nil && e.Config != ""
}
func counting(e *env) bool { return e.Connections != nil && e.MaxConnections != nil }
func dead(e *env) bool     { return e.Dead != nil && e.reaper }
func reaping(e *env) bool  { return e.reaper }
func listing(e *env) bool  { return e.lister }
func forcing(e *env) bool  { return e.forcer }

// atOnce is how many cases run at the same time. Most of them wait most of the
// time, so it is more than there are cores.
const atOnce = 6

// run runs the cases of the groups. It does without t.Parallel, which would run as
// many at a time as there are cores.
func run(t *testing.T, h Harness, groups ...[]testCase) {
	t.Helper()
	e := newEnv(t, h)
	var alone []testCase
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, cases := range groups {
		for _, c := range cases {
			switch {
			case c.needs != nil && !c.needs(e):
			case c.alone:
				alone = append(alone, c)
			default:
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					t.Run(c.name, func(t *testing.T) { c.run(t, e) })
				})
			}
		}
	}
	wg.Wait()
	for _, c := range alone {
		t.Run(c.name, func(t *testing.T) { c.run(t, e) })
	}
}

// newEnv asks the backend what it can do.
func newEnv(t testing.TB, h Harness) *env {
	t.Helper()
	if h.Open == nil {
		t.Fatal("locktest: Harness.Open is required")
	}
	s := h.Open(t)
	e := &env{Harness: h, limits: s.Limits(), id: randomHex()}
	_, e.reaper = s.(driver.Reaper)
	_, e.lister = s.(driver.Lister)
	_, e.forcer = s.(driver.Forcer)
	e.ttl = max(normalTTL, e.limits.MinTTL)
	e.short = max(shortTTL, e.limits.MinTTL)
	return e
}
