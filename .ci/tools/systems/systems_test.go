package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module example.org/m\n\ngo 1.25\n",
		"a.go":            "package a\n\nimport \"os\"\n\nvar Name = os.Getenv(name)\n",
		"a_unix.go":       "//go:build unix\n\npackage a\n\nconst name = \"USER\"\n",
		"big_windows.go":  "package a\n\nconst name = \"USERNAME\"\n\nvar big int = 1 << 40\n",
		"a_linux_test.go": "package a\n\nfunc init() { println(missing) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	for system, good := range map[string]bool{
		"darwin/arm64": true, "windows/amd64": true,
		"plan9/amd64":   false, // the name is missing
		"windows/386":   false, // the number does not fit
		"linux/amd64":   false, // the test does not compile
		"nowhere/amd64": false,
	} {
		n, err := check(dir, system)
		if (n == 0 && err == nil) != good {
			t.Errorf("%s: %d errors, %v", system, n, err)
		}
	}
	if _, err := check(dir, "linux"); err == nil {
		t.Error("a system without a processor is taken")
	}
}
