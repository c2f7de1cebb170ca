package guard

import (
	"bytes"
	"cmp"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rowlock/rowlock/internal/clock"
)

// Now is a clock that all processes of the machine share; it goes on while the machine sleeps.
func Now() time.Duration { return clock.Now() }

// adopt makes this process the parent of its descendants whose own parents die.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// attributes are those of the command: it is killed when its guard dies.
func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGKILL}
}

// SeesProcesses reports whether the processes of this PID namespace are those of /proc.
var SeesProcesses = sync.OnceValue(func() bool {
	self, err := os.Readlink(procSelf)
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// procSelf leads to the folder of the process that reads it.
var procSelf = "/proc/self"

// tellAll sends a signal to all processes below this one but those in done, to which it adds
// them. A process that is stopped gets CONT too, so that it sees the signal. A process that began
// after the first look for done is left alone: who was told to end has started it, to tidy up.
func tellAll(command int, s syscall.Signal, done *told) (refused *Refusal) {
	if !SeesProcesses() {
		return tellGroup(command, s, done)
	}
	first := done != nil && done.since == 0
	if first {
		done.since = Now()
	}
	for _, pid := range below(os.Getpid()) {
		if done != nil && (done.pids[pid] || !first && began(pid) >= done.since-tickOfProc) {
			continue
		}
		if done == nil || !first || !done.hasGroup(pid) {
			refused = cmp.Or(refused, send(pid, s))
		}
		_ = send(pid, syscall.SIGCONT)
		if done != nil {
			done.pids[pid] = true
		}
	}
	return refused
}

// goOn lets those go on that are stopped.
func goOn(command int) {
	if !SeesProcesses() {
		_ = tellGroup(command, syscall.SIGCONT, nil)
	}
	for _, pid := range below(os.Getpid()) {
		if fields := statFields(pid); len(fields) > 0 && fields[0][0] == 'T' {
			_ = send(pid, syscall.SIGCONT)
		}
	}
}

// killAll kills all processes below this one but spare. None of them can start another one
// meanwhile, because all are stopped first.
func killAll(command, guard, spare int) (refused *Refusal) {
	if !SeesProcesses() {
		if guard != spare {
			_ = send(guard, syscall.SIGKILL)
		}
		return tellGroup(command, syscall.SIGKILL, nil)
	}
	stopped := make(map[int]bool)
	for range stopRounds {
		before := len(stopped)
		walk(os.Getpid(), func(pid int) {
			if pid != spare && !stopped[pid] {
				stopped[pid] = true
				refused = cmp.Or(refused, send(pid, syscall.SIGSTOP))
			}
		})
		if len(stopped) == before {
			break
		}
	}
	for pid := range stopped {
		_ = send(pid, syscall.SIGKILL)
	}
	return refused
}

// stopRounds bounds the looks for processes that are not stopped yet. What is left then is killed
// in the next round of kills.
const stopRounds = 10

// uidOf is the user of a process: the real one, also where the process hides what it is.
func uidOf(pid int) int {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	_, after, _ := bytes.Cut(text, []byte("\nUid:"))
	if fields := bytes.Fields(after); len(fields) > 0 {
		if uid, err := strconv.Atoi(string(fields[0])); err == nil {
			return uid
		}
	}
	return -1
}

// ended reports whether a process is dead. Nobody may have asked for its exit code yet.
func ended(pid int) bool {
	_, dead := status(pid)
	return dead
}

// alive reports whether processes of the command live that are nobody's child here: every one is.
func alive(int) bool { return false }

// living are the processes below one that have not ended.
func living(root int) (pids []int) {
	for _, pid := range below(root) {
		if _, dead := status(pid); !dead {
			pids = append(pids, pid)
		}
	}
	return pids
}

// below are the processes below one. One that begins or ends meanwhile may be left out: who must
// have all asks again.
func below(root int) (pids []int) {
	walk(root, func(pid int) { pids = append(pids, pid) })
	return pids
}

// walk shows each process below one, before it looks for the children of that.
func walk(root int, found func(pid int)) {
	if !SeesProcesses() {
		return
	}
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err != nil {
		for _, pid := range belowByParents(root) { // a kernel without CONFIG_PROC_CHILDREN
			found(pid)
		}
		return
	}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		folder := "/proc/" + strconv.Itoa(queue[0]) + "/task/"
		tasks, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended
		}
		for _, task := range tasks {
			text, _ := os.ReadFile(folder + task.Name() + "/children")
			for _, field := range bytes.Fields(text) {
				if pid, err := strconv.Atoi(string(field)); err == nil {
					found(pid)
					queue = append(queue, pid)
				}
			}
		}
	}
}

// belowByParents finds them by asking each process of the machine for its parent.
func belowByParents(root int) (pids []int) {
	children := make(map[int][]int)
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			parent, _ := status(pid)
			children[parent] = append(children[parent], pid)
		}
	}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		pids, queue = append(pids, children[queue[0]]...), append(queue, children[queue[0]]...)
	}
	return pids
}

// tickOfProc is the grain of the times in /proc: USER_HZ is 100 everywhere.
const tickOfProc = 10 * time.Millisecond

// began is when a process began, by Now, rounded down to a tick.
func began(pid int) time.Duration {
	fields := statFields(pid)
	if len(fields) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseInt(string(fields[19]), 10, 64)
	return time.Duration(ticks) * tickOfProc
}

// status reads who the parent of a process is, and whether it has ended.
func status(pid int) (parent int, dead bool) {
	fields := statFields(pid)
	if len(fields) < 2 {
		return 0, true
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	return parent, fields[0][0] == 'Z' || fields[0][0] == 'X'
}

// statFields are those of /proc/PID/stat after the name: state, parent, and so on. None: it has ended.
func statFields(pid int) [][]byte {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// pid (name) state ppid …; the name can have anything in it, brackets too.
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}
