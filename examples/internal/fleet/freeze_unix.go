//go:build unix

package fleet

import (
	"fmt"
	"syscall"
)

// canFreeze: this system can stop a process from outside.
const canFreeze = true

// Freeze stops the process as a long pause of its machine would: it does nothing,
// and does not know it. Thaw lets it go on.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%v for process %d (%s): %w", s, p.cmd.Process.Pid, p.role, err)
	}
	return nil
}
