package messages

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// ownThread gives this goroutine a thread on which TTOU is blocked, so that it can write on a
// terminal with "stty tostop" from the background. Where the signal has a handler such a write would
// be begun again and again.
func ownThread() (done func()) {
	runtime.LockOSThread()
	var before unix.Sigset_t
	ttou := unix.Sigset_t{}
	ttou.Val[0] = 1 << (unix.SIGTTOU - 1) // below 32: the first word has it on every machine
	if unix.PthreadSigmask(unix.SIG_BLOCK, &ttou, &before) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		if unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
		}
	}
}
