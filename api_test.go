package rowlock_test

import (
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// published are the folders of the packages that users import, and the names of their lists in testdata/api.
var published = map[string]string{
	".": "rowlock", "mysql": "mysqllock", "mongo": "mongolock", "memory": "memory", "driver": "driver", "locktest": "locktest",
	"fencing": "fencing", "migrations": "migrations", "adapters/gocron": "gocronlock", "adapters/cron": "cronlock",
	"doctor": "doctor", "ui": "ui", "adapters/otel": "otelrowlock", "adapters/prom": "promrowlock",
}

// TestExportedNames: what users can name is what testdata/api says, so that nobody changes it without seeing so. A line that
// is gone or changed breaks programs: docs/versions.md says when that is allowed. ROWLOCK_UPDATE_API=1 writes the lists.
func TestExportedNames(t *testing.T) {
	for folder, name := range published {
		golden := filepath.Join("testdata", "api", name+".txt")
		names := exportedNames(t, folder)
		if len(names) == 0 {
			t.Errorf("%s: no names found", folder)
		}
		text := strings.Join(names, "\n") + "\n"
		if os.Getenv("ROWLOCK_UPDATE_API") != "" {
			if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want := strings.Split(strings.TrimSpace(read(t, golden)), "\n")
		for _, n := range want {
			if !slices.Contains(names, n) {
				t.Errorf("%s: gone or changed, which breaks programs: %s", golden, n)
			}
		}
		for _, n := range names {
			if !slices.Contains(want, n) {
				t.Errorf("%s: new, so add it by ROWLOCK_UPDATE_API=1 go test -run TestExportedNames . : %s", golden, n)
			}
		}
	}
}

// TestPublishedPackages: every package that is not internal, a command or a tool has a list.
func TestPublishedPackages(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	adapters, err2 := filepath.Glob("adapters/*/*.go")
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	apart := []string{"examples", "observability"} // modules that are not published, and whose packages nobody imports
	for _, f := range append(files, adapters...) {
		folder := filepath.Dir(f)
		if published[folder] == "" && !slices.Contains(apart, folder) && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("%s: its package is in none of the lists of testdata/api", f)
		}
	}
}

// exportedNames are the lines of a package: each exported name with its type, in order.
func exportedNames(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var l lister
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			l.decl(t, d)
		}
	}
	slices.Sort(l.lines)
	return slices.Compact(l.lines)
}

// lister collects lines.
type lister struct{ lines []string }

func (l *lister) add(parts ...string) { l.lines = append(l.lines, strings.Join(parts, "")) }

func (l *lister) decl(t *testing.T, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		receiver := ""
		if d.Recv != nil {
			receiver = source(t, d.Recv.List[0].Type)
		}
		if d.Name.IsExported() && (receiver == "" || ast.IsExported(strings.TrimPrefix(receiver, "*"))) {
			signature := strings.TrimPrefix(source(t, d.Type), "func")
			if receiver != "" {
				receiver = "(" + receiver + ") "
			}
			l.add("func ", receiver, d.Name.Name, signature)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					l.typ(t, s)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() {
						l.add(d.Tok.String(), " ", n.Name)
					}
				}
			}
		}
	}
}

func (l *lister) typ(t *testing.T, s *ast.TypeSpec) {
	name := s.Name.Name
	switch u := s.Type.(type) {
	case *ast.StructType:
		l.add("type ", name, " struct")
		for _, f := range u.Fields.List {
			for _, n := range f.Names {
				if n.IsExported() {
					l.add("field ", name, ".", n.Name, " ", source(t, f.Type))
				}
			}
			if len(f.Names) == 0 {
				l.add("field ", name, " embeds ", source(t, f.Type))
			}
		}
	case *ast.InterfaceType:
		l.add("type ", name, " interface")
		for _, m := range u.Methods.List {
			for _, n := range m.Names {
				l.add("method ", name, ".", n.Name, strings.TrimPrefix(source(t, m.Type), "func"))
			}
			if len(m.Names) == 0 {
				l.add("method ", name, " embeds ", source(t, m.Type))
			}
		}
	default:
		is := " "
		if s.Assign.IsValid() {
			is = " = "
		}
		l.add("type ", name, is, source(t, s.Type))
	}
}

// source is a node as one line of Go.
func source(t *testing.T, node ast.Node) string {
	t.Helper()
	var b strings.Builder
	if err := format.Node(&b, token.NewFileSet(), node); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
