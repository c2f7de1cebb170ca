package mysqllock

import (
	"cmp"
	"math"
	"testing"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A test must hold on a machine that is as busy as can be. So it waits for what must
// come, with a bound that only something wrong reaches; of what must be fast the best
// try counts; and statements are counted where a slow answer adds none.

// patience is how long a test waits for what must come.
const patience = time.Minute

// eventually asks until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// best repeats what measures something until that is no more than most. A busy machine
// makes some tries slow, something wrong all of them.
func best[N cmp.Ordered](t testing.TB, what string, most N, measure func() N) {
	t.Helper()
	least := measure()
	for tries, end := 1, time.Now().Add(patience/2); least > most && !t.Failed(); tries++ {
		if tries >= 10 && time.Now().After(end) {
			t.Errorf("%s: %v, the best of %d tries, want at most %v", what, least, tries, most)
			return
		}
		least = min(least, measure())
	}
}

// soon is best for how long a step takes.
func soon(t testing.TB, what string, most time.Duration, step func()) {
	t.Helper()
	best(t, what, most, func() time.Duration {
		start := time.Now()
		step()
		return time.Since(start)
	})
}

// near makes the store forget how slow its server was, so that it ends what waits by
// KILL, and soon: its connections are opened anew.
func (c client) near() {
	c.t.Helper()
	for _, l := range []*conn.Pool{c.db.Acquires, c.db.Renewals, c.db.Releases} {
		l.CloseIdle()
		conn, err := l.Get(within(c.t, patience))
		must(c.t, err)
		conn.Put()
	}
	c.db.AssumeUsualAnswer(0)
}

// soon is the same for a step that a KILL ends.
func (c client) soon(what string, most time.Duration, step func()) {
	c.t.Helper()
	best(c.t, what, most, func() time.Duration {
		c.near()
		start := time.Now()
		step()
		return time.Since(start)
	})
}

// calm lets the store open what it opens beside its first use, and makes it wait for
// slow answers: to end a statement, and to look at what it waited for, are statements
// too.
func (c client) calm() {
	c.t.Helper()
	c.inspect("calm")
	c.db.AwaitBackground()
	c.db.AssumeUsualAnswer(math.MaxInt64 / 8)
}

// undisturbed repeats what counts statements until it takes less time than a statement
// must be unanswered to be asked about, which is another statement.
func undisturbed[T any](count func() T) T {
	for end := time.Now().Add(patience); ; {
		start := time.Now()
		n := count()
		if took := time.Since(start); took < conn.SilentFor || time.Now().After(end) {
			return n
		}
	}
}
