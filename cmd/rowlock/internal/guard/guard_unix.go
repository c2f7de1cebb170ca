//go:build unix

package guard

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Main is the guard: the process that [Start] starts. args are the two numbers that it has added
// to the command line. It returns when no process of the command is left, with the exit code.
func Main(args []string) int {
	// The kernel takes the end of this thread for that of the parent: PR_SET_PDEATHSIG, prctl(2).
	// A goroutine that is locked to its thread keeps it.
	runtime.LockOSThread()
	var files [2]*os.File
	for i := range files {
		n := -1
		if len(args) == len(files) {
			n, _ = strconv.Atoi(args[i])
		}
		if n <= 2 {
			fmt.Fprintln(os.Stderr, "rowlock: this command is started by rowlock run only")
			return 64
		}
		syscall.CloseOnExec(n)
		files[i] = os.NewFile(uintptr(n), "pipe")
	}
	deafen()
	orders := make(chan order)
	go func() {
		defer close(orders)
		decoder := gob.NewDecoder(files[0])
		for {
			var o order
			if decoder.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	first := <-orders
	if first.Start == nil {
		return 70
	}
	g := &child{c: *first.Start, until: first.Start.Until, orders: orders, events: gob.NewEncoder(files[1])}
	if err := g.start(); err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		g.tell(Event{Kind: Failed, Errno: int(errno), Text: err.Error()})
		return 0
	}
	g.run()
	return 0
}

// deafen keeps signals that go to a whole process group from ending or stopping the guard. A signal
// that is ignored stays so, for the command too; one that has a handler is as ever for the command.
func deafen() {
	var signals []os.Signal
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, signals...) // what does not fit into the channel is dropped
}

// child is the command as the guard has it.
type child struct {
	c      Command
	pid    int // of the command
	exited bool
	until  time.Duration
	orders <-chan order // nil: the first process is dead
	events *gob.Encoder

	ended  chan ended
	asked  *told // who got TERM; nil: nobody was asked
	killAt time.Duration
	killed bool
}

// ended is a process that has ended.
type ended struct {
	pid    int
	status syscall.WaitStatus
}

func (g *child) tell(e Event) { _ = g.events.Encode(e) } // where nobody listens nobody needs to know

func (g *child) start() (err error) {
	if err = adopt(); err != nil {
		return err
	}
	g.pid, err = syscall.ForkExec(g.c.Path, g.c.Args, &syscall.ProcAttr{Env: g.c.Env, Files: []uintptr{0, 1, 2}, Sys: attributes(g.c.Group)})
	if err != nil {
		return err
	}
	g.tell(Event{Kind: Started, Pid: g.pid})
	g.ended = make(chan ended)
	go g.reap()
	return nil
}

// reap takes the status of each process that ends, until there is none left: every process of the
// command has a parent that is one, or is the guard's child.
func (g *child) reap() {
	defer close(g.ended)
	for {
		var e ended
		var err error
		e.pid, err = syscall.Wait4(-1, &e.status, 0, nil)
		switch {
		case err == nil:
			g.ended <- e
		case !errors.Is(err, syscall.EINTR): // ECHILD
			return
		}
	}
}

// run returns when no process of the command is left, or none matters.
func (g *child) run() {
	none := g.ended
	for {
		select {
		case o, ok := <-g.orders:
			if !ok {
				g.orders = nil
				g.ask(Orphan)
				break
			}
			g.obey(o)
		case e, ok := <-none:
			switch {
			case !ok:
				none = nil
			case e.pid == g.pid && !g.exited:
				g.exited = true
				g.tell(exit(e.status))
				switch g.c.Leftovers {
				case Leave:
					if g.asked == nil {
						g.tell(Event{Kind: Gone})
						return
					}
				case Kill:
					if alive(g.pid) || len(living(os.Getpid())) > 0 {
						g.ask(Left)
					}
				}
			}
		case <-time.After(g.pause()):
		}
		if none == nil && !alive(g.pid) {
			g.tell(Event{Kind: Gone})
			return
		}
		g.look()
	}
}

func (g *child) obey(o order) {
	g.until = max(g.until, o.Until)
	if o.Signal != 0 && !g.exited {
		_ = syscall.Kill(g.pid, syscall.Signal(o.Signal))
	}
	if o.Kill || o.Stop && g.asked != nil {
		g.killAt = 1
	} else if o.Stop {
		g.ask(Ordered)
	}
}

// ask sends TERM to all, once; KILL follows after the grace, or before the trust ends.
func (g *child) ask(why Why) {
	if g.asked != nil {
		return
	}
	g.asked = newTold()
	g.killAt = min(Now()+g.c.Grace, g.until-Spare)
	g.tell(Event{Kind: Asked, Why: why})
	if why == Orphan {
		fmt.Fprintln(os.Stderr, "rowlock: the process that has the lease was killed: the command is ended, before another can get the key")
	}
}

// look does what is due.
func (g *child) look() {
	now := Now()
	if g.asked == nil && g.killAt == 0 && now >= g.until-g.c.lead() {
		g.ask(Late)
	}
	switch {
	case g.killAt != 0 && now >= min(g.killAt, g.until-Spare):
		if !g.killed {
			g.killed = true
			g.tell(Event{Kind: Killed})
		}
		signalAll(0, g.pid, syscall.SIGKILL, nil)
	case g.asked != nil:
		signalAll(0, g.pid, syscall.SIGTERM, g.asked) // those too that were not seen before
	}
}

// told are the processes that were sent a signal, once each.
type told struct {
	pids  map[int]bool
	since time.Duration // when the first look for them began, by Now; 0: none did
}

func newTold() *told { return &told{pids: make(map[int]bool)} }

// pause is until something is due.
func (g *child) pause() time.Duration {
	if g.killed || g.asked != nil || g.exited {
		return killPause
	}
	return max(min(g.until-g.c.lead()-Now(), tick), time.Millisecond)
}
