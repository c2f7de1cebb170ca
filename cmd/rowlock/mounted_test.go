package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMounted: a program has the commands among its own, with its own store; run and its guard work there.
func TestMounted(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "mounted.exe")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/mounted").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, c := range []struct {
		line, out string
		code      int
	}{
		{"tools locks run key -- echo hello", "hello\nclosed\n", 0},
		{"tools locks run key -- sh -c exit\t3", "closed\n", 3},
		{"tools locks ls", "KEY  STATE  HOLDERS  OWNER  AGE  LEFT  TOKEN  WAITING\nclosed\n", 0},
		{"tools locks migrate", "mounted: the statements are not known here: use --up\n", 64},
		{"tools locks runs key", "mounted: the database: rowlock: not supported: this store has no marks\n", 78},
		{"tools locks ls --db x", "unknown flag: --db", 64},
	} {
		args := strings.Split(c.line, " ")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\t", " ")
		}
		out, err := exec.Command(program, args...).CombinedOutput()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else {
			must(t, err)
		}
		if code != c.code || !strings.Contains(string(out), c.out) {
			t.Errorf("%s: exit code %d\n%s", c.line, code, out)
		}
	}
}
