package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// Every violation of the corpus can be told of: text, history, picture.
func TestReport(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "bad") {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			meta := history.Meta{Seed: 4711, Command: "verify -seed 4711", Started: time.Now(), Spaces: spaces}
			if err := history.WriteMeta(folder, meta); err != nil {
				t.Fatal(err)
			}
			events := load(t, file)
			o := ForRound(meta)
			o.Kept, o.Turn, o.Back = 1000, 2000, 1000
			found := Run(events, o)
			if err := Report(folder, found, events); err != nil {
				t.Fatal(err)
			}
			all, err := os.ReadFile(filepath.Join(folder, ReportFolder, "all.txt"))
			if err != nil || !strings.Contains(string(all), "4711") || !strings.Contains(string(all), found[0].Text) {
				t.Errorf("all.txt, %v:\n%s", err, all)
			}
			for _, extension := range []string{".txt", ".jsonl", ".html"} {
				list, err := filepath.Glob(filepath.Join(folder, ReportFolder, "01-*"+extension))
				if strings.HasPrefix(name, "shape-") && extension == ".html" {
					continue // there may be nothing to draw
				}
				if err != nil || len(list) != 1 {
					t.Errorf("files with %s: %v, %v", extension, list, err)
				}
			}
		})
	}
}

// A report without a meta.json, and one of a large key.
func TestReportOfALargeKey(t *testing.T) {
	t.Parallel()
	events := simulate(1, "k", 3, 8, 4000)
	for i, e := range events {
		if i > 3000 && e.Kind == history.Release {
			events[i].Begin += simulatedTTL
			events[i].End += simulatedTTL
			break
		}
	}
	folder := t.TempDir()
	found := Run(events, simulated)
	if err := Report(folder, found, events); err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	if _, err := history.LoadFile(filepath.Join(folder, ReportFolder, "01-lock-version-k.jsonl")); err != nil {
		t.Error(err)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	counts := Counts(load(t, filepath.Join("testdata", "good", "handed-on.jsonl")))
	if len(counts) != 1 {
		t.Fatal(counts)
	}
	c := counts[0]
	if c.Space != "version" || c.Grants != 4 || c.HandedOff != 2 || c.Kinds[history.Look][history.OK] != 3 {
		t.Errorf("%v", c)
	}
	counts = Counts(load(t, filepath.Join("testdata", "good", "killed-in-a-commit-that-was-not.jsonl")))
	if c := counts[len(counts)-1]; c.Unknown != 1 || c.Kinds[history.Commit][Pending] != 1 || c.Grants != 2 {
		t.Errorf("%v", c)
	}
	counts = Counts(load(t, filepath.Join("testdata", "good", "frozen-client-wakes.jsonl")))
	if c := counts[len(counts)-1]; c.Losses != 1 || !strings.Contains(c.String(), "2 grants") {
		t.Errorf("%v", c)
	}
}

// The ID of a lease that two files use is no lease's.
func TestLeaseIDTwice(t *testing.T) {
	t.Parallel()
	e := history.Event{ID: 1, Client: "p1", Space: "version", Key: "k", Kind: history.Acquire, Result: history.OK, Begin: 1, End: 2, Token: 1}
	if found := Run([]history.Event{e, e}, Options{Spaces: spaces}); len(found) != 1 || found[0].Checker != "shape" {
		t.Error(found)
	}
}
