// Package fleet runs copies of the program it is linked into, each in a process
// of its own, and exchanges JSON messages with them over their standard input and
// output. The examples use it to be several programs on one machine: locks between
// goroutines of one process would prove nothing. A Crew is copies that are killed and
// frozen while they work, and its Log prints what happens to them.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// variable tells a copy what it is.
const variable = "ROWLOCK_EXAMPLE_ROLE"

// Process is a copy of this program. Send, and Receive, may be used by one
// goroutine each at a time.
type Process struct {
	role string
	cmd  *exec.Cmd
	to   *json.Encoder
	from *json.Decoder
	in   io.Closer
	log  bytes.Buffer // its standard error, to be read after wait
	wait func() error
}

// Start starts a copy in the given role and sends it its task. The copy is killed
// when ctx ends. End it with Close or Kill.
func Start(ctx context.Context, role string, task any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	p := &Process{role: role, cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), variable+"="+role)
	p.cmd.Stderr = &p.log
	p.cmd.WaitDelay = time.Second
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	p.in, p.to, p.from = in, json.NewEncoder(in), json.NewDecoder(out)
	p.wait = sync.OnceValue(p.cmd.Wait)
	if err := p.Send(task); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Send sends one message.
func (p *Process) Send(message any) error {
	if err := p.to.Encode(message); err != nil {
		return fmt.Errorf("send to process %d (%s): %w", p.cmd.Process.Pid, p.role, err)
	}
	return nil
}

// Receive waits for the next message. When the process has ended the error says
// how, and what it wrote to its standard error.
func (p *Process) Receive(message any) error {
	err := p.from.Decode(message)
	if err == nil {
		return nil
	}
	if ended := p.wait(); ended != nil {
		err = ended
	}
	return p.describe(err)
}

// Kill ends the process as kill -9 does: it can clean nothing up. It returns when
// the signal is sent.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill process %d (%s): %w", p.cmd.Process.Pid, p.role, err)
	}
	return nil
}

// Reap waits for the end of processes that are killed, or whose context has
// ended; nil ones never started.
func Reap(processes ...*Process) {
	for _, p := range processes {
		if p != nil {
			_ = p.wait()
		}
	}
}

// Close tells the process that nothing more will come and waits for its end,
// which is an error unless its exit code is 0.
func (p *Process) Close() error {
	_ = p.in.Close()
	if err := p.wait(); err != nil {
		return p.describe(err)
	}
	return nil
}

func (p *Process) describe(err error) error {
	if said := strings.TrimSpace(p.log.String()); said != "" {
		return fmt.Errorf("process %d (%s): %w: %s", p.cmd.Process.Pid, p.role, err, said)
	}
	return fmt.Errorf("process %d (%s): %w", p.cmd.Process.Pid, p.role, err)
}
