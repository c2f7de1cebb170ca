//go:build unix

package rowlockcli

import (
	"os/exec"
	"syscall"
)

// ownGroup has a command, and what it starts, killed together when its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
