//go:build unix

package rowlockcli

import (
	"os"
	"syscall"
)

const sigCont = syscall.SIGCONT

var (
	// whileWaiting end the wait for the key.
	whileWaiting = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

	// whileRunning are handed on to the command too. TSTP is taken so that the lease of a command that
	// is stopped by Ctrl-Z is renewed.
	whileRunning = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP}
)

// fromTerminal reports whether a terminal sends this signal to its foreground processes.
func fromTerminal(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTSTP || s == syscall.SIGHUP
}
