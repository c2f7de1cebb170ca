package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompile: what the compiler refuses, in the package of a bug or in its tests, is
// refused, and nothing else.
func TestCompile(t *testing.T) {
	const source = "package a\n\nimport \"fmt\"\n\ntype T struct{ n int }\n\nfunc New() T {\n\treturn T{1}\n}\n\n" +
		"func (t T) String() string {\n\treturn fmt.Sprint(t.n)\n}\n\nfunc inner() int {\n\treturn 1\n}\n"
	folder := t.TempDir()
	for _, root := range []string{"from", "tree"} {
		for name, text := range map[string]string{
			"go.mod":        "module example.org/m\n\ngo 1.25\n",
			"a/a.go":        source,
			"a/in_test.go":  "package a\n\nfunc Inner() int { return inner() }\n",
			"a/out_test.go": "package a_test\n\nimport (\n\t\"example.org/m/a\"\n\t\"example.org/m/b\"\n)\n\nvar _ a.T = b.New()\nvar _ int = a.Inner()\nvar _ = a.New().String\n",
			"b/b.go":        "package b\n\nimport \"example.org/m/a\"\n\nfunc New() a.T { return a.New() }\n",
		} {
			file := filepath.Join(folder, root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	tree := &tree{from: filepath.Join(folder, "from"), dir: filepath.Join(folder, "tree")}
	var all []*mutation
	for _, c := range []struct{ name, old, bug, says string }{
		{"fine", "T{1}", "T{2}", ""},
		{"unknown", "T{1}", "T{m}", "undefined: m"},
		{"unused import", "fmt.Sprint(t.n)", `""`, "imported and not used"},
		{"for its tests", "func inner() int {", "func inner() byte {", "cannot use inner() (value of type byte) as int value"},
		{"outside", "String() string", "Text() string", "String undefined"},
		{"syntax", "T{1}", ")", "expected operand"},
		{"does not apply", "T{3}", "T{2}", "it does not apply"},
	} {
		was := source
		if !strings.Contains(was, c.old) { // the code is another now
			was = strings.Replace(was, "T{1}", c.old, 1)
		}
		diff := fmt.Sprintf("@@ -1,%[1]d +1,%[1]d @@\n", strings.Count(source, "\n"))
		for line := range strings.Lines(was) {
			if strings.Contains(line, c.old) {
				diff += "-" + line + "+" + strings.Replace(line, c.old, c.bug, 1)
			} else {
				diff += " " + line
			}
		}
		text := "Title: " + c.says + ".\nBug: b\nBreaks: P1\nTest: go test -run T .\n\ndiff --git a/a/a.go b/a/a.go\n--- a/a/a.go\n+++ b/a/a.go\n" + diff
		m, err := parse(c.name, text)
		if err != nil {
			t.Fatal(err)
		}
		m.file = filepath.Join(folder, c.name+".patch")
		if err := os.WriteFile(m.file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	errs, err := tree.compile(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		switch err, message := errs[m.name], strings.TrimSuffix(m.title, "."); {
		case message == "" && err != nil:
			t.Errorf("%s: %v", m.name, err)
		case message != "" && (err == nil || !strings.Contains(err.Error(), message)):
			t.Errorf("%s: %v, want %q", m.name, err, message)
		}
	}
}
