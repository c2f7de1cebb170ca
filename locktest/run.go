package locktest

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Run runs the whole suite. It returns when all of it has ended. With -short, as in rowlock's own `make test`, it leaves out what
// is about the engine alone, where the Harness has processes (package memory's run proves it), and what kills or freezes
// processes and servers.
func Run(t *testing.T, h Harness) {
	t.Helper()
	run(t, h, all()...)
}

// RunVirtual runs the suite in virtual time, for a Store that lives in the memory of one process: nothing in it may wait for a
// network or a process. Each case runs in a bubble of [testing/synctest], with the Harness, and so the lock space, that harness
// makes there; what a case waits for takes no time. Without bubbles harness is called with the t of RunVirtual, to learn what the Store
// can do, and for P12_NoGoroutineLeft, which needs real time. A call of the Store must take time, a millisecond of [time.Sleep]: some cases
// work until a time has passed.
func RunVirtual(t *testing.T, harness func(testing.TB) Harness) {
	t.Helper()
	e := newEnv(t, harness(t))
	for _, c := range slices.Concat(all()...) {
		switch {
		case !e.runs(c):
		case c.real:
			t.Run(c.name, func(t *testing.T) { c.run(t, e) })
		default:
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					t.Cleanup(func() { time.Sleep(time.Minute) }) // a bubble ends after all of its goroutines, also those that still sleep
					c.run(t, newEnv(t, harness(t)))
				})
			})
		}
	}
}

// all are the groups of cases.
func all() [][]testCase {
	return [][]testCase{
		exclusion, loss, reasons, frozen, // P1, P2
		tokens, stale, giveUp, lostReply, // P3, P5, P6, P7
		deadlocks, keys, reaper, // P8, P9, P10
		connections, release, closing, isolation, // P11, P12, P15
		groups,                   // P22
		fairCases,                // P23
		lineCases, lineModeCases, // P29
		leading, // P24
		answers, // what is told of a key
		holdTimes, turns, seam, seamBatch, hints,
		seamLine, seamLineEnds, seamLineModes,
		seamShared, seamPhase, seamSlots, seamGate, modeCases, sharedCases, phaseCases, slotCases, sharedGuards, groupModes, // the modes Shared and Slot
	}
}

// testCase is one named case.
type testCase struct {
	name  string
	run   func(*testing.T, *env)
	needs func(*env) bool // nil: runs on every backend
	alone bool            // needs the lock space, or the machine, for itself

	engine bool // about the engine, whatever the store does
	long   bool // kills or freezes processes or servers, or makes very many rows
	real   bool // needs real time
}

// runs reports whether the backend can run the case, and the tier of tests wants it.
func (e *env) runs(c testCase) bool {
	return (c.needs == nil || c.needs(e)) && !(testing.Short() && (c.long || c.engine && processes(e)))
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
func lines(e *env) bool    { return e.limits.Line }
func hinting(e *env) bool  { return e.limits.Queue } // hints and gates are for a store without lines
func gates(e *env) bool    { return modes(e) && hinting(e) }
func guarding(e *env) bool { return e.forcer && e.InTx != nil }
func shared(e *env) bool   { return e.limits.Modes.Has(driver.Shared) }
func slots(e *env) bool    { return e.limits.Modes.Has(driver.Slot) }
func modes(e *env) bool    { return shared(e) && slots(e) }
func linesOfModes(e *env) bool {
	return lines(e) && modes(e)
}
func modesForcing(e *env) bool {
	return modes(e) && forcing(e)
}

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
			case !e.runs(c):
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
	if l, ok := s.(driver.HoldLimiter); ok {
		e.room = l.HoldLimit()
	}
	_, e.counts = s.(driver.Counter)
	e.ttl = max(normalTTL, e.limits.MinTTL)
	e.short = max(shortTTL, e.limits.MinTTL)
	return e
}
