package round

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rowlock/rowlock/testenv"
	"github.com/rowlock/rowlock/verify/fault"
	"github.com/rowlock/rowlock/verify/history"
	"github.com/rowlock/rowlock/verify/workload"
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
		Hot: 8, Light: 4, Out: t.TempDir(), Command: "go test"}
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

// TestRound: in a round with faults much happens and no promise is broken.
func TestRound(t *testing.T) {
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.Mongo} {
		t.Run(string(kind), func(t *testing.T) {
			c := config(t, 1)
			c.Faults, c.Keep = quick(kind), true
			r, err := Run(t.Context(), lab(t, kind), c)
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
			for space, n := range r.Spaces {
				if n.Grants < 20 {
					t.Errorf("%s: %d grants", space, n.Grants)
				}
			}
			if r.Injected() == 0 {
				t.Error("no fault happened")
			}
			everyKind(t, r.Folder)
		})
	}
}

// everyKind wants each kind of event in a history: a worker that never commits proves
// nothing about commits.
func everyKind(t *testing.T, folder string) {
	t.Helper()
	events, err := history.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	n := map[history.Kind]int{}
	for _, e := range events {
		n[e.Kind]++
	}
	for _, kind := range []history.Kind{history.Acquire, history.Renew, history.Look, history.Done, history.Release,
		history.Commit, history.Write, history.Read, history.Observe, history.Fault, history.Ledger,
		history.Once, history.Locked, history.Effect, history.Mark, history.Pulse} {
		if n[kind] == 0 {
			t.Errorf("no %s in %d events", kind, len(events))
		}
	}
}

// TestRoundFindsBugs: each deliberate bug is found, and what is found is kept.
func TestRoundFindsBugs(t *testing.T) {
	l := lab(t, testenv.MySQL)
	for _, bug := range workload.Bugs {
		t.Run(bug, func(t *testing.T) {
			for seed := range uint64(5) { // it takes a rare coincidence, so not each round has it
				c := config(t, seed+1)
				c.Break = bug
				r, err := Run(t.Context(), l, c)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r.Line())
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
	l := lab(t, testenv.MySQL)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	c := config(t, 1)
	if _, err := Run(ctx, l, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the round said %v", err)
	}
}
