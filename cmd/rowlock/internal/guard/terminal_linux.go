package guard

import "os"

// Terminal reports whether this process has a terminal, so that Ctrl-C and Ctrl-Z can reach it and
// its process group: now, or when a shell has taken it out of the background.
func Terminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = tty.Close()
	return true
}
