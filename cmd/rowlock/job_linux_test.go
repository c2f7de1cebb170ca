package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// jobShell is an interactive shell with job control on a terminal.
type jobShell struct {
	t        *testing.T
	pid      int
	keyboard *os.File
	shown    said
	seen     int // how much of it was awaited
}

func startShell(t *testing.T, p place) *jobShell {
	t.Helper()
	keyboard, screen := terminal(t)
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(p.environment(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PS1=", "HISTFILE=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	must(t, cmd.Start())
	must(t, screen.Close())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGHUP) // it hands it on to its jobs
		_ = cmd.Wait()
	})
	s := &jobShell{t: t, pid: cmd.Process.Pid, keyboard: keyboard}
	go func() { _, _ = io.Copy(&s.shown, keyboard) }() // until the terminal is closed
	return s
}

func (s *jobShell) write(text string) {
	s.t.Helper()
	_, err := s.keyboard.WriteString(text)
	must(s.t, err)
}

// await waits until a text is shown, after what was awaited before.
func (s *jobShell) await(text string) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%q was not shown:\n%s", text, s.shown.String())
		}
	}()
	eventually(s.t, fmt.Sprintf("%q is shown", text), func() bool {
		found := strings.Index(s.shown.String()[s.seen:], text)
		if found >= 0 {
			s.seen += found + len(text)
		}
		return found >= 0
	})
}

// foreground takes the job into the foreground, and waits until it is there.
func (s *jobShell) foreground() {
	s.t.Helper()
	s.write("fg\n")
	eventually(s.t, "the job has the terminal", func() bool {
		group, err := unix.IoctlGetInt(int(s.keyboard.Fd()), unix.TIOCGPGRP)
		must(s.t, err)
		return group != s.pid
	})
}

// TestJobControl: a shell stops a run as it stops any other job, and goes on with it. The lease is renewed meanwhile.
func TestJobControl(t *testing.T) {
	t.Parallel()
	p := sqlPlace(testserver.MySQL, mysqllock.VersionColumn)(t)
	s := startShell(t, p)
	renewed := func() {
		t.Helper()
		before := inspect(t, p.store, "k")
		last, n := before.Left, 0
		eventually(t, "the lease of the stopped command is renewed", func() bool {
			now := inspect(t, p.store, "k")
			if !now.Held || now.Token != before.Token {
				t.Fatalf("the key was lost: %+v\n%s", now, s.shown.String())
			}
			if now.Left > last {
				n++
			}
			last = now.Left
			return n == 3
		})
	}
	const run = "rowlock run --ttl 6s --max-hold 2m k -- "

	// Ctrl-Z gives the shell back, fg goes on.
	s.write(run + `sh -c 'echo rea""dy; read line; echo "line is $line"'` + "\n")
	s.await("ready\r\n")
	s.write("\x1a")
	s.await("Stopped")
	renewed()
	s.foreground()
	s.write("hello\n")
	s.await("line is hello")
	s.write("echo code=$?\n")
	s.await("code=0")

	// So does Ctrl-C after it, although the shell of the command waits for a child.
	s.write(run + `sh -c 'echo rea""dy; sleep 120; echo not rea""ched'` + "\n")
	s.await("ready\r\n")
	s.write("\x1a")
	s.await("Stopped")
	s.foreground()
	s.write("\x03")
	s.write("echo code=$?\n")
	s.await("code=130")

	// A job in the background that reads is stopped, until fg.
	s.write(run + `sh -c 'echo rea""dy; read line; echo "line is $line"' &` + "\n")
	s.await("ready\r\n")
	renewed()
	s.write("jobs\n")
	s.await("Stopped")
	s.foreground()
	s.write("again\n")
	s.await("line is again")
	s.write("echo code=$?\n")
	s.await("code=0")

	// kill %1 asks once, and kill -9 ends the command too.
	s.write(run + `sh -c 'trap "echo to\"\"ld; exit 4" TERM; echo rea""dy; while :; do sleep 0.1; done' &` + "\n")
	s.await("ready\r\n")
	s.write("kill %1\n")
	s.await("told\r\n")
	s.write("wait %1; echo code=$?\n")
	s.await("code=4")
	if strings.Count(s.shown.String(), "told\r\n") != 1 {
		t.Errorf("TERM came more than once:\n%s", s.shown.String())
	}
	s.write(`rowlock run --ttl 2m k -- sh -c 'echo rea""dy; sleep 120' &` + "\n") // a lease that no busy machine ends
	s.await("ready\r\n")
	s.write("kill -9 $!\n")
	eventually(t, "the key is free", func() bool { return !inspect(t, p.store, "k").Held })
}
