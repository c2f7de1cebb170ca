//go:build unix && !linux

package guard

import (
	"os"

	"golang.org/x/sys/unix"
)

// Terminal reports whether this process is in the foreground of a terminal, so that Ctrl-C and
// Ctrl-Z reach it and its process group. In the background the command has a group of its own, by
// which all of its processes are found.
func Terminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
