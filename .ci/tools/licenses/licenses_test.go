package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCollect: a program of the standard library alone has the licence of Go, and this repository's.
func TestCollect(t *testing.T) {
	found, err := collect(".", []string{"linux/amd64", "windows/arm64"})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || len(found["github.com/rowlock/rowlock"]) != 1 || len(found["Go"]) < 1 {
		t.Errorf("%v", found)
	}
	var text strings.Builder
	if err := found.print(&text); err != nil || !strings.Contains(text.String(), "The Go Authors") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestNoLicence: a module without a licence is an error, and so is a platform that is none.
func TestNoLicence(t *testing.T) {
	p := pkg{Dir: filepath.Join(t.TempDir()), Module: &struct{ Path, Version, Dir string }{"example.com/m", "v1.0.0", ""}}
	p.Module.Dir = p.Dir
	found := make(licences)
	if err := found.add(p); err != nil || len(found["example.com/m v1.0.0"]) != 0 {
		t.Errorf("%v: %v", err, found)
	}
	if _, err := collect(".", []string{"linux"}); err == nil {
		t.Error("linux is a platform")
	}
}
