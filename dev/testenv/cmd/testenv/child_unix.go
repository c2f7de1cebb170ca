//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// endSignals ask us to end: they are handed to the command.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

func signalNumber(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}

// ownGroup gives the command a process group of its own, unless it reads a terminal: then it must stay in the
// terminal's group, which Ctrl-C reaches as a whole. pass hands on a signal; sweep, after the command's end, ends what
// it left running in its group.
func ownGroup(c *exec.Cmd) (pass func(os.Signal), sweep func()) {
	if isTerminal(os.Stdin) {
		return func(s os.Signal) {
			if s != os.Interrupt {
				_ = c.Process.Signal(s)
			}
		}, func() {}
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pass = func(s os.Signal) { _ = syscall.Kill(-c.Process.Pid, s.(syscall.Signal)) }
	sweep = func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return pass, sweep
}

// isTerminal is good enough here: the null device is the one other character device in use as standard input.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

func exitCodeOf(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
