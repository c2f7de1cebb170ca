package main

import (
	"os"
	"testing"

	"github.com/rowlock/rowlock/dev/verify/fault"
)

// TestDocs: docs/quality/rounds.md has the table of faults that there are.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/" + docsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _, err := cut(docsPage, string(page), docsFaults)
	if err != nil {
		t.Fatal(err)
	}
	if table != fault.Markdown() {
		t.Error("the table of faults is another: make verify ARGS='faults -docs docs'")
	}
}
