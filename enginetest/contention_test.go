package enginetest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// distantStore is a memory store whose calls take a millisecond or two.
type distantStore struct{ driver.Store }

func (s distantStore) Now() time.Duration { return s.Store.(driver.Clock).Now() }

func (s distantStore) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	time.Sleep(time.Millisecond/2 + rand.N(time.Millisecond))
	defer time.Sleep(rand.N(time.Millisecond))
	return s.Store.Acquire(ctx, reqs)
}

func (s distantStore) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	time.Sleep(time.Millisecond/2 + rand.N(time.Millisecond))
	return s.Store.Inspect(ctx, keys)
}

func (s distantStore) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	time.Sleep(time.Millisecond/2 + rand.N(time.Millisecond))
	return s.Store.(driver.Liner).Look(ctx, entries)
}

func (s distantStore) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	time.Sleep(time.Millisecond/2 + rand.N(time.Millisecond))
	defer time.Sleep(rand.N(time.Millisecond))
	return s.Store.Release(ctx, holds)
}

// TestContention: programs that nothing wakes share a key, and nobody waits for
// long. The bounds are about twice what is seen.
func TestContention(t *testing.T) {
	for _, tc := range []struct {
		name              string
		programs, callers int
		hold              time.Duration
		rate              int           // holds a second, at least
		share             float64       // of the program with the most holds to that with the fewest, at most
		longest           time.Duration // wait
	}{
		{"one program", 1, 32, 20 * time.Millisecond, 48, 1, 700 * time.Millisecond},
		{"4 programs of 8", 4, 8, 20 * time.Millisecond, 33, 1.8, 5 * time.Second},
		{"4 programs of 1", 4, 1, 20 * time.Millisecond, 18, 1.8, 3 * time.Second},
		{"16 programs of 4", 16, 4, 5 * time.Millisecond, 130, 4, 12 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := distantStore{memory.New()}
				ctx, cancel := context.WithCancel(context.Background())
				var mu sync.Mutex
				holds := make([]int, tc.programs)
				var longest time.Duration
				var wg sync.WaitGroup
				for i := range tc.programs {
					c := newClient(t, store, rowlock.Options{})
					for range tc.callers {
						wg.Go(func() {
							for {
								since := time.Now()
								l, err := c.Acquire(ctx, "k")
								mu.Lock()
								longest = max(longest, time.Since(since))
								if err == nil {
									holds[i]++
								}
								mu.Unlock()
								if err != nil {
									return
								}
								time.Sleep(tc.hold)
								l.Release(context.Background())
							}
						})
					}
				}
				const seconds = 30
				time.Sleep(seconds * time.Second)
				cancel()
				wg.Wait()
				all := 0
				for _, n := range holds {
					all += n
				}
				least, most := slices.Min(holds), slices.Max(holds)
				t.Logf("%d holds a second of %d, each program %d to %d, longest wait %v", all/seconds, time.Second/tc.hold, least, most, longest)
				if all < tc.rate*seconds {
					t.Errorf("fewer than %d holds a second", tc.rate)
				}
				if float64(most) > tc.share*float64(least) {
					t.Errorf("the holds of the programs differ by more than %v times", tc.share)
				}
				if longest > tc.longest {
					t.Errorf("a wait was longer than %v", tc.longest)
				}
			})
		})
	}
}
