package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefresh: a patch whose surroundings have changed fits again and does the same; one
// whose bug has no place any more is named.
func TestRefresh(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const source = "package mysql\n\nfunc lock(now bool) {\n\ttake()\n\tdefer forget()\n}\n"
	for _, root := range []string{"from", "tree"} {
		write(root+"/mysql/lock.go", source)
	}
	tree := &tree{from: filepath.Join(folder, "from"), dir: filepath.Join(folder, "tree")}
	patch := func(name, text string) *mutation {
		m, err := parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		m.file = write(name+".patch", text)
		return m
	}
	moved := patch("moved", good) // its context is func lock() { and }
	gone := patch("gone", strings.ReplaceAll(good, "take()", "grab()"))
	err := tree.refresh(t.Context(), []*mutation{moved, gone})
	if err == nil || !strings.Contains(err.Error(), "1 of 2") || !strings.HasSuffix(err.Error(), " gone") {
		t.Errorf("%v, want one by hand: gone", err)
	}
	if text, _ := os.ReadFile(gone.file); !strings.Contains(string(text), "grab()") {
		t.Errorf("what does not fit was changed:\n%s", text)
	}
	text, _ := os.ReadFile(moved.file)
	if !strings.HasPrefix(string(text), good[:strings.Index(good, "diff --git")]) || !strings.Contains(string(text), " \tdefer forget()\n") {
		t.Errorf("it is not what it was, or not as the code is now:\n%s", text)
	}
	if again, _ := os.ReadFile(filepath.Join(tree.dir, "mysql/lock.go")); string(again) != source {
		t.Errorf("the bug was left in the copy:\n%s", again)
	}
	if err := tree.refresh(t.Context(), []*mutation{moved}); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := tree.apply(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if bug, _ := os.ReadFile(filepath.Join(tree.dir, "mysql/lock.go")); !strings.Contains(string(bug), "\treturn\n") || strings.Contains(string(bug), "take()") {
		t.Errorf("the bug is another:\n%s", bug)
	}
}
