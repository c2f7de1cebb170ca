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

// SeesProcesses reports whether all processes of the command can be found. Here they cannot, and the
// guide says so.
func SeesProcesses() bool { return true }

// tellAll sends a signal to the process group of the command.
func tellAll(command int, s syscall.Signal, done *told) *Refusal { return tellGroup(command, s, done) }

// goOn lets the process group of the command go on.
func goOn(command int) { _ = tellGroup(command, syscall.SIGCONT, nil) }

// killAll kills the process group of the command, and the guard if it is not spare.
func killAll(command, guard, spare int) *Refusal {
	if guard != spare {
		_ = send(guard, syscall.SIGKILL)
	}
	return tellGroup(command, syscall.SIGKILL, nil)
}

func uidOf(int) int { return -1 }

func ended(int) bool { return false }

// alive reports whether the process group of the command has processes.
func alive(command int) bool { return command != 0 && syscall.Kill(-command, 0) == nil }

// living are not known.
func living(int) []int { return nil }
