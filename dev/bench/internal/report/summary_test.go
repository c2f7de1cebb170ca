package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

func measured() *result.File {
	f := &result.File{Rounds: 1}
	f.Add(result.At{Number: "N1", Server: lab.MySQL, Side: side.Version}, "p50 ms", 1.5)
	f.Add(result.At{Number: "N1", Server: lab.MySQL, Side: side.Version}, "statements/cycle", 2)
	f.Add(result.At{Number: "N2", Server: lab.MySQL, Side: side.Version, Case: "8 workers"}, "cycles/s", 4000)
	f.Add(result.At{Number: "N2", Server: lab.MySQL, Side: side.Version, Case: "128 workers"}, "× floor", 2.5)
	f.Add(result.At{Number: "N2", Server: lab.MariaDB, Side: side.Version, Case: "128 workers"}, "× floor", 3.9)
	f.Add(result.At{Number: "N1", Server: "etcd", Side: side.Etcd}, "p50 ms", 0.9)
	return f
}

// TestSummaryTable: a line for each lock that was measured, and what was not is empty.
func TestSummaryTable(t *testing.T) {
	rows := SummaryTable(measured()).Rows
	want := [][]string{
		{"mysql", "version", "disk", "1.50", "", "4000", "", "", "", "", "", "2", ""},
		{"etcd", "etcd concurrency", "disk", "0.90", "", "", "", "", "", "", "", "", ""},
	}
	if !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	for line := range strings.Lines(SummaryTable(measured()).Text()) {
		if n := len([]rune(line)); n > 160 {
			t.Errorf("a line of %d characters fits no screen: %s", n, line)
		}
	}
}

// TestMissedTable: one line for what is judged alike, with who missed it.
func TestMissedTable(t *testing.T) {
	var found [][]string
	for _, r := range MissedTable(measured()).Rows {
		if r[0] == "N2" {
			found = append(found, r)
		}
	}
	want := [][]string{{"N2", "128 workers", "× floor", "≥ 3.5", "1 of 2", "mysql version 2.50"}}
	if !slices.EqualFunc(found, want, slices.Equal) {
		t.Errorf("rows %q, want %q", found, want)
	}
}

// TestDocs: the page gets the summary, each number's lines go to a file of their own, and a run
// of some numbers leaves the summary as it is.
func TestDocs(t *testing.T) {
	folder := t.TempDir()
	page, results := filepath.Join(folder, "page.md"), filepath.Join(folder, "results")
	text := "a\n<!-- bench: summary -->\nold\n<!-- end -->\nb\n<!-- bench: N1 -->\n<!-- end -->\n<!-- bench: N2 -->\nkept\n<!-- end -->\n"
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := measured()
	f.Measurements = slices.DeleteFunc(f.Measurements, func(m *result.Measurement) bool { return m.Number == "N2" })
	if err := Docs(f, page, results, nil, false); err != nil {
		t.Fatal(err)
	}
	if s := read(page); !strings.Contains(s, "\nold\n") || !strings.Contains(s, "\nkept\n") || !strings.Contains(s, "[All 2 lines](../dev/bench/results/N1.md)") {
		t.Errorf("the page after a run of N1:\n%s", s)
	}
	if s := read(filepath.Join(results, "N1.md")); !strings.Contains(s, "| mysql | version | 1.50 | 2 |") {
		t.Errorf("N1.md:\n%s", s)
	}
	if err := Docs(f, page, results, nil, true); err != nil {
		t.Fatal(err)
	}
	if s := read(page); strings.Contains(s, "\nold\n") || !strings.Contains(s, "| mysql | version | disk | 1.50 |") || !strings.Contains(s, "* *takeover*: ") {
		t.Errorf("the page after a whole run:\n%s", s)
	}
}
