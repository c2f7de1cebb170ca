package guard

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/internal/clock"
)

// Now is a clock of this process.
func Now() time.Duration { return clock.Now() }

// Process is a command that runs under a lease: it alone, not what it starts.
type Process struct {
	cmd    *exec.Cmd
	events chan Event

	grace time.Duration
	over  chan struct{}

	mu    sync.Mutex
	until time.Duration
	asked bool
}

// Start starts the command.
func Start(_ []string, c Command) (*Process, error) {
	p := &Process{
		cmd:    &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		events: make(chan Event, 16),
		until:  c.Until,
		grace:  c.Grace,
		over:   make(chan struct{}),
	}
	if err := p.cmd.Start(); err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		p.events <- Event{Kind: Failed, Errno: int(errno), Text: err.Error()}
		close(p.events)
		return p, nil
	}
	p.events <- Event{Kind: Started, Pid: p.cmd.Process.Pid}
	go func() {
		defer close(p.events)
		_ = p.cmd.Wait() // the state says it
		close(p.over)
		p.events <- Event{Kind: Exited, Code: p.cmd.ProcessState.ExitCode()}
		p.events <- Event{Kind: Gone}
	}()
	go p.watch()
	return p, nil
}

// watch kills the command shortly before the trust ends.
func (p *Process) watch() {
	for {
		p.mu.Lock()
		left := p.until - Spare - Now()
		p.mu.Unlock()
		if left <= 0 {
			p.Kill()
			return
		}
		select {
		case <-p.over:
			return
		case <-time.After(min(left, tick)):
		}
	}
}

// Main is not used: there is no guard.
func Main([]string) int { return 64 }

// Events are what happens to the command; closed after Failed or Gone.
func (p *Process) Events() <-chan Event { return p.events }

// Until says until when the lease is trusted, by [Now].
func (p *Process) Until(t time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = max(p.until, t)
}

// Stop kills the command after the grace: there is no other signal than Ctrl-C, which reaches it
// without us. Another call does nothing.
func (p *Process) Stop() {
	p.mu.Lock()
	first := !p.asked
	p.asked = true
	p.mu.Unlock()
	if first {
		time.AfterFunc(p.grace, p.Kill)
	}
}

// Kill kills the command.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() } // it may have ended

// Signal does nothing.
func (p *Process) Signal(syscall.Signal) {}

// Continue does nothing.
func (p *Process) Continue() {}

// Rest are not known.
func (p *Process) Rest() []int { return nil }

// Terminal reports whether signals of the terminal reach the command without us.
func Terminal() bool { return true }

// SeesProcesses reports whether all processes of the command can be found. Here they cannot, and the
// guide says so.
func SeesProcesses() bool { return true }
