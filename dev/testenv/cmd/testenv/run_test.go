//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the command: no build, and the race detector looks on.
func TestMain(m *testing.M) {
	if os.Getenv("TESTENV_BE_COMMAND") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command is testenv with these arguments and data folders below data.
func command(t *testing.T, data string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), "TESTENV_BE_COMMAND=1", "ROWLOCK_TEST_DATA="+data, "ROWLOCK_TEST_MONGO_URI=")
	return c
}

// TestRunHandsOn: the command sees the servers, and its exit code comes back.
func TestRunHandsOn(t *testing.T) {
	data := t.TempDir()
	c := command(t, data, "run", "--servers", "mongo", "--", "sh", "-c",
		`echo "$ROWLOCK_TEST_MONGO_URI $ROWLOCK_TEST_MUST_RUN"; test -x "$ROWLOCK_TEST_SERVER"; exit 7`)
	out, err := c.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("want exit code 7, got %v", err)
	}
	if s := string(out); !strings.HasPrefix(s, "mongodb://127.0.0.1:") || !strings.HasSuffix(s, " 1\n") {
		t.Errorf("the command saw %q", s)
	}
	if !strings.Contains(string(exit.Stderr), "testenv: mongo ") {
		t.Errorf("no line says what was started: %q", exit.Stderr)
	}
	nothingLeft(t, data)
}

// TestRunSignal: the signal reaches the command, which ends as it likes; then everything is removed.
func TestRunSignal(t *testing.T) {
	data := t.TempDir()
	c := command(t, data, "run", "--servers", "mongo", "--", "sh", "-c",
		`trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done`)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 9 {
		t.Errorf("want the command's own exit code 9, got %v", err)
	}
	nothingLeft(t, data)
}

// TestRunKilledCommand: the exit code of a command that a signal ended is the shell's.
func TestRunKilledCommand(t *testing.T) {
	data := t.TempDir()
	err := command(t, data, "run", "--servers", "mongo", "--", "sh", "-c", "kill -KILL $$").Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 137 {
		t.Errorf("want exit code 137, got %v", err)
	}
	nothingLeft(t, data)
}

// TestRunKilled: when testenv itself is killed outright, its servers end with it, and the next start removes the data.
func TestRunKilled(t *testing.T) {
	if os.Getenv("ROWLOCK_TEST_MODE") == "docker" {
		t.Skip("containers outlive a killed process; the reaper of testcontainers ends them")
	}
	data := t.TempDir()
	c := command(t, data, "serve", "mongo")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	noProcesses(t, data)
	if err := command(t, data, "serve", "mongo").Run(); err != nil { // its input ends at once
		t.Fatal(err)
	}
	nothingLeft(t, data)
}

// TestServe drives a server by lines, and removes it at the end of the input.
func TestServe(t *testing.T) {
	data := t.TempDir()
	c := command(t, data, "serve", "mongo")
	c.Stdin = strings.NewReader("pause\nresume\nkill\nrestart\njump\npause x\n")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[0], `{"dsn":"mongodb://127.0.0.1:`) {
		t.Fatalf("unexpected output:\n%s", out)
	}
	for i, want := range []string{"ok", "ok", "ok", "ok", "error: unknown word", "error: \"x\" is no member"} {
		if !strings.HasPrefix(lines[i+1], want) {
			t.Errorf("answer %d is %q, want %q", i+1, lines[i+1], want)
		}
	}
	nothingLeft(t, data)
}

// nothingLeft looks for files below data and for processes that work there.
func nothingLeft(t *testing.T, data string) {
	t.Helper()
	if left, _ := os.ReadDir(data); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	noProcesses(t, data)
}

func noProcesses(t *testing.T, data string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := processesOf(data)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running: %v", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// processesOf lists the command lines, as Linux shows them, that name the folder.
func processesOf(folder string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(folder)) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}
