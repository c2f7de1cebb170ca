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
	process *guard.Process

	code     int       // of the command
	exited   bool      // it has ended; processes that it started may be left
	refused  bool      // there is a process that we may not signal
	termAt   time.Time // the first TERM
	finished time.Time
	noticed  bool
}

// execute runs the command to its end, and that of what it has started.
func (r *run) execute() error {
	if r.lease.Err() != nil {
		return r.tooLate()
	}
	if !guard.SeesProcesses() {
		r.warn("/proc does not show the processes of this PID namespace: when the command has to end, it and its process group are ended, and not what it has started outside of that. Mount /proc anew, as unshare --mount-proc does")
	}
	if r.endsWithSession() {
		r.detail("with the strategy for-update %s is free as soon as this program is dead or its session ends: the command is killed then, but it can live for some milliseconds beside the next one (up to a second where the session is ended from outside)", quoted(r.keys))
	}
	c := &running{run: r}
	var err error
	c.process, err = guard.Start(r.guard, guard.Command{
		Path: r.path, Args: r.command, Env: r.environment(),
		Until: r.until(), Grace: time.Duration(r.f.killAfter), KillAtLoss: r.f.onLost == "kill", KillOrphan: r.endsWithSession(),
		Leftovers: guard.Leftovers(r.f.leftovers), Group: !guard.Terminal(),
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
		if e.Why == guard.Late || c.cut || c.lease.Err() != nil {
			return c.tooLate()
		}
		code := exitNotRunnable
		if syscall.Errno(e.Errno) == syscall.ENOENT {
			code = exitNotFound
		}
		return &ExitError{Code: code, Err: fmt.Errorf("the command %q cannot be executed: %s", c.command[0], e.Text)}
	case guard.Started:
		c.detail("%s: the command runs as process %d", c.lease.tokens(), e.Pid)
	case guard.Exited:
		c.exited, c.finished, c.code = true, time.Now(), e.Code
		if e.Code < 0 {
			c.code = exitSignal + e.Signal
		}
		c.detail("the command ended with exit code %d", c.code)
	case guard.Asked:
		c.ending(e)
	case guard.Refused:
		c.refused = true
		c.say("process %d belongs to user %d: this program, of user %d, may not signal it. It can live on when another has %s (use: sudo rowlock run …, not: rowlock run … sudo)", e.Pid, e.Uid, os.Getuid(), quoted(c.keys))
	case guard.Killed:
		if c.refused {
			c.say("the processes of the command are killed (KILL), but for those of other users")
		} else {
			c.say("the processes of the command are killed (KILL)")
		}
	}
	return nil
}

// tooLate is the error of a command that was not run, because the lease had ended before.
func (r *run) tooLate() error {
	r.cut = true
	return &ExitError{Code: exitLost, Err: fmt.Errorf("the lease of %s was lost before the command was started, and it was not run", quoted(r.keys))}
}

// endsWithSession reports whether the key is free as soon as this process is dead, or its session
// with the database: there is no TTL then in which the command could end.
func (r *run) endsWithSession() bool {
	return !r.f.shared && r.f.slots == 0 && r.store.Limits().Queue
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
	next := c.lease.endsFirst()
	switch left := next.Left(); {
	case left == 0: // lost says it
	case c.timeUp():
		c.say("%q was held for nearly --max-hold %s: the command is asked to end (TERM), and killed in %s", next.Key(), short(time.Duration(c.f.maxHold)), grace)
	default:
		c.say("the lease of %q could not be renewed and ends in %s: the command is asked to end (TERM), and killed in %s (look at the database: %s)", next.Key(), short(left), grace, c.store.where)
	}
}

// lost ends the command after the loss of the lease.
func (c *running) lost(err error) {
	c.cut = true
	key, why := c.key, err.Error()
	var lost *rowlock.LostError
	if errors.As(err, &lost) {
		key = lost.Key
		if why = string(lost.Reason); lost.Err != nil {
			why += ", " + lost.Err.Error()
		}
	}
	if lost != nil && c.f.onLost == "term" && !c.endsWithSession() {
		switch lost.Reason {
		case rowlock.ReasonForced, rowlock.ReasonTaken, rowlock.ReasonRemoved:
			c.process.Stop()
			c.say("the lease of %q is lost (%s): the command is asked to end (TERM), and killed in %s", key, lost.Reason, short(time.Duration(c.f.killAfter)))
			return
		}
	}
	c.process.Kill()
	if c.timeUp() {
		c.say("%q was held for --max-hold %s: the command is killed", key, short(time.Duration(c.f.maxHold)))
	} else {
		c.say("the lease of %q is lost (%s): the command is killed", key, why)
	}
}

// sameTerm is how long after the first TERM another one is the same: timeout(1) sends it to the process
// and to its group.
const sameTerm = time.Second

// signal hands a signal on.
func (c *running) signal(s os.Signal) {
	n, _ := s.(syscall.Signal)
	c.toldToEnd = c.toldToEnd || endsRun(s)
	switch {
	case s == syscall.SIGTERM && c.termAt.IsZero():
		c.termAt = time.Now()
		c.process.Stop()
	case s == syscall.SIGTERM:
		if time.Since(c.termAt) >= sameTerm {
			c.process.Kill()
		}
	case !stopsReaders(n):
		c.process.Signal(n)
		if n == sigCont || n == syscall.SIGINT || n == syscall.SIGQUIT {
			c.process.Continue() // what is stopped would not see it
		}
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
	c.say("the command has ended, but processes that it started keep %s (%s): see --leftovers", quoted(c.keys), strings.Join(pids, " "))
}

// result is the exit code.
func (c *running) result() error {
	if c.cut || c.lease.Err() != nil {
		if c.timeUp() && !c.refused { // what was refused may have gone on
			return c.endedByMaxHold(c.code)
		}
		return &ExitError{Code: exitLost, Err: fmt.Errorf("the command was ended with the lease of %s (its own exit code: %d)", quoted(c.keys), c.code)}
	}
	if c.code != 0 {
		return &ExitError{Code: c.code}
	}
	return nil
}
