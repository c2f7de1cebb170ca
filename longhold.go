package rowlock

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// A lease that its holder forgot is renewed for as long as the program lives, and
// nobody else gets the key. Nothing tells it from one that is in use; so after a while
// the log says who took it.

// defaultLongHold is Options.LongHold if it is not set.
const defaultLongHold = time.Hour

// takers is where a lease was taken: program counters, resolved only if they are
// logged. Enough to look past Do and a few Lockers around a Client.
type takers [5]uintptr

// took notes who took the lease, if that may be logged. Called by what users call.
func (l *Lease) took() {
	if l.c.longHold <= 0 || l.g.Terms.NoRenew || l.g.Terms.MaxHold > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	runtime.Callers(3, l.takers[:]) // the caller of Acquire or TryAcquire
}

// heldLong logs a lease that is held for long, once.
func (l *Lease) heldLong(now time.Duration) {
	if l.c.longHold <= 0 || now-l.began < l.c.longHold {
		return
	}
	l.mu.Lock()
	by := l.takers
	l.takers = takers{}
	held := l.ended == nil
	l.mu.Unlock()
	if by[0] == 0 || !held {
		return
	}
	l.c.log.Info("a lease is held for long; if it was forgotten, release it, or set MaxHold",
		"key", l.Key(), "token", l.token, "hold", l.g.Hold.ID, "for", now-l.began, "at", by.String())
}

// String is the file and line of the call of Do, Acquire or TryAcquire: the first that
// is neither in this package nor in a method of these names, of a program's own Locker.
func (t takers) String() string {
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
