package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// fullPipe is a pipe that takes no more: nobody reads it.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	must(t, syscall.Pipe2(ends[:], syscall.O_CLOEXEC))
	t.Cleanup(func() { _ = syscall.Close(ends[0]) })
	must(t, syscall.SetNonblock(ends[1], true))
	for _, size := range []int{4096, 1} { // a page that has room for less than the first takes the second
		for {
			_, err := syscall.Write(ends[1], make([]byte, size))
			if errors.Is(err, syscall.EAGAIN) {
				break
			}
			must(t, err)
		}
	}
	must(t, syscall.SetNonblock(ends[1], false))
	file := os.NewFile(uintptr(ends[1]), "full")
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// TestP28_FullStderr: a stderr that takes nothing keeps neither the guard nor the run from ending the command, nor the run
// from its own end.
func TestP28_FullStderr(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		end   func(t *testing.T, p place, w *witness)
		exit  int
	}{
		{name: "run killed", exit: -1, end: func(t *testing.T, _ place, w *witness) {
			must(t, syscall.Kill(w.pids["run"], syscall.SIGKILL))
		}},
		{name: "run asked to end", flags: []string{"-v"}, exit: 143, end: func(t *testing.T, _ place, w *witness) {
			must(t, syscall.Kill(w.pids["run"], syscall.SIGTERM))
		}},
		{name: "lease lost", flags: []string{"-v", "--on-lost", "kill"}, exit: 79, end: func(t *testing.T, p place, w *witness) {
			_, err := p.store.ForceRelease(t.Context(), "k")
			must(t, err)
		}},
		{name: "guard killed", flags: []string{"-v"}, exit: 137, end: func(t *testing.T, _ place, w *witness) {
			must(t, syscall.Kill(w.pids["guard"], syscall.SIGKILL))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
			w := startTreeTo(t, fullPipe(t), p, "k", append(c.flags, "--ttl", "6s", "--kill-after", "1s", "--leftovers", "kill")...)
			c.end(t, p, w)
			w.wait()
			_ = w.cmd.Wait()
			if got := w.cmd.ProcessState.ExitCode(); got != c.exit {
				t.Errorf("exit code %d, want %d", got, c.exit)
			}
		})
	}
}

// TestNobodyReadsStderr: a run whose messages nobody reads goes on, and so does its command, for which
// SIGPIPE is as ever.
func TestNobodyReadsStderr(t *testing.T) {
	t.Parallel()
	p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
	read, write, err := os.Pipe()
	must(t, err)
	must(t, read.Close())
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "run", "-v", "--ttl", "3s", "k", "--", "sh", "-c", "grep SigIgn /proc/self/status; exit 7")
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = p.environment(), &out, write
	_ = cmd.Run()
	must(t, write.Close())
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d, want 7", got)
	}
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(out.String(), "SigIgn:")), 16, 64)
	must(t, err)
	if mask>>(syscall.SIGPIPE-1)&1 == 1 {
		t.Error("the command ignores SIGPIPE")
	}
}
