package enginetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// Programs of a single caller each, which takes the key again right after its
// release, share it: also with one that comes later, and without a push that would
// wake them.
func TestLoopsShareAKey(t *testing.T) {
	watched := 2 * time.Minute
	if testing.Short() {
		watched = 20 * time.Second
	}
	for _, hold := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(hold.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				ctx, cancel := context.WithCancel(context.Background())
				var holds [4]atomic.Int64
				var wg sync.WaitGroup
				loop := func(i int) {
					c, err := rowlock.New(store, rowlock.Options{})
					if err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						defer c.Close(context.Background())
						for {
							l, err := c.Acquire(ctx, "k")
							if err != nil {
								return
							}
							holds[i].Add(1)
							time.Sleep(hold)
							l.Release(context.Background())
						}
					})
				}
				loop(0)
				time.Sleep(time.Minute) // it has had it for itself for long
				loop(1)
				loop(2)
				loop(3)
				time.Sleep(15 * time.Second)
				var before [4]int64
				for i := range holds {
					before[i] = holds[i].Load()
				}
				time.Sleep(watched)
				cancel()
				wg.Wait()
				least, most := int64(1<<62), int64(0)
				for i := range holds {
					n := holds[i].Load() - before[i]
					least, most = min(least, n), max(most, n)
				}
				t.Logf("%d to %d holds", least, most)
				if least == 0 || most > 3*least {
					t.Errorf("holds differ too much")
				}
			})
		})
	}
}

// A client whose key nobody else wants loses next to nothing to fairness.
func TestALoopThatIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := rowlock.New(memory.New(), rowlock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		start, holds, long := time.Now(), 0, time.Hour
		if testing.Short() {
			long = 5 * time.Minute
		}
		for time.Since(start) < long {
			l := acquire(t, c, "k")
			time.Sleep(20 * time.Millisecond)
			l.Release(context.Background())
			holds++
		}
		if most := int(long / (20 * time.Millisecond)); holds < most*98/100 {
			t.Errorf("%d holds, without any wait %d", holds, most)
		}
	})
}
