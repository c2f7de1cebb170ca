//go:build unix

package guard

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestRefused: a process that may not be signalled is told, with its user; one that has ended is not.
func TestRefused(t *testing.T) {
	real := kill
	t.Cleanup(func() { kill = real })
	kill = func(int, syscall.Signal) error { return syscall.EPERM }
	cmd := exec.Command("sleep", "120")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for name, refused := range map[string]*Refusal{
		"TERM": tellAll(pid, syscall.SIGTERM, newTold()),
		"KILL": killAll(pid, 0, 0),
	} {
		if refused == nil || refused.Pid != pid || refused.Uid != os.Getuid() && refused.Uid != -1 {
			t.Errorf("%s: %+v, want process %d of user %d", name, refused, pid, os.Getuid())
		}
	}
	if refused := killAll(pid, pid, pid); SeesProcesses() && refused != nil {
		t.Errorf("the process that is spared was signalled: %+v", refused)
	}
	if err := real(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if refused := send(pid, syscall.SIGTERM); refused != nil {
		t.Errorf("a process that has ended: %+v", refused)
	}
}
