//go:build unix

package locktest

import "syscall"

// canFreeze says that a child process can be stopped and continued.
const canFreeze = true

func (p *process) freeze() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatalf("freeze a child: %v", err)
	}
}

func (p *process) thaw() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatalf("let a child go on: %v", err)
	}
}
