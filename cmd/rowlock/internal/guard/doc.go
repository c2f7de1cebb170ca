// Package guard runs a command under a lease, so that no process of it outlives the lease.
//
// On Linux three processes take part:
//
//	rowlock run          has the lease and speaks to the database
//	└─ rowlock __guard   this package: starts the command, knows until when the lease is trusted
//	   └─ command        and whatever it starts
//
// The guard is the subreaper of what it starts (prctl(2), PR_SET_CHILD_SUBREAPER): a process whose
// parent dies becomes the guard's child, also one that called setsid(2). So as long as any process of
// the command lives the guard has a child, and it finds all of them below itself in /proc.
//
// The first process tells the guard until when the lease is trusted, again after each renewal. The
// guard asks the processes of the command to end (SIGTERM) when what is left of that falls to the
// grace, and kills them (SIGKILL) shortly before its end. It needs nobody for that: it does so too
// when the first process was killed, which it sees by the end of the pipe between them and does not
// wait for, and when it stands still.
//
// Where the key is free as soon as the first process is dead (KillOrphan) the guard kills at once.
// The other may have the key already then, for the milliseconds that this takes.
//
// To kill is to stop all processes (SIGSTOP), until none is found that was not stopped, and then to
// kill them: a job that starts processes all the time would always be ahead otherwise.
//
// A process of another user may not be signalled (EPERM), for example one that sudo has started. The
// first one that is met is told (Refused). It is waited for, as long as it lives.
//
// Where /proc is that of another PID namespace nothing can be found in it. Then the command and its
// process group are signalled, as on other Unix systems; SeesProcesses tells.
//
// When the guard is killed the kernel kills the command (PR_SET_PDEATHSIG), and what is left becomes
// the child of the first process, which is a subreaper too and ends it. It also ends everything,
// guard included, if the guard has not done so 100 ms before the end of trust. Only where both are
// killed at once can processes go on that the command has started.
//
// On other Unix systems the guard has no such children: it signals the process group of the command.
// On Windows there is no guard: the command alone is ended, by the first process.
package guard

import "time"

const (
	// Spare is how long before the end of trust the command is killed.
	Spare = 200 * time.Millisecond

	// backup is how long before the end of trust the first process kills what the guard has not.
	backup = 100 * time.Millisecond

	// killPause is the time between two rounds of kills: a process that is being killed can have
	// started another one that the round did not see.
	killPause = 20 * time.Millisecond

	// tick bounds every sleep: the clock goes on while the machine sleeps, timers do not.
	tick = time.Second
)

// Leftovers says what becomes of processes that the command has left behind.
type Leftovers string

const (
	Wait  Leftovers = "wait"  // for them
	Kill  Leftovers = "kill"  // end them: TERM, the grace, KILL
	Leave Leftovers = "leave" // they are not looked at
)

// Command is what to run.
type Command struct {
	Path string // of the program
	Args []string
	Env  []string

	// Until is until when the lease is trusted, by [Now].
	Until time.Duration

	// Grace is the time between TERM and KILL.
	Grace time.Duration

	// KillAtLoss leaves TERM out when the lease ends.
	KillAtLoss bool

	// KillOrphan leaves TERM out when the process that has the lease dies: the key is free then.
	KillOrphan bool

	Leftovers Leftovers

	// Group gives the command a process group of its own. Without, it is in that of the calling process, so
	// that the terminal's signals reach it, and a shell can stop it and go on with it.
	Group bool
}

// lead is how long before the end of trust the command is asked to end.
func (c Command) lead() time.Duration {
	if c.KillAtLoss {
		return Spare
	}
	return max(c.Grace, Spare)
}

// Kind is what an [Event] says.
type Kind uint8

const (
	Started Kind = iota + 1 // Pid is that of the command
	Failed                  // it could not be started: Errno, Text; Why is Late if the lease had ended. Nothing follows
	Exited                  // the command itself has ended: Code, Signal
	Asked                   // its processes were asked to end; Why
	Killed                  // its processes were killed, but for those that were Refused
	Refused                 // process Pid, of user Uid, may not be signalled by this one. It comes once
	Gone                    // none of its processes is left. Nothing follows
)

// Why says why the processes of a command are ended.
type Why string

const (
	Late    Why = "late"    // the lease is trusted for the grace only
	Orphan  Why = "orphan"  // the process that has the lease is dead
	Ordered Why = "ordered" // Stop was called
	Left    Why = "left"    // the command left them behind
)

// Event is something that happened to a command.
type Event struct {
	Kind   Kind
	Pid    int
	Uid    int // of Pid
	Code   int // -1: it died of Signal
	Signal int
	Errno  int
	Text   string
	Why    Why

	// GuardDied says that the guard was killed, and the processes ended because of that.
	GuardDied bool
}

// order is what the first process tells the guard. The first one has Start.
type order struct {
	Start  *Command
	Until  time.Duration
	Signal int  // for the command alone
	Go     bool // CONT to all that are stopped
	Stop   bool // TERM to all, KILL after the grace
	Kill   bool // at once
}
