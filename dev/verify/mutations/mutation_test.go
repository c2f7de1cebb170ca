package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const good = `Title: a lock that locks nothing
Bug: it answers granted
  to everybody
Breaks: P1, P4
Test: go test -run 'TestA/b|TestC' ./mysql
Test: go test -run TestD -race -count=3 .
Short: yes

diff --git a/mysql/lock.go b/mysql/lock.go
--- a/mysql/lock.go
+++ b/mysql/lock.go
@@ -1,3 +1,3 @@
 func lock() {
-	take()
+	return
 }
`

func TestParse(t *testing.T) {
	m, err := parse("m", good)
	if err != nil {
		t.Fatal(err)
	}
	if m.title != "a lock that locks nothing" || m.bug != "it answers granted to everybody" || !m.short {
		t.Errorf("%+v", m)
	}
	if !slices.Equal(m.breaks, []string{"P1", "P4"}) || !slices.Equal(m.paths, []string{"mysql/lock.go"}) || !slices.Equal(m.packages(), []string{"./mysql"}) {
		t.Errorf("%+v", m)
	}
	var commands []string
	for _, c := range m.tests {
		commands = append(commands, c.String())
	}
	want := []string{"go test -run 'TestA/b|TestC' ./mysql", "go test -run 'TestD' -race -count=3 ."}
	if !slices.Equal(commands, want) {
		t.Errorf("%q, want %q", commands, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, replace := range map[string][2]string{
		"no title":           {"Title: a lock that locks nothing", ""},
		"no test":            {"Test: ", "Tests: "},
		"no such promise":    {"P4", "P30"},
		"no promise":         {"Breaks: P1, P4\n", ""},
		"an unknown line":    {"Short", "Quick"},
		"a test of no form":  {"go test -run TestD", "make test"},
		"no diff":            {"diff --git", "index"},
		"a diff of tests":    {"lock.go", "lock_test.go"},
		"a diff of locktest": {"b/mysql/lock.go", "b/locktest/run.go"},
	} {
		if _, err := parse("m", strings.ReplaceAll(good, replace[0], replace[1])); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPatches: the patches can be read, there are many, and the page has a row for
// each and no other.
func TestPatches(t *testing.T) {
	all, err := load("patches", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 24 {
		t.Errorf("%d patches", len(all))
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "quality", "mutations.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, short := 0, 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			rows++
		}
	}
	for _, m := range all {
		if !strings.Contains(string(page), "\n| `"+m.name+"` | "+m.title+" |") {
			t.Errorf("docs/quality/mutations.md has no row of %s", m.name)
		}
		if m.short {
			short++
		}
	}
	if rows != len(all) {
		t.Errorf("docs/quality/mutations.md has %d rows for %d patches", rows, len(all))
	}
	if short < 5 {
		t.Errorf("%d patches say Short", short)
	}
}
