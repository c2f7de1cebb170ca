//go:build unix

package rowlockcli

import (
	"os"
	"syscall"
)

// ofAnother reports whether a file is neither this user's nor root's.
func ofAnother(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid != 0 && int(s.Uid) != os.Geteuid()
}
