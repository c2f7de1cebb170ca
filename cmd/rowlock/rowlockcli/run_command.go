package rowlockcli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/cmd/rowlock/internal/guard"
)

// leftoversNotice is how long processes that the command has left are waited for in silence.
const leftoversNotice = 10 * time.Second

// running is the command while its processes live.
type running struct {
	*run
	process  *guard.Process
	terminal bool // signals of the terminal reach the command without us

	code     int  // of the command
	exited   bool // it has ended; processes that it started may be left
	cut      bool // it was ended because of the lease
	asked    bool // we asked it to end
	finished time.Time
	noticed  bool
}

// execute runs the command to its end, and that of what it has started.
func (r *run) execute() error {
	c := &running{run: r, terminal: guard.Foreground()}
	var err error
	c.process, err = guard.Start(r.guard, guard.Command{
		Path: r.path, Args: r.command, Env: r.environment(),
		Until: r.until(), Grace: time.Duration(r.f.killAfter), KillAtLoss: r.f.onLost == "kill",
		Leftovers: guard.Leftovers(r.f.leftovers), Group: !c.terminal,
	})
	if err != nil {
		return &ExitError{Code: exitNotRunnable, Err: fmt.Errorf("the command was not run: %w", err)}
	}
	listen(r.signals, whileRunning)
	r.health.set(r.lease)
	defer r.health.set(nil)
	return c.wait()
}

// wait returns when no process of the command is left.
func (c *running) wait() error {
	lost := c.lease.Done()
	look := time.NewTicker(min(max(time.Duration(c.f.ttl)/30, 20*time.Millisecond), 500*time.Millisecond))
	defer look.Stop()
	for {
		select {
		case e, ok := <-c.process.Events():
			if !ok {
				return c.result()
			}
			if err := c.event(e); err != nil {
				return err
			}
		case s := <-c.signals:
			c.signal(s)
		case <-lost:
			lost = nil
			c.lost(c.lease.Err())
		case <-look.C:
			if lost != nil {
				c.process.Until(c.until())
			}
			c.notice()
		}
	}
}

// event takes note of what happened to the command.
func (c *running) event(e guard.Event) error {
	switch e.Kind {
	case guard.Failed:
		code := exitNotRunnable
		if syscall.Errno(e.Errno) == syscall.ENOENT {
			code = exitNotFound
		}
		return &ExitError{Code: code, Err: fmt.Errorf("the command %q cannot be executed: %s", c.command[0], e.Text)}
	case guard.Started:
		c.detail("%q is held with token %d: the command runs as process %d", c.key, c.lease.Token(), e.Pid)
	case guard.Exited:
		c.exited, c.finished, c.code = true, time.Now(), e.Code
		if e.Code < 0 {
			c.code = exitSignal + e.Signal
		}
		c.detail("the command ended with exit code %d", c.code)
	case guard.Asked:
		c.ending(e)
	case guard.Killed:
		c.say("the processes of the command are killed (KILL)")
	}
	return nil
}

// ending says why the command is asked to end, where nobody knows it yet.
func (c *running) ending(e guard.Event) {
	grace := short(time.Duration(c.f.killAfter))
	switch {
	case e.GuardDied:
		c.say("the guard of the command is dead (%s): the command is ended with it", e.Text)
		return
	case e.Why != guard.Late:
		return
	}
	c.cut = true
	switch left := c.lease.Left(); {
	case left == 0: // lost says it
	case c.f.maxHold > 0:
		c.say("%q was held for nearly --max-hold %s, or its lease could not be renewed: the command is asked to end (TERM), and killed in %s", c.key, short(time.Duration(c.f.maxHold)), grace)
	default:
		c.say("the lease of %q could not be renewed and ends in %s: the command is asked to end (TERM), and killed in %s (look at the database: %s)", c.key, short(left), grace, c.store.where)
	}
}

// lost ends the command after the loss of the lease.
func (c *running) lost(err error) {
	c.cut = true
	why := err.Error()
	var lost *rowlock.LostError
	if errors.As(err, &lost) {
		if why = string(lost.Reason); lost.Err != nil {
			why += ", " + lost.Err.Error()
		}
	}
	if lost != nil && c.f.onLost == "term" {
		switch lost.Reason {
		case rowlock.ReasonForced, rowlock.ReasonTaken, rowlock.ReasonRemoved:
			c.say("the lease of %q is lost (%s): the command is asked to end (TERM), and killed in %s", c.key, lost.Reason, short(time.Duration(c.f.killAfter)))
			if !c.asked {
				c.asked = true
				c.process.Stop()
			}
			return
		}
	}
	c.say("the lease of %q is lost (%s): the command is killed", c.key, why)
	c.process.Kill()
}

// signal hands a signal on.
func (c *running) signal(s os.Signal) {
	n, _ := s.(syscall.Signal)
	switch {
	case s == syscall.SIGTERM:
		c.asked = true
		c.process.Stop() // the second one kills
	case c.terminal && fromTerminal(n):
		// The command has it already; it must go on to see it, if it was stopped.
		if n == syscall.SIGINT || n == syscall.SIGQUIT {
			c.process.Signal(sigCont)
		}
	default:
		c.process.Signal(n)
	}
}

// notice says which processes keep the key after the command has ended.
func (c *running) notice() {
	if !c.exited || c.noticed || time.Since(c.finished) < leftoversNotice {
		return
	}
	c.noticed = true
	var pids []string
	for _, pid := range c.process.Rest() {
		pids = append(pids, fmt.Sprint(pid))
	}
	c.say("the command has ended, but processes that it started keep %q (%s): see --leftovers", c.key, strings.Join(pids, " "))
}

// result is the exit code.
func (c *running) result() error {
	if c.cut || c.lease.Err() != nil {
		return &ExitError{Code: exitLost, Err: fmt.Errorf("the command was ended with the lease of %q (its own exit code: %d)", c.key, c.code)}
	}
	if c.code != 0 {
		return &ExitError{Code: c.code}
	}
	return nil
}
