// P16, P20 and P25: holds of all modes of one key.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var modeCases = []testCase{
	{name: "P16_ReadersWritersAndSlots", run: readersWritersSlots, needs: modes},
	{name: "P16_TrustNeverOverlaps", run: func(t *testing.T, e *env) { modesTrust(t, e, false) }, needs: modes},
	{name: "P16_EverythingFlaky", engine: true, run: func(t *testing.T, e *env) { modesTrust(t, e, true) }, needs: modes},
	{name: "P16_FrozenProcesses", long: true, run: modesFrozen, needs: func(e *env) bool { return modes(e) && freezing(e) }},
	{name: "P16_NotSupported", engine: true, run: modesNotSupported, needs: func(e *env) bool { return !modes(e) }},
	{name: "P20_EveryEndOfAHold", run: modesTokens, needs: modes},
	{name: "P25_PlainCycle", run: plainCycle, needs: func(e *env) bool { return modes(e) && e.counts }},
}

// readersWritersSlots has many callers of all modes in several programs.
func readersWritersSlots(t *testing.T, e *env) {
	const programs = 4
	key, r := e.key(t), newRoom()
	kinds := []member{{mode: driver.Shared}, {mode: driver.Shared}, {mode: driver.Slot, n: 3}, {mode: driver.Slot, n: 5}, {}}
	var wg sync.WaitGroup
	for range programs {
		c := e.client(t, rowlock.Options{})
		for i := range e.load(64) / programs {
			m := kinds[i%len(kinds)]
			wg.Go(func() {
				for range e.rounds(4) {
					if err := r.visit(t, c, key, m, rand.N(3*time.Millisecond)); err != nil {
						t.Errorf("mode %v: %v", m.mode, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	t.Logf("grants %v, at most %d readers and slots at once", r.grants, r.most)
	if r.most < 2 && !t.Failed() {
		t.Error("no two readers or slots held at once")
	}
}

// modesTrust has holders that let their leases run out under the eyes of others, with calls
// that fail or whose replies are lost.
func modesTrust(t *testing.T, e *env, faults bool) {
	key := e.key(t)
	var mu sync.Mutex
	var spans []modeSpan
	var seen atomic.Int64
	goesOn := working(t, e.stress(10), func() bool { return seen.Load() >= fewestSpans })
	var wg sync.WaitGroup
	for p := range 4 {
		c, f := e.faulty(t, rowlock.Options{TTL: e.short})
		if faults {
			for _, op := range []Op{OpAcquire, OpRenew, OpRelease, OpInspect} {
				f.On(op, flaky(e.short/8))
			}
		}
		for i := range 3 {
			m := []member{{mode: driver.Shared}, {mode: driver.Slot, n: 2}, {}}[(p+i)%3]
			wg.Go(func() {
				for goesOn() {
					lease, err := c.Acquire(soon(t), key, append(m.options(), rowlock.NoRenew())...)
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					s := modeSpan{span{token: lease.Token()}, m.mode, lease.Slot()}
					s.watch(lease, rand.N(2*e.short))
					_ = lease.Release(context.Background()) // often lost
					if s.first != 0 {
						seen.Add(1)
					}
					mu.Lock()
					spans = append(spans, s)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	checkModeSpans(t, spans)
}

// flaky is a hook that fails, loses or delays a third of all calls.
func flaky(delay time.Duration) Hook {
	return func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
		switch rand.IntN(12) {
		case 0:
			return Fail(ctx, c, send)
		case 1, 2:
			return LoseReply(ctx, c, send)
		case 3:
			time.Sleep(rand.N(delay))
		}
		return send(ctx)
	}
}

// modesFrozen freezes processes at random moments while they take a key in all modes.
func modesFrozen(t *testing.T, e *env) {
	const freezes = 6
	j := job{Role: "trust", Key: e.key(t), TTL: e.short, For: (freezes + 2) * 3 * e.short / 2}
	kinds := []member{{}, {mode: driver.Shared}, {mode: driver.Shared}, {mode: driver.Slot, n: 1}}
	var children []*process
	for _, m := range kinds {
		j.Shared, j.Slots = m.mode == driver.Shared, m.n
		children = append(children, e.start(t, j))
	}
	e.freezeSome(children, freezes)
	var spans []modeSpan
	for i, p := range children {
		for line := p.next(); line != "done"; line = p.next() {
			s, err := parseSpan(strings.TrimPrefix(line, "span "))
			if err != nil {
				t.Fatalf("a child said %q: %v", line, err)
			}
			spans = append(spans, modeSpan{span: s, mode: kinds[i].mode})
		}
	}
	checkModeSpans(t, spans)
}

// modesNotSupported: a store that lacks a mode is not asked for it.
func modesNotSupported(t *testing.T, e *env) {
	c := e.client(t, rowlock.Options{})
	for _, m := range []member{{mode: driver.Shared}, {mode: driver.Slot, n: 2}} {
		if e.limits.Modes.Has(m.mode) {
			continue
		}
		_, err1 := c.Acquire(soon(t), e.key(t), m.options()...)
		_, err2 := c.TryAcquire(soon(t), e.key(t), m.options()...)
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, rowlock.ErrNotSupported) || !strings.Contains(err.Error(), m.mode.String()) {
				t.Errorf("a store without mode %v: %v, want ErrNotSupported that names it", m.mode, err)
			}
		}
	}
}

// modesTokens ends holds of all modes in every way at once, and looks at the tokens.
func modesTokens(t *testing.T, e *env) {
	const programs = 4
	key, r := e.key(t), newRoom()
	end := time.Now().Add(e.stress(8))
	kinds := []member{{mode: driver.Shared}, {mode: driver.Slot, n: 2}, {}}
	var wg sync.WaitGroup
	for range programs {
		c := e.client(t, rowlock.Options{TTL: e.short})
		for i := range 3 {
			m := kinds[i%len(kinds)]
			wg.Go(func() {
				for time.Now().Before(end) {
					lease, err := c.Acquire(soon(t), key, append(m.options(), rowlock.NoRenew())...)
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					r.enter(t, lease, m)
					if rand.IntN(4) == 0 {
						<-lease.Done() // it expires
					}
					r.leave(lease)
					_ = lease.Release(context.Background())
				}
			})
		}
	}
	if e.reaper {
		s := e.Open(t)
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := s.(driver.Reaper).Reap(soon(t), 24*time.Hour); err != nil {
					t.Errorf("reap: %v", err)
				}
				time.Sleep(e.short / 4)
			}
		})
	}
	wg.Wait()
	t.Logf("grants %v", r.grants)
}

// plainCycle: a key that is never used with Shared or Slots costs what it did before others were.
func plainCycle(t *testing.T, e *env) {
	const cycles = 20
	s := e.Open(t)
	c := e.clientOn(t, s, rowlock.Options{})
	count := func(key string) uint64 {
		release1(t, acquire(t, c, key)) // the first use of a key, and of the Store, may cost more
		before := s.(driver.Counter).Statements()
		for range cycles {
			release1(t, acquire(t, c, key))
		}
		return s.(driver.Counter).Statements() - before
	}
	key := e.key(t)
	until(t, "a plain cycle costs as many statements as before other keys were shared", func() bool {
		before := count(key)
		other := e.key(t)
		release1(t, acquire(t, c, other, rowlock.Shared()))
		release1(t, acquire(t, c, other, rowlock.Slots(3)))
		release1(t, acquire(t, c, other))
		after := count(key)
		t.Logf("%d cycles: %s", cycles, fmt.Sprintf("%d statements, then %d", before, after))
		return after == before
	})
}
