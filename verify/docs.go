package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The parts of docs/guarantees.md that are written here.
const (
	docsPage    = "guarantees.md"
	docsFaults  = "<!-- verify faults -->\n"
	docsResults = "<!-- verify results -->\n"
	docsEnd     = "<!-- end -->"
)

// cut finds a part of a page.
func cut(page, mark string) (before, part, after string, err error) {
	before, rest, begins := strings.Cut(page, mark)
	part, after, ends := strings.Cut(rest, docsEnd)
	if !begins || !ends {
		return "", "", "", fmt.Errorf("%s has no part between %q and %q", docsPage, strings.TrimSpace(mark), docsEnd)
	}
	return before + mark, part, docsEnd + after, nil
}

// document writes a part of the page in the folder docs anew.
func document(docs, mark, text string) error {
	name := filepath.Join(docs, docsPage)
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, _, after, err := cut(string(page), mark)
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(before+text+after), 0o644)
}
