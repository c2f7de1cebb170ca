package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// licencesIn fails the test unless the licence of each module in a program is beside it.
func licencesIn(t *testing.T, folder, program string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "rowlock-licences.txt"))
	must(t, err)
	info, err := buildinfo.ReadFile(program)
	must(t, err)
	if len(info.Deps) < 10 {
		t.Fatalf("only %d modules in it", len(info.Deps))
	}
	for _, m := range info.Deps {
		name := m.Path + " " + m.Version
		if m.Replace != nil || strings.HasPrefix(m.Path, "github.com/rowlock/rowlock") {
			name = "github.com/rowlock/rowlock"
		}
		if !strings.Contains(string(text), "\n==== "+name+": ") {
			t.Errorf("no licence of %s", name)
		}
	}
	for _, words := range []string{"The Go Authors", "Mozilla Public License", "Apache License"} { // Go's, the driver's for MySQL, that for MongoDB
		if !strings.Contains(string(text), words) {
			t.Errorf("no licence has %q", words)
		}
	}
}

// installed installs a package with dpkg below a folder, and runs the program from there.
func installed(t *testing.T, file string) {
	t.Helper()
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg/updates"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg/info"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	dpkg := func(args ...string) string {
		out, err := exec.Command("dpkg", append([]string{"--root=" + root, "--force-not-root", "--force-bad-path", "--log=" + filepath.Join(root, "log")}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	dpkg("--install", file)
	if listed := dpkg("--listfiles", "rowlock"); !strings.Contains(listed, "/usr/share/doc/rowlock/copyright\n") {
		t.Errorf("it has\n%s", listed)
	}
	if out, err := exec.Command(filepath.Join(root, "usr/bin/rowlock"), "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "rowlock ") {
		t.Errorf("%v\n%s", err, out)
	}
	dpkg("--purge", "rowlock")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/rowlock")); !os.IsNotExist(err) {
		t.Errorf("after it was removed: %v", err)
	}
}
