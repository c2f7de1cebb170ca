package lab

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startTied starts a process that the kernel kills when this one dies, however it
// dies. end kills it and returns when it is gone.
func startTied(cmd *exec.Cmd) (end func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started, gone := make(chan error, 1), make(chan struct{})
	go func() {
		// The signal comes when the thread that forked ends, so it is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(gone)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill()
		<-gone
	}, nil
}
