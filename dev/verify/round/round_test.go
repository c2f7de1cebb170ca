package round

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/check"
	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/workload"
	"github.com/rowlock/rowlock/internal/testserver"
)

func TestMain(m *testing.M) {
	workload.Main()
	os.Exit(m.Run())
}

// lab starts a server.
func lab(t *testing.T, kind testenv.Kind) *Lab {
	t.Helper()
	l, err := OpenLab(t.Context(), kind, 1)
	if errors.Is(err, testenv.ErrUnavailable) && os.Getenv("ROWLOCK_TEST_MUST_RUN") == "" {
		t.Skip("no server, run `make test`: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// config is that of a short round.
func config(t *testing.T, seed uint64) Config {
	return Config{Seed: seed, Duration: 4 * time.Second, Lines: 2, Gap: 300 * time.Millisecond, TTL: 1500 * time.Millisecond,
		Hot: 8, Light: 4, Modes: 4, Out: t.TempDir(), Command: "go test"}
}

// quick are the faults that are over soon.
func quick(kind testenv.Kind) (list []fault.Fault) {
	for _, f := range fault.For(kind) {
		switch f.Name {
		case "cut", "reply-dropped", "client-killed", "client-frozen-short":
			list = append(list, f)
		}
	}
	return list
}

// The tests wait more than they compute: those with a server of their own run side by side.

// TestRound: in rounds with faults much happens and no promise is broken. On a busy machine something may be missing in a short
// one, so longer ones follow.
func TestRound(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.Mongo} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			l := lab(t, kind)
			var missing []string
			for seed := range uint64(4) {
				c := config(t, seed+1)
				c.Duration += time.Duration(seed) * 4 * time.Second
				c.Faults, c.Keep = quick(kind), true
				r, err := Run(t.Context(), l, c)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r.Line())
				for _, v := range r.Violations {
					t.Error(v)
				}
				if r.Broken != nil {
					t.Error(r.Broken)
				}
				missing = everyKind(t, r.Folder)
				for space, n := range r.Spaces {
					if n.Grants < 20 {
						missing = append(missing, fmt.Sprintf("%s: %d grants of 20", space, n.Grants))
					}
				}
				if r.Injected() == 0 {
					missing = append(missing, "a fault")
				}
				if len(missing) == 0 || t.Failed() {
					return
				}
				t.Log("missing: ", missing)
			}
			t.Errorf("not even the last round had %q", missing)
		})
	}
}

// everyKind lists what a history lacks of each kind of event: a worker that never commits proves
// nothing about commits.
func everyKind(t *testing.T, folder string) (missing []string) {
	t.Helper()
	events, err := history.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	n := map[history.Kind]int{}
	modes := map[history.Mode]int{}
	groups, inOrder := 0, map[history.Mode]int{}
	for _, e := range events {
		n[e.Kind]++
		if e.Kind == history.Acquire && e.Result == history.OK && e.Group != 0 {
			groups++
		}
		if e.Kind == history.Acquire && e.Result == history.OK && e.Fair {
			inOrder[e.Mode]++
		}
		if e.Kind == history.Commit && e.Result == history.OK {
			modes[e.Mode]++
		}
	}
	for _, mode := range []history.Mode{"", history.Shared, history.Slot} {
		if modes[mode] == 0 {
			missing = append(missing, fmt.Sprintf("a guarded commit with mode %q", mode))
		}
	}
	for _, mode := range []history.Mode{"", history.Slot} {
		if inOrder[mode] == 0 {
			missing = append(missing, fmt.Sprintf("a lease with Fair and mode %q", mode))
		}
	}
	if groups == 0 {
		missing = append(missing, "the keys of an AcquireAll")
	}
	for _, kind := range []history.Kind{history.Acquire, history.Renew, history.Look, history.Done, history.Release,
		history.Commit, history.Write, history.Read, history.Observe, history.Fault, history.Ledger,
		history.Once, history.Locked, history.Effect, history.Mark, history.Pulse, history.Reach, history.Seen, history.Term, history.Leader} {
		if n[kind] == 0 {
			missing = append(missing, string(kind))
		}
	}
	return missing
}

// TestRoundFindsBugs: each deliberate bug is found, and what is found is kept.
func TestRoundFindsBugs(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, bug := range workload.Bugs {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			l := lab(t, testenv.MySQL)
			for seed := range uint64(12) { // it takes a coincidence that is rare on a busy machine, so not each round has it, and longer ones follow
				c := config(t, seed+1)
				c.Duration += time.Duration(seed) * 2 * time.Second
				c.Break = bug
				r, err := Run(t.Context(), l, c)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r.Line())
				by := map[string]string{"away": "back", "held": "nobody"}[bug]
				if by != "" && len(r.Violations) > 0 && !slices.ContainsFunc(r.Violations, func(v check.Violation) bool { return v.Checker == by }) {
					continue // that others notice it too is not enough
				}
				if len(r.Violations) == 0 {
					if _, err := os.Stat(r.Folder); err == nil {
						t.Error("a clean round left its folder behind")
					}
					continue
				}
				t.Log(r.Violations[0])
				again, err := Judge(r.Folder)
				if err != nil || len(again) != len(r.Violations) {
					t.Errorf("judged again: %d violations of %d, %v", len(again), len(r.Violations), err)
				}
				return
			}
			t.Error("not found")
		})
	}
}

// TestRoundEnds: a round that is interrupted leaves no process behind.
func TestRoundEnds(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := lab(t, testenv.MySQL)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	c := config(t, 1)
	if _, err := Run(ctx, l, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the round said %v", err)
	}
}

// TestRoundOfFailovers: after failovers that lose nothing no promise is broken; asynchronous replicas forget what was
// acknowledged, and a round finds that.
func TestRoundOfFailovers(t *testing.T) {
	testserver.Long(t)
	for _, kind := range []testenv.Kind{testenv.MySQLSemiSync, testenv.MySQLAsync} {
		t.Run(string(kind), func(t *testing.T) {
			l := lab(t, kind)
			for seed := range uint64(10) { // a machine may be so busy that little happens while the replicas are behind
				c := config(t, seed+1)
				c.Lines, c.Faults = 1, slices.DeleteFunc(fault.For(kind), func(f fault.Fault) bool { return f.Name != "replicas-behind" })
				r, err := Run(t.Context(), l, c)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r.Line())
				if r.Broken != nil || r.Injected() == 0 {
					t.Fatalf("%d faults, %v", r.Injected(), r.Broken)
				}
				if kind == testenv.MySQLSemiSync {
					for _, v := range r.Violations {
						t.Error(v)
					}
					return
				}
				if len(r.Violations) > 0 {
					t.Log(r.Violations[0])
					return
				}
			}
			t.Error("the loss was not found")
		})
	}
}
