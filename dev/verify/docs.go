package main

import (
	"fmt"
	"os"
	"strings"
)

// The parts of pages that are written here.
const (
	docsPage    = "quality/rounds.md"
	docsDetails = "quality/faults.md"
	docsFaults  = "<!-- verify faults -->\n"
	docsResults = "<!-- verify results -->\n"
	docsEnd     = "<!-- end -->"
)

// cut finds a part of a page.
func cut(name, page, mark string) (before, part, after string, err error) {
	before, rest, begins := strings.Cut(page, mark)
	part, after, ends := strings.Cut(rest, docsEnd)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("%s has no part between %q and %q", name, strings.TrimSpace(mark), docsEnd)
	}
	return before + mark, part, docsEnd + after, nil
}

// document writes a part of a page anew.
func document(name, mark, text string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, _, after, err := cut(name, string(page), mark)
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(before+text+after), 0o644)
}
