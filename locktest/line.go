// P29: first come, first served among programs.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var lineCases = []testCase{
	{name: "P29_ProgramsInOrder", run: func(t *testing.T, e *env) { programsInOrder(t, e, 1) }, needs: lines},
	{name: "P29_SlotsInOrder", run: func(t *testing.T, e *env) { programsInOrder(t, e, 2, rowlock.Slots(2)) }, needs: linesOfModes},
	{name: "P29_TryAcquirePassesNoLine", run: func(t *testing.T, e *env) { newcomers(t, e) }, needs: lines},
	{name: "P29_TheDeadCostOneClaim", run: deadFirst, needs: lines},
	{name: "P29_GivenUpAtThePass", run: givenUpAtPass, needs: lines},
	{name: "P29_GivenUpAroundThePass", run: givenUpAroundPass, needs: lines},
	{name: "P29_LocalCallersLeaveTheKey", run: localCallersLeave, needs: lines},
	{name: "P29_Waiting", run: waitingCounted, needs: lines},
}

// die lets nothing of a client through any more: to the others it has died.
func die(f *Fault) {
	for _, op := range []Op{OpAcquire, OpRenew, OpRelease, OpInspect, OpLook} {
		f.On(op, Fail)
	}
}

// claimOf tells for how long a client asks to have the key when it is passed to it.
func claimOf(f *Fault) (claim func() time.Duration) {
	var last atomic.Int64
	f.On(OpAcquire, func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
		for _, q := range c.Requests {
			if q.Stand {
				last.Store(int64(q.Claim))
			}
		}
		return send(ctx)
	})
	return func() time.Duration { return time.Duration(last.Load()) }
}

// deadFirst: a program that dies first in the line costs its claim, and several together no more than the life of an entry
// and the claim of one that was passed the key at its end.
func deadFirst(t *testing.T, e *env) {
	s := e.Open(t)
	for _, dead := range []int{1, 4} {
		steadily(t, s, func() string {
			key := e.key(t)
			holder, last := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
			first := acquire(t, holder, key)
			ctx, cancel := context.WithCancel(soon(t))
			var wg sync.WaitGroup
			var claim func() time.Duration
			var faults []*Fault
			defer func() {
				for _, f := range faults {
					f.Clear()
				}
				cancel()
				wg.Wait()
			}()
			for i := range dead {
				c, f := e.faulty(t, rowlock.Options{})
				claim, faults = claimOf(f), append(faults, f)
				wg.Go(func() { _, _ = c.Acquire(ctx, key) })
				inLine(t, s, key, i+1)
			}
			lease := acquiring(t, last, key)
			inLine(t, s, key, dead+1)
			for _, f := range faults {
				die(f)
			}
			began := time.Now()
			release1(t, first)
			release1(t, lease())
			took, bound := time.Since(began), claim()+time.Second
			if dead > 1 {
				bound += driver.EntryTime
			}
			if took > bound {
				return fmt.Sprintf("P29: %d dead programs in the line cost %v, at most %v", dead, took, bound)
			}
			return ""
		})
	}
}

// givenUpAtPass: a caller gives up when its program has just learned that the key is its own. The next has it at once,
// not after the claim.
func givenUpAtPass(t *testing.T, e *env) {
	s := e.Open(t)
	steadily(t, s, func() string {
		key := e.key(t)
		holder, next := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
		c, f := e.faulty(t, rowlock.Options{})
		claim := claimOf(f)
		first := acquire(t, holder, key)
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		gone := make(chan struct{})
		var once sync.Once
		f.On(OpLook, func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
			_, err := send(ctx)
			if err == nil && c.Views[0].Mine {
				once.Do(func() { cancel(); <-gone })
			}
			return nil, err
		})
		var err error
		go func() {
			defer close(gone)
			_, err = c.Acquire(ctx, key)
		}()
		inLine(t, s, key, 1)
		lease := acquiring(t, next, key)
		inLine(t, s, key, 2)
		release1(t, first)
		closed(t, "the caller gives up", gone)
		if !errors.Is(err, context.Canceled) {
			return fmt.Sprintf("P29: an acquire that was given up at the pass: %v", err)
		}
		began := time.Now()
		release1(t, lease())
		if took := time.Since(began); took > claim()*3/4 {
			return fmt.Sprintf("P29: a caller that gave up at the pass cost %v of a claim of %v", took, claim())
		}
		return ""
	})
}

// givenUpAroundPass gives up at any moment around the pass.
func givenUpAroundPass(t *testing.T, e *env) {
	a, b, c := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	s, key := e.Open(t), e.key(t)
	for range 10 {
		first := acquire(t, a, key)
		ctx, cancel := context.WithCancel(soon(t))
		left := make(chan error, 1)
		go func() {
			l, err := b.Acquire(ctx, key)
			if err == nil {
				err = l.Release(context.Background())
			}
			left <- err
		}()
		inLine(t, s, key, 1)
		lease := acquiring(t, c, key)
		go func() {
			time.Sleep(rand.N(10 * time.Millisecond))
			cancel()
		}()
		time.Sleep(rand.N(5 * time.Millisecond))
		release1(t, first)
		release1(t, lease())
		if err := <-left; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("P29: a caller that gave up: %v", err)
		}
	}
	freeSoon(t, a, key)
	until(t, "nobody stands", func() bool { return line(t, s, key) == 0 })
}

// localCallersLeave: six callers of one program have the key in turn, for Handoff. Then another program that stands has it.
func localCallersLeave(t *testing.T, e *env) {
	const callers = 6
	const hold, handoff = 40 * time.Millisecond, 70 * time.Millisecond // the third hold in a row would begin after 80 ms
	s := e.Open(t)
	steadily(t, s, func() string {
		key := e.key(t)
		holder := e.client(t, rowlock.Options{})
		a, b := e.client(t, rowlock.Options{Handoff: handoff}), e.client(t, rowlock.Options{})
		first := acquire(t, holder, key)
		var passed atomic.Bool
		var inARow atomic.Int64
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx := soon(t)
		for range callers {
			wg.Go(func() {
				for range 20 {
					l, err := a.Acquire(ctx, key)
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					if passed.Load() {
						release1(t, l)
						return
					}
					inARow.Add(1)
					time.Sleep(hold)
					release1(t, l)
				}
			})
		}
		until(t, "its callers wait", func() bool { return a.Stats().Waiting == callers })
		inLine(t, s, key, 1)
		lease := acquiring(t, b, key)
		inLine(t, s, key, 2)
		release1(t, first)
		l := lease()
		n := inARow.Load()
		passed.Store(true)
		release1(t, l)
		if n > 2 {
			return fmt.Sprintf("P29: callers of one program had the key %d times in a row for %v each, with a Handoff of %v", n, hold, handoff)
		}
		return ""
	})
}

// waitingCounted: Inspect counts the programs that wait, and none that has the key.
func waitingCounted(t *testing.T, e *env) {
	s := e.Open(t)
	holder, a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	steadily(t, s, func() string {
		key := e.key(t)
		waiting := func(want int, when string) string {
			info, err := holder.Inspect(soon(t), key)
			if err != nil {
				t.Fatalf("inspect: %v", err)
			}
			if info.Waiting != want || info.WaitingSince.IsZero() != (want == 0) {
				return fmt.Sprintf("P29: %s: %d wait since %v, want %d", when, info.Waiting, info.WaitingSince, want)
			}
			return ""
		}
		first := acquire(t, holder, key)
		wrong := []string{waiting(0, "while one holds")}
		la := acquiring(t, a, key)
		inLine(t, s, key, 1)
		wrong = append(wrong, waiting(1, "while one waits"))
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		left := make(chan error, 1)
		go func() { // a second caller of the same program
			_, err := a.Acquire(ctx, key)
			left <- err
		}()
		until(t, "two callers of one program wait", func() bool { return a.Stats().Waiting == 2 })
		lb := acquiring(t, b, key)
		inLine(t, s, key, 2)
		wrong = append(wrong, waiting(2, "while two programs wait"))
		cancel()
		<-left
		wrong = append(wrong, waiting(2, "after one of two callers gave up"))
		release1(t, first)
		l := la()
		wrong = append(wrong, waiting(1, "when the first was granted"))
		release1(t, l)
		l = lb()
		wrong = append(wrong, waiting(0, "when the last was granted"))
		release1(t, l)
		wrong = append(wrong, waiting(0, "when all have left"))
		for _, w := range wrong {
			if w != "" {
				return w
			}
		}
		return ""
	})
}
