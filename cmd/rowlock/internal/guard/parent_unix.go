//go:build unix

package guard

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a command that runs under a guard. Its methods may be called concurrently, and after
// its end, when they do nothing.
type Process struct {
	guard  int // its pid
	events chan Event

	orders orders

	mu      sync.Mutex
	until   time.Duration
	grace   time.Duration
	killAt  time.Duration // when everything must be dead that was asked to end; 0: nobody was asked
	command int           // its pid; 0: it was not started
	refused bool          // there is a process that may not be signalled: the guard waits for it, and is not killed
	over    bool          // the guard has ended, or was killed
}

// Start starts the guard, which starts the command. program is the command line that calls [Main],
// whose first string is the path of the executable; the numbers of two files are added to it. What
// happens comes out of Events, the first of it is Started or Failed. The calling process becomes a
// subreaper, and should have no other children.
//
// Standard input, output and error, and every other file that this process has inherited, are passed on.
func Start(program []string, c Command) (*Process, error) {
	if err := adopt(); err != nil {
		return nil, fmt.Errorf("become the subreaper of the command: %w", err)
	}
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersR.Close()
	eventsR, eventsW, err := os.Pipe()
	if err != nil {
		_ = ordersW.Close()
		return nil, err
	}
	defer eventsW.Close()
	pid, err := startGuard(program, c, ordersR, eventsW)
	if err != nil {
		_, _ = ordersW.Close(), eventsR.Close()
		return nil, fmt.Errorf("start the guard %s: %w", program[0], err)
	}
	p := &Process{guard: pid, orders: newOrders(), events: make(chan Event, 16), until: c.Until, grace: c.Grace}
	go p.orders.write(ordersW)
	go p.listen(eventsR)
	go p.watch()
	p.orders.add(order{Start: &c})
	return p, nil
}

// startGuard starts it with its ends of the pipes under the numbers that they have, so that no file
// which the command should inherit is in the way.
func startGuard(program []string, c Command, files ...*os.File) (pid int, err error) {
	args := program[:len(program):len(program)]
	for _, f := range files {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return 0, err
		}
		args = append(args, strconv.Itoa(int(f.Fd())))
	}
	return syscall.ForkExec(Itself(program[0]), args, &syscall.ProcAttr{
		Env:   c.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: c.Group},
	})
}

// Itself is the file of this program, also if another version has taken its place meanwhile.
func Itself(path string) string {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self
	}
	return path
}

// Events are what happens to the command; closed after Failed or Gone. They must be received.
func (p *Process) Events() <-chan Event { return p.events }

// Until says until when the lease is trusted, by [Now].
func (p *Process) Until(t time.Duration) {
	p.mu.Lock()
	p.until = max(p.until, t)
	p.mu.Unlock()
	p.orders.add(order{Until: t})
}

// Stop asks all processes of the command to end, and kills them after the grace. Another call does
// nothing.
func (p *Process) Stop() {
	p.kill(p.grace)
	p.orders.add(order{Stop: true})
}

// Kill kills all processes of the command.
func (p *Process) Kill() {
	p.kill(0)
	p.orders.add(order{Kill: true})
}

// kill says when the processes must be dead: a guard that stands still kills nobody.
func (p *Process) kill(in time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := Now() + in + backup; p.killAt == 0 || at < p.killAt {
		p.killAt = at
	}
}

// Signal sends a signal to the command alone, if it has not come to all of its process group anyway.
func (p *Process) Signal(s syscall.Signal) { p.orders.add(order{Signal: int(s)}) }

// Continue lets all processes of the command go on that are stopped.
func (p *Process) Continue() { p.orders.add(order{Go: true}) }

// Rest are the processes of the command that live, where that can be known.
func (p *Process) Rest() []int { return living(p.guard) }

// listen passes events on until the guard ends. One that ends before its command was killed.
func (p *Process) listen(events *os.File) {
	defer close(p.events)
	decoder := gob.NewDecoder(events)
	var last Kind
	exited := false
	for {
		var e Event
		err := decoder.Decode(&e)
		if err != nil {
			break
		}
		last = e.Kind
		switch last {
		case Started:
			p.mu.Lock()
			p.command = e.Pid
			p.mu.Unlock()
		case Exited:
			exited = true
		case Refused:
			p.refuse()
		}
		if last != Gone {
			p.events <- e
		}
	}
	_ = events.Close()
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.orders.close()
	status := wait(p.guard)
	switch last {
	case Failed:
	case Gone:
		p.events <- Event{Kind: Gone}
	default:
		p.takeOver(status, last != 0, exited)
	}
}

// takeOver ends what a guard that was killed has left.
func (p *Process) takeOver(status syscall.WaitStatus, started, exited bool) {
	if !started {
		p.events <- Event{Kind: Failed, Errno: int(syscall.EIO), Text: "the guard ended before it started the command: " + describe(status)}
		return
	}
	p.events <- Event{Kind: Asked, Why: Ordered, GuardDied: true, Text: describe(status)}
	p.mu.Lock()
	end := min(Now()+p.grace, p.until-Spare)
	if p.killAt != 0 {
		end = min(end, p.killAt)
	}
	p.mu.Unlock()
	asked := newTold()
	for {
		pid, status, left := reap()
		if pid > 0 {
			if pid == p.command && !exited {
				exited = true
				p.events <- exit(status)
			}
			continue
		}
		if !left && !alive(p.command) {
			break
		}
		var refused *Refusal
		if Now() >= end {
			refused = killAll(p.command, 0, 0)
		} else {
			refused = tellAll(p.command, syscall.SIGTERM, asked)
		}
		if refused != nil && !p.refuse() {
			p.events <- Event{Kind: Refused, Pid: refused.Pid, Uid: refused.Uid}
		}
		time.Sleep(killPause)
	}
	if !exited { // the system ended it with the guard before it became a child of this process, and nobody has its code
		p.events <- Event{Kind: Exited, Code: -1, Signal: int(syscall.SIGKILL)}
	}
	p.events <- Event{Kind: Gone, GuardDied: true}
}

// refuse notes that there is a process that may not be signalled, and reports whether that was known.
func (p *Process) refuse() (known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, p.refused = p.refused, true
	return known
}

// watch kills the guard and all processes of the command where the trust is over but for a moment,
// or a grace is: the guard, which should have done so, stands still.
func (p *Process) watch() {
	for {
		p.mu.Lock()
		end := p.until - backup
		if p.killAt != 0 {
			end = min(end, p.killAt)
		}
		left, over, command, spare := end-Now(), p.over, p.command, 0
		if p.refused {
			spare = p.guard
		}
		p.mu.Unlock()
		if over {
			return
		}
		if left <= 0 {
			killAll(command, p.guard, spare)
			left = killPause
		}
		time.Sleep(min(left, tick))
	}
}

// exit is the end of the command.
func exit(status syscall.WaitStatus) Event {
	if status.Signaled() {
		return Event{Kind: Exited, Code: -1, Signal: int(status.Signal())}
	}
	return Event{Kind: Exited, Code: status.ExitStatus()}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "it was killed by a signal (" + status.Signal().String() + ")"
	}
	return fmt.Sprintf("it ended with exit code %d", status.ExitStatus())
}

// wait waits for a child to end.
func wait(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// reap takes the status of a child that has ended. pid 0: none has. left: there are children.
func reap() (pid int, status syscall.WaitStatus, left bool) {
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		return max(pid, 0), status, err == nil
	}
}
