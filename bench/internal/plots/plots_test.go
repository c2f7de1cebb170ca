package plots

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/bench/internal/lab"
	"github.com/rowlock/rowlock/bench/internal/result"
	"github.com/rowlock/rowlock/bench/internal/side"
)

// measured is a run of three rounds of which some numbers have fewer values.
func measured() *result.File {
	f := &result.File{Rounds: 3, Started: time.Date(2026, 11, 22, 15, 12, 0, 0, time.UTC),
		Machine: result.Machine{CPU: "AMD EPYC", Cores: 2, System: "Debian", FsyncP50: 0.24}}
	add := func(number, what string, x float64, metric string, values ...float64) {
		for _, v := range values {
			f.Add(result.At{Number: number, Server: lab.MySQL, Side: side.Version, Case: what, X: x}, metric, v)
		}
	}
	add("N2", "1 worker", 1, "cycles/s", 100, 110, 120)
	add("N2", "8 workers", 8, "cycles/s", 800, 810, 820)
	add("N4", "4 × 1, hold 20ms", 1, "statements/hand-over", 3)
	add("N4", "4 × 4, hold 20ms", 4, "statements/hand-over", 3.5)
	add("N4", "4 × 8, hold 20ms", 8, "statements/hand-over", 4, 4.5, 5)
	add("P15", "8 blocked", 8, "p99 more, less 4 trips, ms", 1, 2)
	add("P15", "100 blocked", 100, "p99 more, less 4 trips, ms", 2, 3)
	add("renew", "10 leases", 10, "p50 ms", 2)
	add("renew", "1000 leases", 1000, "p50 ms", 30)
	return f
}

// TestCaptions: a figure says how many values are behind its points, of which machine and
// when, and which of its axes are logarithmic.
func TestCaptions(t *testing.T) {
	folder := t.TempDir()
	figures, err := Write(measured(), folder)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"cycles":     {"Medians of n = 3 rounds, bars", ">workers (log scale)<", ">lease cycles per second (log scale)<"},
		"statements": {"Medians of n rounds, bars", "; n = 1 at x = 1, 4; n = 3 at x = 8."},
		"blocked":    {"Medians of n = 2 pairs of loads", ">blocked keys (log scale)<", ">ms<"},
		"renew":      {"One value behind each point (n = 1), so no bars", ">leases (log scale)<"},
	}
	if len(figures) != len(want) {
		t.Errorf("%d figures, want %d", len(figures), len(want))
	}
	for name, parts := range want {
		text, err := os.ReadFile(filepath.Join(folder, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range append(parts, "2026-11-22 15:12. AMD EPYC, 2 cores, Debian, a sync takes 0.24 ms.") {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s does not say %q", name, part)
			}
		}
	}
}

// TestCaptionOfALaterRun: a number that was measured apart has the date of its own run, and
// where a round of some sides failed n is a range.
func TestCaptionOfALaterRun(t *testing.T) {
	f, later := measured(), measured()
	later.Started = time.Date(2026, 11, 23, 15, 23, 0, 0, time.UTC)
	f.Later = map[string]*result.File{"renew": later}
	for i, x := range []float64{1, 8} {
		f.Add(result.At{Number: "N2", Server: lab.MariaDB, Side: side.Version, Case: []string{"1 worker", "8 workers"}[i], X: x}, "cycles/s", 90)
	}
	folder := t.TempDir()
	if _, err := Write(f, folder); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"renew": "2026-11-23 15:23", "cycles": "Medians of n = 1 to 3 rounds"} {
		text, err := os.ReadFile(filepath.Join(folder, name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
}

// TestColours: MongoDB's curve has a colour that no other side has, so that it is not taken
// for that of VersionColumn.
func TestColours(t *testing.T) {
	mongo := looks[side.Mongo].color
	for name, l := range looks {
		if name != side.Mongo && l.color == mongo {
			t.Errorf("%s has MongoDB's colour", name)
		}
	}
	if slices.ContainsFunc(others, func(l look) bool { return l.color == mongo }) {
		t.Error("a peer has MongoDB's colour")
	}
}
