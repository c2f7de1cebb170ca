package rowlock_test

import (
	"strings"
	"testing"
)

// TestGroupsGuide: the Go blocks of docs/guides/groups.md are parts of examples that run.
func TestGroupsGuide(t *testing.T) {
	source := read(t, "groups_example_test.go")
	inside := strings.ReplaceAll(source, "\n\t", "\n")
	blocks := goBlock.FindAllStringSubmatch(read(t, "docs/guides/groups.md"), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(source, b[1]) && !strings.Contains(inside, b[1]) {
			t.Errorf("no part of the examples:\n%s", b[1])
		}
	}
}
