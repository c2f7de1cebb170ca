//go:build !unix

package rowlockcli

import (
	"os"
	"syscall"
)

const sigCont = syscall.Signal(0)

var (
	whileWaiting = []os.Signal{syscall.SIGTERM, os.Interrupt}
	whileRunning []os.Signal
)

// fromTerminal reports whether the console sends this signal to its processes.
func fromTerminal(s syscall.Signal) bool { return s == syscall.SIGINT }
