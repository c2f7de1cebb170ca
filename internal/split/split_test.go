package split

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

var errBlocked = errors.New("blocked")

// table is a collection in which some keys are blocked. A command does the keys before the
// first blocked one and is stopped there.
type table struct {
	mu       sync.Mutex
	blocked  []int
	blind    bool // progress cannot be read
	done     map[int]int
	refused  map[int]bool // single keys that were blocked
	commands int
	again    int // keys that were sent singly after a stop of which nothing is known
	failed   []int
}

func newTable(blind bool, blocked ...int) *table {
	return &table{blocked: blocked, blind: blind, done: make(map[int]int), refused: make(map[int]bool)}
}

func (x *table) Send(_ context.Context, entries []int, _ time.Duration) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.commands++
	for _, i := range entries {
		if slices.Contains(x.blocked, i) {
			return Stop(errBlocked, true)
		}
		x.done[i]++
	}
	return nil
}

func (x *table) Resend(ctx context.Context, entries []int, wait time.Duration) error {
	return x.Send(ctx, entries, wait)
}

func (x *table) Progress(_ context.Context, stop error, entries []int) (single, rest []int, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.blind || !errors.Is(stop, errBlocked) {
		return nil, nil, false
	}
	for _, i := range entries {
		switch {
		case x.done[i] > 0:
		case single == nil:
			single = []int{i}
		default:
			rest = append(rest, i)
		}
	}
	return single, rest, true
}

func (x *table) Single(_ context.Context, i int, again bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.commands++
	if again {
		x.again++
	}
	if slices.Contains(x.blocked, i) {
		x.refused[i] = true
		return true
	}
	x.done[i]++
	return false
}

func (x *table) Fail(_ context.Context, entries []int, _ error) {
	x.failed = append(x.failed, entries...)
}

// fixed is a limit that notes what was too short.
type fixed struct{ tooShort int }

func (*fixed) Of(int) time.Duration { return time.Second }
func (l *fixed) TooShort(int)       { l.tooShort++ }

// TestRun: every key is decided, those that are blocked singly, and few commands go out.
func TestRun(t *testing.T) {
	t.Parallel()
	const n = 500
	for _, c := range []struct {
		name     string
		x        *table
		commands int // at most
		again    int
	}{
		{"nothing blocked", newTable(false), 1, 0},
		{"one blocked", newTable(false, 17), 3, 0},
		{"two blocked", newTable(false, 17, 400), 3 + 3*Parts + 4, 8},
		{"progress unknown", newTable(true, 17), 1 + 4*Parts, 8},
		{"all blocked", newTable(false, slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})...), 3 + n*3/2, n - 1},
	} {
		entries := Order(n, func(i int) string { return string(rune('a' + i)) })
		l := new(fixed)
		if err := Run(t.Context(), c.x, entries, l, Parts); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i := range n {
			if blocked := slices.Contains(c.x.blocked, i); blocked != c.x.refused[i] || !blocked && c.x.done[i] == 0 {
				t.Errorf("%s: key %d: done %d times, blocked %v, found blocked %v", c.name, i, c.x.done[i], blocked, c.x.refused[i])
			}
		}
		if c.x.commands > c.commands || c.x.again > c.again || len(c.x.failed) > 0 || l.tooShort > 0 {
			t.Errorf("%s: %d commands, want at most %d; %d of single keys after an unknown stop, want at most %d; failed %v; limit too short %d times",
				c.name, c.x.commands, c.commands, c.x.again, c.again, c.x.failed, l.tooShort)
		}
	}
}

// slow stops its first command although nothing is blocked, or fails it.
type slow struct {
	*table
	first error
}

func (x *slow) Send(ctx context.Context, entries []int, wait time.Duration) error {
	if err := x.first; err != nil {
		x.first = nil
		return err
	}
	return x.table.Send(ctx, entries, wait)
}

// TestRunOnASlowServer: a command that was stopped where nothing is blocked had too little
// time, unless what stopped it was no wait; an error that is no stop is the caller's.
func TestRunOnASlowServer(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		first    error
		tooShort int
		err      error
	}{{Stop(errBlocked, true), 1, nil}, {Stop(errBlocked, false), 0, nil}, {broken, 0, broken}} {
		l := new(fixed)
		x := &slow{newTable(false), c.first}
		if err := Run(t.Context(), x, []int{0, 1, 2}, l, 1); err != c.err || l.tooShort != c.tooShort || c.err == nil && len(x.done) != 3 {
			t.Errorf("first %v: %v, limit too short %d times, %d keys done", c.first, err, l.tooShort, len(x.done))
		}
	}
}

// pace needs its time for every command, and has no key at which one stood.
type pace struct {
	*table
	takes time.Duration
}

func (x pace) Send(ctx context.Context, entries []int, wait time.Duration) error {
	if wait < x.takes {
		x.commands++
		return Stop(errBlocked, true)
	}
	return x.table.Send(ctx, entries, wait)
}

func (x pace) Resend(ctx context.Context, entries []int, wait time.Duration) error {
	return x.Send(ctx, entries, wait)
}

func (pace) Progress(_ context.Context, _ error, entries []int) (single, rest []int, known bool) {
	return nil, entries, true
}

// doubled is a limit that gives twice as much after each stop.
type doubled struct{ wait time.Duration }

func (l *doubled) Of(int) time.Duration { return l.wait }
func (l *doubled) TooShort(int)         { l.wait *= 2 }

// TestRunLearnsThePace: a server that is slower than the commands before let expect gets more time, and not a command for each key.
func TestRunLearnsThePace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes    time.Duration
		commands int
	}{{10, 1}, {20, 2}, {40, 19}, {80, 25}} {
		x := pace{newTable(false), c.takes}
		if err := Run(t.Context(), x, Order(400, func(i int) string { return string(rune('a' + i)) }), &doubled{10}, Parts); err != nil {
			t.Fatal(err)
		}
		if len(x.done) != 400 || x.commands > c.commands {
			t.Errorf("%d keys in %d commands that take %d; want 400 in at most %d", len(x.done), x.commands, c.takes, c.commands)
		}
	}
}

func TestInParallel(t *testing.T) {
	t.Parallel()
	for _, atOnce := range []int{1, 3} {
		var mu sync.Mutex
		running, most, sum := 0, 0, 0
		InParallel(20, atOnce, func(i int) {
			mu.Lock()
			running++
			most, sum = max(most, running), sum+i
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
		})
		if most > atOnce || sum != 190 {
			t.Errorf("%d at once: %d ran, sum %d", atOnce, most, sum)
		}
	}
}
