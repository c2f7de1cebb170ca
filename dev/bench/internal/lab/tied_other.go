//go:build !linux

package lab

import "os/exec"

// startTied starts a process; end kills it and returns when it is gone.
func startTied(cmd *exec.Cmd) (end func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}, nil
}
