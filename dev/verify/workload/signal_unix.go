//go:build unix

package workload

import "syscall"

// CanFreeze: this system can stop a process from outside.
const CanFreeze = true

// freeze stops the process as a long pause of its machine would: it does nothing, and
// does not know it.
func (p *process) freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
