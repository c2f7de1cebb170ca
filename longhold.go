package rowlock

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/rowlock/rowlock/internal/logs"
)

// A lease that its holder forgot is renewed for as long as the program lives, and no other
// caller gets the key. It cannot be told from a lease that is in use. So after LongHold the
// log names the line that acquired it.

// defaultLongHold is Options.LongHold if it is not set.
const defaultLongHold = time.Hour

// callSite is where a lease was acquired: program counters, resolved only if they are
// logged, and enough of them to skip Do and a few Lockers around a Client.
type callSite [5]uintptr

// noteCallSite notes where the lease was acquired, if that may be logged. Called by the
// functions that users call.
func (l *Lease) noteCallSite() {
	if l.c.longHold <= 0 || l.g.Terms.NoRenew || l.g.Terms.MaxHold > 0 || l.view != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	runtime.Callers(3, l.callSite[:]) // the caller of Acquire or TryAcquire
}

// logLongHold logs a lease that is held for long, once.
func (l *Lease) logLongHold(now time.Duration) {
	if l.c.longHold <= 0 || now-l.began < l.c.longHold {
		return
	}
	l.mu.Lock()
	by := l.callSite
	l.callSite = callSite{}
	held := l.ended == nil
	l.mu.Unlock()
	if by[0] == 0 || !held || l.leads.Load() { // a leader holds for as long as it leads
		return
	}
	l.c.log.Info("a lease is held for long; if it was forgotten, release it, or set MaxHold",
		logs.Attrs(l.Key(), l.g.Hold.Mode, "token", l.token, "hold", l.g.Hold.ID, "for", now-l.began, "at", by.String())...)
}

// String is the file and line of the call of Do, Acquire or TryAcquire: the first that
// is neither in this package nor in a method of these names, of a program's own Locker.
func (t callSite) String() string {
	n := 0
	for n < len(t) && t[n] != 0 {
		n++
	}
	first := ""
	for frames, more := runtime.CallersFrames(t[:n]), n > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		at := fmt.Sprintf("%s:%d", f.File, f.Line)
		first = cmp.Or(first, at)
		own := strings.HasPrefix(f.Function, "github.com/rowlock/rowlock.")
		if !own && !strings.HasSuffix(f.Function, ".Acquire") && !strings.HasSuffix(f.Function, ".TryAcquire") {
			return at
		}
	}
	return first
}
