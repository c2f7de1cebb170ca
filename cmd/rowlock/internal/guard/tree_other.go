//go:build unix && !linux

package guard

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Now is a clock that all processes of the machine share.
func Now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(ts.Nano())
}

// adopt does nothing: there are no subreapers.
func adopt() error { return nil }

func attributes(group bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: group} }

// signalAll sends a signal to the process group of the command, or to the command if it has none of
// its own, once where done is given. KILL goes to the guard too, where that is another process.
func signalAll(guard, command int, s syscall.Signal, done *told) {
	if command == 0 || done != nil && done.pids[command] {
		return
	}
	if s == syscall.SIGKILL && guard != 0 {
		_ = syscall.Kill(guard, s)
	}
	for _, s := range []syscall.Signal{s, syscall.SIGCONT} {
		if syscall.Kill(-command, s) != nil {
			_ = syscall.Kill(command, s)
		}
	}
	if done != nil {
		done.pids[command] = true
	}
}

// alive reports whether the process group of the command has processes.
func alive(command int) bool { return command != 0 && syscall.Kill(-command, 0) == nil }

// living are not known.
func living(int) []int { return nil }
