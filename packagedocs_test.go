package rowlock_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var nameOfPackage = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`)

// TestPackageComments: each package that users import begins with code, before its first heading, and the names of our
// packages in that code exist.
func TestPackageComments(t *testing.T) {
	api := make(map[string]string) // by the package's name
	for _, name := range published {
		api[name] = read(t, filepath.Join("testdata", "api", name+".txt"))
	}
	for folder, name := range published {
		use, _, _ := strings.Cut(packageComment(t, folder), "\n# ")
		code := slices.DeleteFunc(strings.Split(use, "\n"), func(line string) bool { return !strings.HasPrefix(line, "\t") })
		if len(code) < 4 {
			t.Errorf("package %s: %d lines of code before the first heading of its comment, want some that show its use", name, len(code))
		}
		for _, m := range nameOfPackage.FindAllStringSubmatch(strings.Join(code, "\n"), -1) {
			if list, ours := api[m[1]]; ours && !regexp.MustCompile(`\b`+m[2]+`\b`).MatchString(list) {
				t.Errorf("package %s: its comment names %s, which does not exist", name, m[0])
			}
		}
	}
}

// packageComment returns the comment of the package in a folder, without slashes.
func packageComment(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			return f.Doc.Text()
		}
	}
	t.Fatalf("%s: no file has a comment of the package", folder)
	return ""
}
