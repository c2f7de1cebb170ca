package fleet

import (
	"fmt"
	"io"
	"time"
)

// Log prints what happens to a crew, with the time since it was made, and counts
// it.
type Log struct {
	Begin          time.Time
	Kills, Freezes int
	Alerts         []error // what somebody must look at

	w       io.Writer
	role    string
	stirred map[int]bool // members that stood still and have not settled since
}

// NewLog makes one for a crew whose members are called by their role.
func NewLog(w io.Writer, role string) *Log {
	return &Log{Begin: time.Now(), w: w, role: role, stirred: map[int]bool{}}
}

// Say prints a line.
func (l *Log) Say(format string, args ...any) {
	fmt.Fprintf(l.w, "%6.1f s  %s\n", time.Since(l.Begin).Seconds(), fmt.Sprintf(format, args...))
}

// Alert prints and notes what somebody must look at.
func (l *Log) Alert(format string, args ...any) {
	l.Alerts = append(l.Alerts, fmt.Errorf(format, args...))
	l.Say("ALERT: "+format, args...)
}

// Killed notes that a member is killed.
func (l *Log) Killed(member int) {
	l.Kills++
	l.Settled(member)
	l.Say("%s %d is killed (kill -9), another is started", l.role, member)
}

// Frozen notes that a member stands still from now on.
func (l *Log) Frozen(member int, d time.Duration) {
	l.Freezes++
	l.stirred[member] = true
	l.Say("%s %d stands still for %v", l.role, member, d)
}

// Thawed notes that a member goes on. It does not know yet that it stood still.
func (l *Log) Thawed(member int) { l.Say("%s %d goes on", l.role, member) }

// Failed notes that a member ended and nobody killed it.
func (l *Log) Failed(member int, err error) {
	l.Settled(member)
	l.Alert("%s %d: %v", l.role, member, err)
}

// Settled notes that a member which stood still has noticed, or has nothing of
// then left to do.
func (l *Log) Settled(member int) { delete(l.stirred, member) }

// Stirred reports whether a member stood still and has not settled since: it may
// have a surprise yet, and an error of it is none for an alert.
func (l *Log) Stirred(member int) bool { return l.stirred[member] }

// Calm reports whether no member is stirred.
func (l *Log) Calm() bool { return len(l.stirred) == 0 }
