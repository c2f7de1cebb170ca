//go:build !unix

package rowlockcli

import (
	"os"
	"syscall"
)

const sigCont = syscall.Signal(-1) // there is none

var (
	whileWaiting = []os.Signal{syscall.SIGTERM, os.Interrupt}
	whileRunning []os.Signal
)

func stopsReaders(syscall.Signal) bool { return false }
