package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// audit is an Observer that keeps what it is told, as lines.
type audit struct {
	on func(what string) // called for each; may be nil

	mu       sync.Mutex
	lines    []string
	starts   []rowlock.AcquireStart
	acquires []rowlock.AcquireEnd
	leases   []rowlock.LeaseEnd
	renewals []rowlock.Renewed
	calls    []rowlock.Called
	reaped   []rowlock.Reaped
}

// spanKey is what an audit writes into contexts.
type spanKey string

func (a *audit) note(what string, do func()) {
	a.mu.Lock()
	a.lines = append(a.lines, what)
	if do != nil {
		do()
	}
	a.mu.Unlock()
	if a.on != nil {
		a.on(what)
	}
}

func (a *audit) observer() *rowlock.Observer {
	return &rowlock.Observer{
		ClientStart: func(c *rowlock.Client) { a.note("client start "+c.Name(), nil) },
		ClientEnd:   func(c *rowlock.Client) { a.note("client end "+c.Name(), nil) },
		AcquireStart: func(ctx context.Context, e rowlock.AcquireStart) context.Context {
			a.note("acquire start "+e.Key, func() { a.starts = append(a.starts, e) })
			return context.WithValue(ctx, spanKey("acquire"), "acquire of "+e.Key)
		},
		AcquireEnd: func(ctx context.Context, e rowlock.AcquireEnd) {
			a.note(fmt.Sprintf("acquire end %s (%v)", e.Key, ctx.Value(spanKey("acquire"))), func() { a.acquires = append(a.acquires, e) })
		},
		HoldStart: func(ctx context.Context, l *rowlock.Lease) context.Context {
			a.note(fmt.Sprintf("hold start %s (%v)", l.Key(), ctx.Value(spanKey("acquire"))), nil)
			return context.WithValue(ctx, spanKey("hold"), "hold of "+l.Key())
		},
		LeaseEnd: func(ctx context.Context, e rowlock.LeaseEnd) {
			a.note(fmt.Sprintf("lease end %s (%v, %v, %v)", e.Key, ctx.Value(spanKey("acquire")), ctx.Value(spanKey("hold")), ctx.Err()),
				func() { a.leases = append(a.leases, e) })
		},
		Renewed: func(e rowlock.Renewed) {
			a.note("renewed "+e.Key, func() { a.renewals = append(a.renewals, e) })
		},
		Called: func(e rowlock.Called) {
			a.note("called "+e.Op, func() { a.calls = append(a.calls, e) })
		},
		Reaped: func(e rowlock.Reaped) {
			a.note(fmt.Sprint("reaped ", e.Rows), func() { a.reaped = append(a.reaped, e) })
		},
	}
}

// got are the lines that begin with one of the words, in order, after what is queued was told.
func (a *audit) got(words ...string) (lines []string) {
	time.Sleep(time.Second)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.lines {
		for _, w := range words {
			if strings.HasPrefix(line, w) {
				lines = append(lines, line)
				break
			}
		}
	}
	return lines
}

// ended are the ends of leases, after what is queued was told.
func (a *audit) ended() []rowlock.LeaseEnd {
	time.Sleep(time.Second)
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]rowlock.LeaseEnd(nil), a.leases...)
}

// want fails the test unless the lines that begin with these words are these.
func (a *audit) want(t *testing.T, words []string, want ...string) {
	t.Helper()
	if got := a.got(words...); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// observed are the options of a client with these observers.
func observed(all ...*audit) (o rowlock.Options) {
	for _, a := range all {
		o.Observers = append(o.Observers, a.observer())
	}
	return o
}
