package rowlock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// read is a file of the repository, as text.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are those at the top, those of the adapters, and what is in docs.
func pages(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "adapters/cron/README.md", "adapters/gocron/README.md"}
	for _, folder := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(folder)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

var (
	goTest   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	aCase    = regexp.MustCompile(`name: "((?:P\d+|Store|Hold)_\w+)"`)
	testName = regexp.MustCompile("`(Test[A-Z]\\w+|(?:P\\d+|Store|Hold)_\\w+)`|-run '?(Test[A-Z]\\w*(?:\\\\\\|Test[A-Z]\\w*)*)")
)

// TestDocsNameRealTests: every test that the pages name exists: as a function, or as a case of the suite.
func TestDocsNameRealTests(t *testing.T) {
	exists := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			for _, m := range goTest.FindAllStringSubmatch(read(t, path), -1) {
				exists[m[1]] = true
			}
		case filepath.Dir(path) == "locktest" && strings.HasSuffix(path, ".go"):
			for _, m := range aCase.FindAllStringSubmatch(read(t, path), -1) {
				exists[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	prefix := func(name string) bool { // -run takes the beginning of a name
		for e := range exists {
			if strings.HasPrefix(e, name) {
				return true
			}
		}
		return false
	}
	named := 0
	for _, page := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(read(t, page), -1) {
			for _, name := range strings.Split(m[1]+m[2], `\|`) {
				named++
				if !exists[name] && (m[1] != "" || !prefix(name)) {
					t.Errorf("%s names %s, which does not exist", page, name)
				}
			}
		}
	}
	if named < 80 {
		t.Errorf("only %d names found: does the search still work?", named)
	}
	promises := read(t, "docs/guarantees.md")
	for p := 1; p <= 29; p++ {
		if !strings.Contains(promises, fmt.Sprintf("\n| P%d |", p)) {
			t.Errorf("docs/guarantees.md has no row of P%d", p)
		}
		if !prefix(fmt.Sprintf("TestP%d_", p)) {
			t.Errorf("no test is named after P%d", p)
		}
	}
}

var goFile = regexp.MustCompile("`((?:[a-z_0-9]+/)+[a-z_0-9]+\\.go)`")

// TestDocsNameRealFiles: every Go file that the pages name with its folder exists.
func TestDocsNameRealFiles(t *testing.T) {
	named := 0
	for _, page := range pages(t) {
		for _, m := range goFile.FindAllStringSubmatch(read(t, page), -1) {
			named++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names a file: %v", page, err)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d names found: does the search still work?", named)
	}
}

var logCall = regexp.MustCompile(`(?:\.log\.(Warn|Error|Info)(?:Context)?\((?:\w+, )?|slog\.Level(Warn|Error|Info), )"([^"]+)"(?:, "([^"]+)"\})?`)

// TestDocsLogMessages: docs/operations.md says for each message of level Warn and Error what to do, and for no other.
func TestDocsLogMessages(t *testing.T) {
	var files []string
	for _, folder := range []string{"*.go", "internal/*/*.go"} {
		found, err := filepath.Glob(folder)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	page := read(t, "docs/operations.md")
	sent := make(map[string]bool)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range logCall.FindAllStringSubmatch(read(t, f), -1) {
			rows := []string{"| " + m[1] + m[2] + " | `" + m[3] + "` |"}
			if m[4] != "" { // that a kind of failure is over
				rows = append(rows, "| Info | `"+m[4]+"` |")
			}
			for _, row := range rows {
				sent[row] = true
				if !strings.Contains(page, row) {
					t.Errorf("%s logs what the page does not have: %s", f, row)
				}
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (?:Warn|Error|Info) \\| `[^`]+` \\|").FindAllString(page, -1) {
		if !sent[row] {
			t.Errorf("nothing logs what the page has: %s", row)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)|(?:src|srcset)="([^"]*)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocsLinks: what the pages link to in the repository is there, headings included.
func TestDocsLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1]+m[3], "://") {
				continue
			}
			target := page
			if m[1]+m[3] != "" {
				target = filepath.Join(filepath.Dir(page), m[1]+m[3])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if m[2] != "" && !anchors(t, target)[m[2][1:]] {
				t.Errorf("%s: %s has no heading %s", page, target, m[2])
			}
		}
	}
}

// TestPicturesOfTwoThemes: a picture for dark pages has a twin for light ones, and pages show both or neither. Those that
// are drawn by hand differ in nothing but their colours.
func TestPicturesOfTwoThemes(t *testing.T) {
	dark, err := filepath.Glob("docs/img/*-dark.svg")
	if err != nil || len(dark) < 10 {
		t.Fatalf("%d pictures, %v", len(dark), err)
	}
	style := regexp.MustCompile(`(?s)<style>.*</style>`)
	for _, file := range dark {
		light := strings.TrimSuffix(file, "-dark.svg") + "-light.svg"
		if strings.HasSuffix(file, "lease-dark.svg") {
			light = "docs/img/lease.svg"
		}
		a, b := read(t, light), read(t, file)
		if strings.Contains(b, "<style>") && style.ReplaceAllString(a, "") != style.ReplaceAllString(b, "") {
			t.Errorf("%s and %s differ in more than colours", light, file)
		}
		a, b = filepath.Base(light), filepath.Base(file)
		for _, page := range pages(t) {
			if text := read(t, page); strings.Contains(text, `src="`) && strings.Count(text, a+`"`) < strings.Count(text, b+`"`) {
				t.Errorf("%s shows %s and not %s", page, b, a)
			}
		}
	}
}

// anchors are the headings of a page as links name them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	slugs := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(read(t, page), -1) {
		slugs[strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return slugs
}

// literals are what the README has where a tested example asks the environment for its server.
var literals = strings.NewReplacer(
	`os.Getenv("ROWLOCK_TEST_MYSQL_DSN")`, `"app:secret@tcp(db:3306)/app"`,
	`os.Getenv("ROWLOCK_TEST_MONGO_URI")`, `"mongodb://db:27017/?replicaSet=rs0"`,
)

var (
	anExample  = regexp.MustCompile("(?m)^<!-- example: (\\S+) (\\w+) -->\n```go\n((?s:.*?))^```$")
	outputNote = regexp.MustCompile(`(?m)^\s*// (Unordered output|Output):(?s:.*)`)
)

// TestDocumentedExamples: a Go block under the mark <!-- example: FILE FUNC --> is the body of that function, which is
// run as a test, without its tab and its expected output, and with the address of a server where it asks the environment.
func TestDocumentedExamples(t *testing.T) {
	compared := 0
	for _, page := range pages(t) {
		text := read(t, page)
		blocks := anExample.FindAllStringSubmatch(text, -1)
		if n := strings.Count(text, "<!-- example: "); n != len(blocks) {
			t.Fatalf("%s: %d marks, %d of them before a Go block", page, n, len(blocks))
		}
		for _, b := range blocks {
			compared++
			if want := literals.Replace(body(t, b[1], b[2])); b[3] != want {
				t.Errorf("%s has another body of %s in %s. It should be:\n%s", page, b[2], b[1], want)
			}
		}
	}
	if compared < 20 {
		t.Errorf("only %d blocks found: does the search still work?", compared)
	}
}

var wholeProgram = regexp.MustCompile("(?m)^```go\n(package main\n(?s:.*?))^```$")

// TestDocumentedPrograms: programs that the pages show as a whole compile. (The stores' tests run them.)
func TestDocumentedPrograms(t *testing.T) {
	var programs []string
	for _, page := range pages(t) {
		for _, m := range wholeProgram.FindAllStringSubmatch(read(t, page), -1) {
			programs = append(programs, m[1])
		}
	}
	if len(programs) < 4 {
		t.Errorf("only %d programs found: does the search still work?", len(programs))
	}
	for i, text := range programs {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("program%d.go", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, text)
		}
	}
}

// TestReadmeIsShort: a page that people read to its end.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > 170 {
		t.Errorf("README.md has %d lines, at most 170: move what is for few readers to docs", n)
	}
}

var goBlock = regexp.MustCompile("(?m)^```go\n((?s:.*?))^```$")

// TestTestingGuide: its Go blocks are parts of examples that run.
func TestTestingGuide(t *testing.T) {
	source := read(t, "examples/guarded/example_test.go") + read(t, "memory/example_test.go")
	inside := strings.ReplaceAll(source, "\n\t", "\n")
	blocks := goBlock.FindAllStringSubmatch(read(t, "docs/testing.md"), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(source, b[1]) && !strings.Contains(inside, b[1]) {
			t.Errorf("not in the example:\n%s", b[1])
		}
	}
}

// body is that of a function, without its first tab and its expected output.
func body(t *testing.T, file, name string) string {
	t.Helper()
	text := read(t, file)
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != name || f.Recv != nil {
			continue
		}
		inside := text[set.Position(f.Body.Lbrace).Offset+1 : set.Position(f.Body.Rbrace).Offset]
		inside = strings.Trim(outputNote.ReplaceAllString(inside, ""), "\n") + "\n"
		return strings.ReplaceAll(strings.TrimPrefix(inside, "\t"), "\n\t", "\n")
	}
	t.Fatalf("%s has no function %s", file, name)
	return ""
}
