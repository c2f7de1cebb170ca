package rowlock_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var codeBlock = regexp.MustCompile("(?m)^```(go|yaml)\n((?s:.*?))^```$")

// TestGuides: each block of Go and YAML in the guides is a part of a test or of an example, and so it compiles, or is a whole
// program, which TestDocumentedPrograms compiles. It may have lost tabs at the beginning of its lines, and may have the
// address of a server where the example asks the environment.
func TestGuides(t *testing.T) {
	sources := examplesAndTests(t)
	guides, err := filepath.Glob("docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(guides, "adapters/cron/README.md") {
		for _, b := range codeBlock.FindAllStringSubmatch(read(t, page), -1) {
			if strings.HasPrefix(b[2], "package main\n") || b[1] == "yaml" && strings.HasSuffix(page, "jobs.md") {
				continue // cmd/rowlock runs the lines of that guide
			}
			found++
			if !slices.ContainsFunc(sources, func(source string) bool { return strings.Contains(source, b[2]) }) {
				t.Errorf("%s: no part of a test or example:\n%s", page, b[2])
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d blocks found: does the search still work?", found)
	}
}

// examplesAndTests are the texts in which TestGuides searches: each as it is, and with one, two and three tabs less.
func examplesAndTests(t *testing.T) []string {
	var sources []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "examples"+string(filepath.Separator)):
			return nil
		}
		text := literals.Replace(read(t, path))
		for tabs := range 4 {
			sources = append(sources, strings.ReplaceAll(text, "\n"+strings.Repeat("\t", tabs), "\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

var exportedName = regexp.MustCompile(`rowlock\.([A-Z]\w+)`)

// TestComingFrom: what docs/guides/coming-from.md says to use exists.
func TestComingFrom(t *testing.T) {
	exported := map[string]bool{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	pkg, err := doc.NewFromFiles(set, files, "github.com/rowlock/rowlock")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range pkg.Funcs {
		exported[f.Name] = true
	}
	for _, v := range append(pkg.Vars, pkg.Consts...) {
		for _, name := range v.Names {
			exported[name] = true
		}
	}
	methods := map[string]bool{}
	for _, typ := range pkg.Types {
		exported[typ.Name] = true
		for _, f := range typ.Funcs {
			exported[f.Name] = true
		}
		for _, f := range typ.Methods {
			methods[typ.Name+"."+f.Name] = true
		}
	}
	page := read(t, "docs/guides/coming-from.md")
	named := exportedName.FindAllStringSubmatch(page, -1)
	if len(named) < 20 {
		t.Errorf("only %d names found: does the search still work?", len(named))
	}
	for _, m := range named {
		if !exported[m[1]] {
			t.Errorf("the page names rowlock.%s, which does not exist", m[1])
		}
	}
	for variable, typ := range map[string]string{"locks": "Client", "lease": "Lease"} {
		for _, m := range regexp.MustCompile("\\b"+variable+"\\.([A-Z]\\w+)").FindAllStringSubmatch(page, -1) {
			if !methods[typ+"."+m[1]] {
				t.Errorf("the page names %s.%s, which %s does not have", variable, m[1], typ)
			}
		}
	}
}
