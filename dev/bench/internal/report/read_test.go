package report

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRead: the tables of the repository, read and made again, are the same.
func TestRead(t *testing.T) {
	const folder = "../../results"
	f, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Later) < 12 {
		t.Errorf("%d numbers were read", len(f.Later))
	}
	for name := range f.Later {
		text, err := os.ReadFile(filepath.Join(folder, name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(text), "| server |")
		rows := map[string]bool{}
		for line := range strings.Lines(Of(f, name).Markdown()) {
			rows[sorted(line)] = true
		}
		for line := range strings.Lines("| server |" + table) {
			if !rows[sorted(line)] && !strings.HasPrefix(line, "| ---") {
				t.Errorf("%s: not made again: %s", name, line)
			}
		}
	}
}

// sorted is a line with its cells in an order of their own, because that of columns may differ, and without digits that
// say nothing: 1.00 is read as 1, and 2 (2–2) as 2.
func sorted(line string) string {
	line = regexp.MustCompile(`(\d)\.0+\b`).ReplaceAllString(line, "$1")
	cells := strings.Split(line, "|")
	for i, cell := range cells {
		if m := regexp.MustCompile(`^ (\S+) \((\S+)–(\S+)\) $`).FindStringSubmatch(cell); m != nil && m[2] == m[3] {
			cells[i] = " " + m[2] + " "
		}
	}
	slices.Sort(cells)
	return strings.Join(cells, "|")
}

// TestReadSays: what is no value is an error.
func TestReadSays(t *testing.T) {
	folder := t.TempDir()
	text, err := os.ReadFile("../../results/N9.md")
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Replace(string(text), "4.76 (4.10–5.14)", "4.76 (4.10)", 1)
	if err := os.WriteFile(filepath.Join(folder, "N9.md"), []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(folder); err == nil || !strings.Contains(err.Error(), "4.76 (4.10)") {
		t.Errorf("%v", err)
	}
}
