package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// contest is programs of which each has callers that take keys again and again, on a server of which each statement takes a while.
type contest struct {
	programs, callers, keys int
	hold                    time.Duration
	opts                    []rowlock.Option
}

// run tells the holds a second, the statements for one, and the longest wait.
func (c contest) run(t *testing.T) (rate, statements float64, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const warm, seconds = 2 * time.Second, 3
		base := newFaultStore()
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		var mu sync.Mutex
		holds := 0
		counting := false
		stores := make([]*faultStore, c.programs)
		for p := range c.programs {
			f := newFaultStore()
			f.Store = base.Store
			n := 0
			var nmu sync.Mutex
			f.set(func(q call) verdict { // a commit takes longer than a read, and not always the same
				nmu.Lock()
				defer nmu.Unlock()
				n++
				d := time.Duration(500+(n*389+p*211)%900) * time.Microsecond
				if q.op != "inspect" {
					d *= 2
				}
				return verdict{delay: d / 2, slow: d / 2}
			})
			stores[p] = f
			client := newClient(t, f)
			for w := range c.callers {
				wg.Go(func() {
					which := rand.New(rand.NewPCG(uint64(p), uint64(w)))
					for ctx.Err() == nil {
						began := time.Now()
						lease, err := client.Acquire(ctx, fmt.Sprint("k", which.IntN(c.keys)), c.opts...)
						mu.Lock()
						if counting {
							longest = max(longest, time.Since(began))
							holds++
						}
						mu.Unlock()
						if err != nil {
							return
						}
						time.Sleep(c.hold*3/4 + time.Duration(which.Int64N(int64(c.hold)/2)))
						lease.Release(context.Background())
					}
				})
			}
		}
		sent := func() (n int) {
			for _, f := range stores {
				n += len(f.all())
			}
			return n
		}
		time.Sleep(warm)
		before := sent()
		mu.Lock()
		counting = true
		mu.Unlock()
		time.Sleep(seconds * time.Second)
		mu.Lock()
		counting = false
		rate, statements = float64(holds)/seconds, float64(sent()-before)/float64(holds)
		mu.Unlock()
		cancel()
		wg.Wait()
		time.Sleep(500 * time.Millisecond)
		for i := range c.keys { // whoever has left stands nowhere
			infos, err := base.Inspect(context.Background(), []string{fmt.Sprint("k", i)})
			if err != nil || infos[0].Waiting > 0 {
				t.Errorf("programs that stand for key %d when nobody waits any more: %d, %v", i, infos[0].Waiting, err)
			}
		}
	})
	return rate, statements, longest
}

// TestPaceOfALine: programs that stand for a hot key look when it is passed to them, with few statements: no key rests for long beside
// programs that stand for it. Its time is that of a test bubble, so that no load changes it.
func TestPaceOfALine(t *testing.T) {
	fair := []rowlock.Option{rowlock.Fair()}
	for _, c := range []struct {
		contest
		rate, statements float64
		longest          time.Duration
		long             bool
	}{
		{contest{programs: 4, callers: 1, keys: 1, hold: 20 * time.Millisecond}, 38, 6, time.Second, false},
		{contest{programs: 4, callers: 2, keys: 1, hold: 20 * time.Millisecond}, 38, 3, time.Second, true},
		{contest{programs: 4, callers: 8, keys: 1, hold: 20 * time.Millisecond}, 40, 2.5, time.Second, false},
		{contest{programs: 16, callers: 4, keys: 1, hold: 5 * time.Millisecond}, 150, 2.5, time.Second, false},
		{contest{programs: 64, callers: 4, keys: 1, hold: 5 * time.Millisecond}, 150, 2.5, 2500 * time.Millisecond, true},
		{contest{programs: 16, callers: 4, keys: 64, hold: 5 * time.Millisecond}, 3000, 3.5, time.Second, true},
		{contest{programs: 4, callers: 8, keys: 1, hold: 20 * time.Millisecond, opts: fair}, 33, 5, 1500 * time.Millisecond, false},
		{contest{programs: 16, callers: 4, keys: 1, hold: 5 * time.Millisecond, opts: fair}, 90, 5, 1500 * time.Millisecond, false},
		{contest{programs: 64, callers: 4, keys: 1, hold: 5 * time.Millisecond, opts: fair}, 90, 7, 4 * time.Second, true},
	} {
		name := fmt.Sprintf("%d×%d, %d keys, %d options", c.programs, c.callers, c.keys, len(c.opts))
		t.Run(name, func(t *testing.T) {
			if c.long {
				testserver.Long(t)
			}
			rate, statements, longest := c.run(t)
			t.Logf("%.0f holds a second, %.1f statements for each, the longest wait %v", rate, statements, longest)
			if rate < c.rate || statements > c.statements || longest > c.longest {
				t.Errorf("want at least %.0f holds a second, at most %.1f statements for each, no wait above %v", c.rate, c.statements, c.longest)
			}
		})
	}
}
