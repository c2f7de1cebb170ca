// Package fleet runs copies of this program, each a process of its own, and talks
// to them by JSON lines: locks between goroutines of one process would prove little.
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
	"os/signal"
	"strings"
	"time"
)

// variable tells a copy what it is.
const variable = "ROWLOCK_BENCH_ROLE"

// Process is a copy of this program.
type Process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	to   *json.Encoder
	from *json.Decoder
	log  bytes.Buffer
}

// Start starts a copy in a role and sends it its task. It is killed when ctx ends.
func Start(ctx context.Context, role string, task any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), variable+"="+role)
	p.cmd.Stderr = &p.log
	p.cmd.WaitDelay = time.Second
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.to, p.from = json.NewEncoder(p.in), json.NewDecoder(out)
	return p, p.Send(task)
}

// Send sends one message.
func (p *Process) Send(message any) error { return p.to.Encode(message) }

// Receive waits for the next message. Where the process has ended instead, the
// error says what it said.
func (p *Process) Receive(message any) error {
	err := p.from.Decode(message)
	if err == nil {
		return nil
	}
	err = errors.Join(err, p.cmd.Wait())
	return fmt.Errorf("a child process: %w: %s", err, strings.TrimSpace(p.log.String()))
}

// Kill ends the process as kill -9 does. It returns when the signal is sent.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Reap waits for the end of a killed process.
func (p *Process) Reap() { _ = p.cmd.Wait() }

// Close tells the process that nothing more comes, and waits for its end.
func (p *Process) Close() error {
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("a child process: %w: %s", err, strings.TrimSpace(p.log.String()))
	}
	return nil
}

// Parent is how a copy talks to the process that started it.
type Parent struct {
	from *json.Decoder
	to   *json.Encoder
}

// Receive waits for the next message; the error is io.EOF when the parent has no
// more.
func (p *Parent) Receive(message any) error { return p.from.Decode(message) }

// Send sends one message.
func (p *Parent) Send(message any) error { return p.to.Encode(message) }

// Run plays the role that the parent asked for and does not return, if this process
// is a copy. Call it first in main.
func Run(roles map[string]func(context.Context, *Parent) error) {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of a terminal; the parent decides
	role := roles[name]
	if role == nil {
		fmt.Fprintf(os.Stderr, "%s=%s names no role\n", variable, name)
		os.Exit(2)
	}
	if err := role(context.Background(), &Parent{json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
