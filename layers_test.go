package rowlock_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rowlock/rowlock"

// helpers know nothing of locks, or of the seam only: whoever needs them may import them.
var helpers = []string{
	"driver", "internal/clock", "internal/defaults", "internal/dsn", "internal/handshake", "internal/input",
	"internal/numbers", "internal/order", "internal/patience", "internal/queue", "internal/repeat", "internal/singleflight",
	"internal/split", "internal/unit", "internal/words", "internal/work",
}

// forTests are the packages that tests alone import.
var forTests = []string{"enginetest", "internal/docpage", "internal/misuse", "internal/testdb", "internal/testserver", "locktest", "mysql/internal/sqltest"}

type layer struct {
	folder string
	may    []string
}

// layers are the packages of docs/design.md's picture, and what each may import of this module beside the helpers.
// A folder stands for what is in it, but for folders in it that are named too; its own packages may import each other.
var layers = []layer{
	{"driver", []string{"-"}}, // nothing, not even the helpers
	{"internal/call", nil},
	{"internal/batch", []string{"internal/call"}},
	{"internal/undo", []string{"internal/call", "internal/logs"}},
	{"internal/logs", nil},
	{"internal/key", nil},
	{"internal/grant", []string{"internal/batch", "internal/call", "internal/logs", "internal/undo"}},
	{"internal/keys", []string{"internal/batch", "internal/call", "internal/grant", "internal/key", "internal/logs", "internal/undo"}},
	{"mysql/internal/doctor", []string{"doctor", "internal/latency", "mysql/internal/cluster", "mysql/internal/conn", "mysql/internal/row", "mysql/internal/schema"}},
	{"mysql/internal/schema", []string{"migrations", "mysql/internal/conn", "mysql/internal/row"}},
	{"mysql/internal/row", []string{"mysql/internal/conn"}},
	{"mysql/internal/share", []string{"mysql/internal/conn", "mysql/internal/row"}},
	{"mysql/internal/session", []string{"mysql/internal/conn", "mysql/internal/row", "mysql/internal/share"}},
	{"mysql/internal/guarded", []string{"", "internal/guards", "mysql/internal/callertx", "mysql/internal/conn", "mysql/internal/row", "mysql/internal/share"}},
	{"mysql/internal/locktx", []string{"", "mysql/internal/callertx", "mysql/internal/cluster", "mysql/internal/conn"}},
	{"mysql/internal", nil},
	{"mongo/internal/doctor", []string{"doctor", "internal/latency", "mongo/internal/command", "mongo/internal/document", "mongo/internal/schema"}},
	{"mongo/internal", nil},
	{"internal/guards", []string{""}},
	{"internal/latency", []string{"doctor"}},
	{"doctor", nil},
	{"", []string{"internal/call", "internal/grant", "internal/keys", "internal/logs"}},
}

// TestLayers: dependencies point down in the picture of docs/design.md.
func TestLayers(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		from := folder(names[0])
		if l, ok := layerOf(from); ok {
			seen[l.folder] = true
			may := l.may
			if !slices.Equal(may, []string{"-"}) {
				may = slices.Concat(may, helpers)
			}
			for _, name := range names[1:] {
				to := folder(name)
				beside, _ := layerOf(to)
				inside := l.folder != "" && beside.folder == l.folder
				if (name == module || strings.HasPrefix(name, module+"/")) && !inside && !slices.Contains(may, to) {
					t.Errorf("%s imports %s: see the picture in docs/design.md", names[0], name)
				}
			}
		}
		if slices.Contains(helpers, from) && from != "driver" {
			for _, name := range names[1:] {
				if to := folder(name); strings.HasPrefix(name, module) && !slices.Contains(helpers, to) {
					t.Errorf("%s imports %s: it is for those below the seam too", names[0], name)
				}
			}
		}
	}
	for _, l := range layers {
		if !seen[l.folder] {
			t.Errorf("no package is in %q", l.folder)
		}
	}
}

// layerOf is the layer that a folder belongs to.
func layerOf(folder string) (layer, bool) {
	for _, l := range layers {
		if folder == l.folder || l.folder != "" && strings.HasPrefix(folder, l.folder+"/") {
			return l, true
		}
	}
	return layer{}, false
}

// TestForTests: no program gets what only tests need. go list leaves out the imports of files with _test in
// their names.
func TestForTests(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		from := folder(names[0])
		if slices.Contains(forTests, from) {
			seen++
			continue
		}
		for _, name := range names[1:] {
			if slices.Contains(forTests, folder(name)) || name == "testing" {
				t.Errorf("%s imports %s, which is for tests: move what needs it into a file of tests", names[0], name)
			}
		}
	}
	if seen != len(forTests) {
		t.Errorf("%d of the packages %q are there", seen, forTests)
	}
}

// folder is where a package of this module is; empty: in the root.
func folder(name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, module), "/") }
