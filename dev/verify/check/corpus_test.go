package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// The spaces of the histories in testdata. A nanosecond is long there: the TTL has a
// thousand, but where it is long.
var spaces = map[string]history.Space{
	"version":    {Strategy: "version", TTL: 1000},
	"unique":     {Strategy: "unique", TTL: 1000},
	"for-update": {Strategy: "for-update", TTL: 1000},
	"mongo":      {Strategy: "mongo", TTL: 1000},

	"long":         {Strategy: "version", TTL: 6 * time.Second},
	"long-session": {Strategy: "for-update", TTL: 6 * time.Second},
}

// promises are what each checker may say was broken.
var promises = map[string][]string{
	"shape": {"history"}, "lock": {"P1", "P16", "P17"}, "loss": {"P2"}, "tokens": {"P3", "P20"}, "stale": {"P4", "P21"}, "ledger": {"P4", "P21"},
	"register": {"fencing"}, "orphan": {"P6", "P7"}, "conflict": {"P8"}, "runs": {"P1", "P13"}, "reaped": {"P10"}, "kept": {"P15", "P26"},
	"slots": {"P17"}, "counted": {"P18"}, "turns": {"P19"}, "phases": {"P20"}, "guards": {"P21"}, "groups": {"P22"}, "fair": {"P23", "P29"}, "lead": {"P24"}, "back": {"P27"}, "nobody": {"P6"},
}

// Each history in testdata/bad is rejected by the checker that its name begins with,
// and by no other; its comment begins with the promise.
func TestBad(t *testing.T) {
	t.Parallel()
	count := make(map[string]int)
	for _, file := range files(t, "bad") {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		checker, _, _ := strings.Cut(name, "-")
		count[checker]++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := run(t, file)
			if len(found) == 0 {
				t.Fatalf("accepted: %s", comment(t, file))
			}
			for _, v := range found {
				t.Log(v.Checker, v.Promise, v.Text)
				if v.Checker != checker || !slices.Contains(promises[checker], v.Promise) {
					t.Errorf("rejected by %s for %s, should be by %s for %v", v.Checker, v.Promise, checker, promises[checker])
				}
				if v.Text == "" || len(v.Events) == 0 {
					t.Error("it does not say why")
				}
			}
			if says := comment(t, file); strings.HasPrefix(says, "P") && !strings.HasPrefix(says, found[0].Promise) {
				t.Errorf("rejected for %s: %s", found[0].Promise, says)
			}
		})
	}
	for checker := range promises {
		if count[checker] < 5 {
			t.Errorf("%d histories for checker %s, want 5 at least", count[checker], checker)
		}
	}
}

// Each history in testdata/good is accepted by all.
func TestGood(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "good") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			t.Parallel()
			for _, v := range run(t, file) {
				t.Errorf("%s: %s %s: %s", comment(t, file), v.Checker, v.Promise, v.Text)
			}
		})
	}
}

// The checker lock is quiet in Run where loss and tokens speak. It rejects by itself
// whatever they reject because two had the key at once.
func TestLockAgreesWithLoss(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"look-after-next", "one-nanosecond", "renewed-after-next", "frozen-and-woken", "for-update-late", "no-exception"} {
		events := load(t, filepath.Join("testdata", "bad", "loss-"+name+".jsonl"))
		if found := lock(newRound(events, Options{Spaces: spaces}).keys[0]); len(found) != 1 {
			t.Errorf("loss-%s: lock found %v", name, found)
		}
	}
}

func run(t *testing.T, file string) []Violation {
	t.Helper()
	return Run(load(t, file), Options{Spaces: spaces, Kept: 1000, Turn: 2000, Back: 1000, Patience: time.Minute})
}

func load(t *testing.T, file string) []history.Event {
	t.Helper()
	events, err := history.LoadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func files(t *testing.T, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("testdata", folder, "*.jsonl"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no histories in %s: %v", folder, err)
	}
	return list
}

// comment is what a history says of itself.
func comment(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "# "); ok {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	if len(lines) == 0 {
		t.Errorf("%s does not say what it is", file)
	}
	return strings.Join(lines, " ")
}
