// Package number measures the numbers N1 to N9, N11 and a few more. Whatever is compared
// is measured in one run, in rounds, in random order within a round.
package number

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Plan is how much is measured.
type Plan struct {
	Rounds   int
	Cycles   int             // N1, N6: cycles of each side in a round
	Block    time.Duration   // N2, N3, refused: how long a side runs
	Workers  []int           // N2
	Peers    []int           // N2: numbers of workers for the peers
	Holds    []time.Duration // N4
	Window   time.Duration   // N4
	Waiters  []int           // N4: numbers of waiters a process, for statements over waiters
	Fleet    []int           // N4: numbers of processes
	Many     int             // N4b: processes
	Together time.Duration   // N4b: how long
	Leases   int             // N5
	Keep     time.Duration   // N5: how long
	KeepTTL  time.Duration   // N5
	Rows     int             // N6
	KillTTL  time.Duration   // N7
	Kills    int             // N7
	Waiting  time.Duration   // N8: how long
	Waited   []waited        // N8
	Renewed  []int           // renew
	Far      []far           // N9
	Blocked  []int           // P15: numbers of blocked keys
	Beside   time.Duration   // P15: how long the load runs, each time
	Pairs    int             // P15: pairs of loads, with blocked keys and without
	Clients  []int           // N11: numbers of clients with a hold each
	Stream   time.Duration   // N11: how long readers and writers meet
	Order    time.Duration   // N11: how long programs compete, with and without Fair
	Others   bool            // N3, N4, N11: measure what is not the library's, and what differs little, too
}

// Full and Short are the two plans.
var (
	Full = Plan{
		Rounds: 3, Cycles: 200, Block: 500 * time.Millisecond, Workers: []int{1, 8, 32, 128}, Peers: []int{1, 8, 128},
		Holds: []time.Duration{0, 20 * time.Millisecond}, Window: 3 * time.Second, Waiters: []int{1, 4, 32}, Fleet: []int{2, 8}, Many: 64, Together: 6 * time.Second,
		Leases: 10_000, Keep: time.Minute, KeepTTL: 30 * time.Second,
		Rows: 1_000_000, KillTTL: 2 * time.Second, Kills: 3, Waiting: 4 * time.Second,
		Waited: []waited{{1, 1}, {100, 100}, {1000, 1000}, {1, 1000}}, Renewed: []int{1, 10, 100, 1000}, Others: true,
		Far: []far{{time.Millisecond, 100}, {50 * time.Millisecond, 20}, {300 * time.Millisecond, 10}}, Blocked: []int{1, 8, 32, 100}, Beside: time.Second, Pairs: 5,
		Clients: []int{1, 8, 32}, Stream: 6 * time.Second, Order: 6 * time.Second,
	}
	Short = Plan{
		Rounds: 1, Cycles: 60, Block: 250 * time.Millisecond, Workers: []int{8, 128}, Peers: []int{8},
		Holds: []time.Duration{20 * time.Millisecond}, Window: time.Second, Many: 16, Together: time.Second,
		Leases: 2000, Keep: 6 * time.Second, KeepTTL: 6 * time.Second,
		Rows: 20_000, KillTTL: time.Second, Kills: 1, Waiting: 2 * time.Second,
		Waited: []waited{{1, 1}, {1000, 1000}}, Renewed: []int{1000},
		Far: []far{{time.Millisecond, 30}, {50 * time.Millisecond, 8}, {300 * time.Millisecond, 3}}, Blocked: []int{100}, Beside: 250 * time.Millisecond, Pairs: 2,
		Clients: []int{32}, Stream: 400 * time.Millisecond, Order: 500 * time.Millisecond,
	}
)

// Bench is a run.
type Bench struct {
	Lab  *lab.Lab
	Plan Plan
	File *result.File
	Say  func(format string, args ...any) // progress

	Contest *Contest // of the caller's choice

	contests map[string]int // of N4, for each side
}

// Number is one measurement.
type Number struct {
	Name   string
	Title  string
	About  string // what is measured, in a line
	Anchor string // of its part of docs/performance.md
	Run    func(*Bench, context.Context) error
}

// OfContest measures a contest of the caller's choice. It is none of the numbers.
var OfContest = Number{"contest", "a contest of your choice", "processes whose callers take keys in turns, each for a while: the rate, how long callers wait, what it costs", "", (*Bench).contestOfChoice}

// Numbers lists all in the order of the report.
var Numbers = []Number{
	{"N1", "lease cycle of one worker", "acquire and release, over and over, beside two commits by hand", "n1-one-worker", (*Bench).N1},
	{"N2", "distinct keys, many workers in one process", "lease cycles a second of workers that are never in each other's way, beside as many that commit by hand", "n2-many-workers-each-with-a-key-of-its-own", (*Bench).N2},
	{"N3", "32 waiters for one key in one process", "how fast goroutines hand a key off in memory, with a new token for each", "n3-one-hot-key-inside-a-process", (*Bench).N3},
	{"N4", "several processes want one key", "how a key goes from process to process: the time it takes, the statements it costs, and whether all get their share", "n4-one-hot-key-several-processes", (*Bench).N4},
	{"N4b", "many processes", "one key that all of them want, and 64 keys of which each caller wants any: the rate, how long callers wait, and whether one got nothing", "n4b-many-processes", (*Bench).N4b},
	{"N5", "many leases kept alive by one process", "the statements and connections of renewals, and whether a lease is lost", "n5-many-leases-kept-alive", (*Bench).N5},
	{"N6", "a table with many rows", "N1 in a full table beside an empty one", "n6-a-table-with-many-rows", (*Bench).N6},
	{"N7", "the holder's process is killed", "how long a waiter still waits after kill -9 of the holder", "n7-the-holder-is-killed", (*Bench).N7},
	{"N8", "statements of a process that waits", "what waiting costs the server, for any number of waiters", "n8-what-a-waiting-process-sends", (*Bench).N8},
	{"N9", "a distant server", "a lone caller's cycle, and a client's first use, in round trips to a server behind a delaying proxy", "n9-a-distant-server", (*Bench).N9},
	{"N11", "lock types", "what readers, slots and groups cost beside exclusive holds, and how long readers and writers wait for each other", "n11-lock-types", (*Bench).N11},
	{"P15", "blocked keys beside other keys", "how much slower other keys are while foreign transactions block some that the same client waits for: pairs of loads, with blocked keys and without, in turns", "p15-blocked-keys", (*Bench).P15},
	{"refused", "tries and probes of a key that is held", "what a refusal costs", "more", (*Bench).Refused},
	{"renew", "renewal of many leases", "one renewal of them all by the store itself", "more", (*Bench).Renew},
	{"connections", "connections of 200 holders and 200 waiters", "the most that one client has open", "more", (*Bench).Connections},
	{"engine", "the engine alone, over memory", "a cycle without a database: what the library itself costs", "more", (*Bench).Engine},
}

// candidate is a side of a server.
type candidate struct {
	server *lab.Server
	kind   string
}

// candidates are the sides of these kinds that the servers have; of all kinds with
// none named.
func candidates(servers []*lab.Server, kinds ...string) (found []candidate) {
	for _, s := range servers {
		for _, k := range s.Kinds {
			if len(kinds) == 0 || slices.Contains(kinds, k) {
				found = append(found, candidate{s, k})
			}
		}
	}
	return found
}

// strategies are the library's own sides, Guarded excepted.
func (b *Bench) strategies() (found []candidate) {
	for _, s := range b.Lab.Servers {
		for _, k := range s.Rowlock() {
			found = append(found, candidate{s, k})
		}
	}
	return found
}

func (c candidate) String() string { return c.server.Name + " " + c.kind }

// at is where the results of c go.
func (c candidate) at(number, what string, x float64) result.At {
	return result.At{Number: number, Server: c.server.Name, Side: c.kind, Case: what, X: x}
}

func (c candidate) open(ctx context.Context, callers int) (side.Locker, error) {
	return side.Open(ctx, c.server.Spec(c.kind, callers))
}

// fits reports whether c can have that many callers; otherwise it notes why not.
func (b *Bench) fits(c candidate, number string, connections int) bool {
	if !c.server.SQL() || c.server.MaxConns == 0 || connections+20 <= c.server.MaxConns {
		return true
	}
	b.File.Leave(fmt.Sprintf("%s %s with %d connections", number, c, connections),
		fmt.Sprintf("the server allows %d", c.server.MaxConns))
	return false
}

// block opens a side, warms it up, runs it for the plan's time and closes it.
func (b *Bench) block(ctx context.Context, c candidate, workers int, key func(int) string) (run measure.Run, sent uint64, err error) {
	l, err := c.open(ctx, workers)
	if err != nil {
		return run, 0, err
	}
	defer func() {
		if e := l.Close(); err == nil && e != nil {
			err = fmt.Errorf("%s: close: %w", c, e)
		}
	}()
	// Twice: a connection for each worker, and pages in memory.
	for _, d := range []time.Duration{time.Millisecond, b.Plan.Block / 5} {
		if _, err := measure.Workers(ctx, l, workers, d, key); err != nil {
			return run, 0, fmt.Errorf("%s: %w", c, err)
		}
	}
	before, _ := side.Statements(l)
	if run, err = measure.Workers(ctx, l, workers, b.Plan.Block, key); err != nil {
		return run, 0, fmt.Errorf("%s: %w", c, err)
	}
	after, _ := side.Statements(l)
	return run, after - before, nil
}

// lost is the reason for which metrics are void that rest on n live leases, if r has
// lost any.
func lost(r *side.Rowlock, n int) string {
	if lost := r.Client.Stats().Losses; lost > 0 {
		return fmt.Sprintf("%d of %d leases were lost", lost, n)
	}
	return ""
}

// void voids some metrics of at if there is a reason to.
func (b *Bench) void(at result.At, reason string, metrics ...string) {
	if reason == "" {
		return
	}
	for _, m := range metrics {
		b.File.Void(at, m, reason)
	}
}

// failed notes that a side could not be measured, so that the rest still is; the
// run fails at its end. It returns an error only when the run was interrupted.
func (b *Bench) failed(ctx context.Context, number, who string, err error) error {
	if err != nil && ctx.Err() == nil {
		b.Say("%s %s failed: %v", number, who, err)
		b.File.Fail(fmt.Sprintf("%s: %s: %v", number, who, err))
		return nil
	}
	return ctx.Err()
}

// slowClose is how long a client with live servers may take to end at most.
const slowClose = 5 * time.Second

// end closes a side, and notes if that fails or takes long.
func (b *Bench) end(number string, c candidate, l side.Locker) {
	begin := time.Now()
	if err := l.Close(); err != nil {
		b.File.Note(fmt.Sprintf("%s: closing %s: %v", number, c, err))
	} else if took := time.Since(begin); took > slowClose {
		b.File.Note(fmt.Sprintf("%s: closing %s took %.1f s.", number, c, took.Seconds()))
	}
}

// shuffled is the list in random order.
func shuffled[T any](list []T) []T {
	list = slices.Clone(list)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
