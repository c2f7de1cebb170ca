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

	// whileRunning are handed on to the command too. TSTP, TTIN and TTOU are taken so that the lease of a
	// command that a terminal has stopped is renewed.
	whileRunning = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}
)

// stopsReaders reports whether a terminal sends this signal to a process group in the background that reads or writes.
// It has come to the command, and is not handed on.
func stopsReaders(s syscall.Signal) bool { return s == syscall.SIGTTIN || s == syscall.SIGTTOU }
