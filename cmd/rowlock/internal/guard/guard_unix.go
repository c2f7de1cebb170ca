//go:build unix

package guard

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/cmd/rowlock/internal/messages"
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
	signals := hear()
	nameProcess()
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
	g := &child{
		c: *first.Start, until: first.Start.Until, orders: orders, events: gob.NewEncoder(files[1]),
		heard: signals, messages: messages.New(os.Stderr),
	}
	defer g.messages.Flush(time.Second)
	if Now() >= g.until-Spare {
		g.tell(Event{Kind: Failed, Why: Late, Text: "the lease had ended"})
		return 0
	}
	if err := g.start(); err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		g.tell(Event{Kind: Failed, Errno: int(errno), Text: err.Error()})
		return 0
	}
	g.run()
	return 0
}

// child is the command as the guard has it.
type child struct {
	c      Command
	pid    int // of the command
	exited bool
	until  time.Duration
	orders <-chan order // nil: the first process is dead
	events *gob.Encoder

	heard    *heard
	messages *messages.Writer

	ended   chan death
	asked   *told // who got TERM; nil: nobody was asked
	killAt  time.Duration
	killed  bool
	refused bool          // that was told
	next    time.Duration // when to look at what is due, by Now: a look may cost a walk of /proc
}

// death is a process that has ended.
type death struct {
	pid    int
	status syscall.WaitStatus
}

func (g *child) tell(e Event) { _ = g.events.Encode(e) } // where nobody listens nobody needs to know

func (g *child) start() (err error) {
	if err = adopt(); err != nil {
		return err
	}
	g.pid, err = forkExec(g.c.Path, g.c.Args, &syscall.ProcAttr{Env: g.c.Env, Files: []uintptr{0, 1, 2}, Sys: attributes(g.c.Group)})
	if err != nil {
		return err
	}
	g.tell(Event{Kind: Started, Pid: g.pid})
	g.ended = make(chan death, 256) // a job that starts many processes is not kept waiting
	go g.reap()
	return nil
}

// reap takes the status of each process that ends, until there is none left: every process of the
// command has a parent that is one, or is the guard's child.
func (g *child) reap() {
	defer close(g.ended)
	for {
		var e death
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
				g.orphaned()
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
					if alive(g.pid) || len(living(os.Getpid())) > 0 || !SeesProcesses() {
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
		if Now() >= g.next {
			g.look()
			g.next = Now() + killPause
		}
	}
}

func (g *child) obey(o order) {
	g.until = max(g.until, o.Until)
	if s := syscall.Signal(o.Signal); s != 0 && !g.exited && (g.c.Group || !g.heard.lately(s)) {
		g.refuse(send(g.pid, s))
	}
	if o.Go {
		goOn(g.pid)
	}
	if o.Stop {
		g.ask(Ordered)
	}
	if o.Kill {
		g.killAt, g.next = 1, 0
	}
}

// orphaned ends the command: the first process is dead.
func (g *child) orphaned() {
	if g.c.KillOrphan {
		g.killAt, g.next = 1, 0
		g.look()
	} else {
		g.ask(Orphan)
	}
	fmt.Fprintln(g.messages, "rowlock: the process that has the lease was killed: the command is ended, before another can get the key")
}

// refuse tells of the first process that may not be signalled.
func (g *child) refuse(r *Refusal) {
	if r == nil || g.refused {
		return
	}
	g.refused = true
	g.tell(Event{Kind: Refused, Pid: r.Pid, Uid: r.Uid})
	if g.orders == nil {
		fmt.Fprintf(g.messages, "rowlock: process %d belongs to user %d and may not be ended by this one: it may live on when another has the key\n", r.Pid, r.Uid)
	}
}

// ask sends TERM to all, once; KILL follows after the grace, or before the trust ends.
func (g *child) ask(why Why) {
	if g.asked != nil {
		return
	}
	g.asked = newTold()
	g.asked.group = why == Ordered && !g.c.Group && g.heard.lately(syscall.SIGTERM)
	if g.killAt == 0 {
		g.killAt = min(Now()+g.c.Grace, g.until-Spare)
	}
	g.next = 0
	g.tell(Event{Kind: Asked, Why: why})
}

// look does what is due.
func (g *child) look() {
	now := Now()
	if g.asked == nil && g.killAt == 0 && now >= g.until-g.c.lead() {
		g.ask(Late)
	}
	switch {
	case g.killAt != 0 && now >= min(g.killAt, g.until-Spare):
		g.refuse(killAll(g.pid, 0, 0))
		if !g.killed {
			g.killed = true
			g.tell(Event{Kind: Killed})
		}
	case g.asked != nil:
		g.refuse(tellAll(g.pid, syscall.SIGTERM, g.asked)) // those too that were not seen before
	}
}

// pause is until something is due.
func (g *child) pause() time.Duration {
	if g.killed || g.asked != nil || g.exited {
		return max(g.next-Now(), time.Millisecond)
	}
	return max(min(g.until-g.c.lead()-Now(), tick), time.Millisecond)
}
