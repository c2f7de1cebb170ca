package logs

import (
	"context"
	"sync"
)

// Loop is a loop that lives as long as its program: of Lead, of Every, of the reaper, of an observed key. What the database refuses for
// good at the loop's first use is an error for its caller. Later somebody may be about to mend it (a password that is rotated, a grant
// that was taken away, a table that a restore replaces), so the loop says so, waits, and goes on. The zero value has not worked yet.
type Loop struct {
	mu      sync.Mutex
	report  *Failures // Report.Loops of the client that it works with; nil: not known yet
	worked  bool
	refused int       // times in a row
	counted *Failures // which counts it as failing; nil: none does
}

// Use names the report of the client that the loop works with.
func (l *Loop) Use(r *Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report = &r.Loops
}

// Worked notes that the database has answered the loop: with what it wanted, or that another has it.
func (l *Loop) Worked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worked, l.refused = true, 0
	l.failsNoMore()
}

// Refused notes that the database refuses what the loop needs, and logs it with attrs. n is how many times in a row it has; ok reports
// whether the loop is to go on, because it has worked before.
func (l *Loop) Refused(ctx context.Context, attrs ...any) (n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.worked || l.report == nil {
		return 0, false
	}
	l.refused++
	if l.counted == nil {
		l.counted = l.report
		l.counted.More(1)
	}
	l.counted.Fail(ctx, 0, attrs...)
	return l.refused, true
}

// Over notes the end of the loop.
func (l *Loop) Over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failsNoMore()
}

func (l *Loop) failsNoMore() {
	if l.counted != nil {
		l.counted.Less(1)
		l.counted.OK()
		l.counted = nil
	}
}
