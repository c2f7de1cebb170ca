package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// memberArg makes this program one of those that are scraped.
const memberArg = "member"

// process is one of them.
type process struct {
	role    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	address string
}

// fleet is all of them, and the file in which Prometheus finds them.
type fleet struct {
	ctx     context.Context
	targets string // a file
	of      func(role string) task

	mu     sync.Mutex
	alive  []*process
	leader *process // of those that wanted to be
}

// start starts a process, and tells Prometheus.
func (f *fleet) start(role string) error {
	cmd := exec.CommandContext(f.ctx, os.Args[0], memberArg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{role: role, cmd: cmd, in: in}
	f.mu.Lock()
	f.alive = append(f.alive, p)
	f.mu.Unlock()
	text, err := json.Marshal(f.of(role))
	if err != nil {
		return err
	}
	if _, err := in.Write(append(text, '\n')); err != nil {
		return err
	}
	said := bufio.NewScanner(out)
	if !said.Scan() {
		return fmt.Errorf("%s ended at once: %w", role, errors.Join(said.Err(), io.ErrUnexpectedEOF))
	}
	p.address = said.Text()
	go func() { // until the process ends
		for said.Scan() {
			if said.Text() == leads {
				f.mu.Lock()
				f.leader = p
				f.mu.Unlock()
			}
		}
	}()
	return f.tell()
}

// tell writes the file for Prometheus.
func (f *fleet) tell() error {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	f.mu.Lock()
	all := []group{}
	for _, p := range f.alive {
		if p.address != "" {
			all = append(all, group{[]string{p.address}, map[string]string{"job": p.role}})
		}
	}
	f.mu.Unlock()
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(f.targets), "next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.targets)
}

// say tells all processes of a role something.
func (f *fleet) say(role, word string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.alive {
		if p.role == role {
			if _, err := io.WriteString(p.in, word+"\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// leading waits until some process leads.
func (f *fleet) leading() (*process, error) {
	for {
		f.mu.Lock()
		p := f.leader
		f.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-f.ctx.Done():
			return nil, fmt.Errorf("nobody leads: %w", f.ctx.Err())
		}
	}
}

// kill ends the leader as a crash does.
func (f *fleet) kill() error {
	p, err := f.leading()
	if err != nil {
		return err
	}
	f.mu.Lock()
	for i, other := range f.alive {
		if other == p {
			f.alive = append(f.alive[:i:i], f.alive[i+1:]...)
			break
		}
	}
	f.leader = nil
	f.mu.Unlock()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return f.tell()
}

// freeze stops the leader as a pause of its machine does; the function that it returns lets it go on.
func (f *fleet) freeze() (thaw func() error, err error) {
	p, err := f.leading()
	if err != nil {
		return nil, err
	}
	signal := func(name string) error { // by the program, because the system call is not there on every system
		return exec.CommandContext(f.ctx, "kill", "-"+name, strconv.Itoa(p.cmd.Process.Pid)).Run()
	}
	f.mu.Lock()
	f.leader = nil // another leads before long
	f.mu.Unlock()
	return func() error { return signal("CONT") }, signal("STOP")
}

// end ends all, and waits until they have.
func (f *fleet) end() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.alive {
		_ = p.in.Close()
	}
	for _, p := range f.alive {
		late := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		if e := p.cmd.Wait(); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.role, e))
		}
		late.Stop()
	}
	f.alive = nil
	return err
}
