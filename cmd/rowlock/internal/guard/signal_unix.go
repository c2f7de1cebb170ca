//go:build unix

package guard

import (
	"errors"
	"syscall"
	"time"
)

// Refusal is a process that this one may not signal.
type Refusal struct{ Pid, Uid int }

// kill is kill(2); tests have another one.
var kill = syscall.Kill

// send sends a signal to a process, which may have ended meanwhile.
func send(pid int, s syscall.Signal) *Refusal {
	if pid > 0 && errors.Is(kill(pid, s), syscall.EPERM) && !ended(pid) {
		return &Refusal{Pid: pid, Uid: uidOf(pid)}
	}
	return nil
}

// tellGroup sends a signal to the process group of the command, or to the command if it has none of
// its own, once where done is given.
func tellGroup(command int, s syscall.Signal, done *told) (refused *Refusal) {
	if command == 0 || done != nil && done.pids[command] {
		return nil
	}
	if kill(-command, s) != nil && (done == nil || !done.group) {
		refused = send(command, s)
	}
	if s != syscall.SIGCONT && s != syscall.SIGKILL && kill(-command, syscall.SIGCONT) != nil {
		_ = send(command, syscall.SIGCONT)
	}
	if done != nil {
		done.pids[command] = true
	}
	return refused
}

// told are the processes that were sent a signal, once each.
type told struct {
	pids  map[int]bool
	since time.Duration // when the first look for them began, by Now; 0: none did
	group bool          // somebody else has sent it to all of this process group
}

func newTold() *told { return &told{pids: make(map[int]bool)} }

// hasGroup reports whether a process has had the signal with this process group.
func (t *told) hasGroup(pid int) bool {
	if !t.group {
		return false
	}
	group, err := syscall.Getpgid(pid)
	return err == nil && group == syscall.Getpgrp()
}
