package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestCoalescing: concurrent calls share statements, at most four at once.
func TestCoalescing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		var mu sync.Mutex
		away, most := 0, 0
		f.set(func(c call) verdict {
			if c.op == "acquire" {
				mu.Lock()
				away++
				most = max(most, away)
				mu.Unlock()
				time.AfterFunc(5*time.Millisecond, func() { mu.Lock(); away--; mu.Unlock() })
			}
			return verdict{slow: 5 * time.Millisecond}
		})
		acquires, releases := cycles(t, c, f, 200)
		if len(acquires) > 20 || len(releases) > 30 {
			t.Errorf("200 cycles took %d and %d statements", len(acquires), len(releases))
		}
		if most > 4 {
			t.Errorf("%d batches at once", most)
		}
	})
}

// TestALoneCallerIsNotDelayed: no time passes that the store does not take.
func TestALoneCallerIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		start := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 10 {
			l, err := c.Acquire(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			l.Release(ctx)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("10 cycles took %v", d)
		}
	})
}

// TestABatchInPart: each gets its own answer when a part is refused.
func TestABatchInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{})
		for i := range 5 {
			acquire(t, other, fmt.Sprint("k", 2*i))
		}
		f.set(on("acquire", verdict{slow: time.Millisecond}))
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				l, err := c.TryAcquire(context.Background(), fmt.Sprint("k", i))
				switch held := i%2 == 0; {
				case held && !errors.Is(err, rowlock.ErrHeld):
					t.Errorf("k%d: %v", i, err)
				case !held && (err != nil || l.Key() != fmt.Sprint("k", i)):
					t.Errorf("k%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		batch := 0
		for _, call := range f.seen("acquire") {
			batch = max(batch, len(call.keys))
		}
		if batch < 3 {
			t.Errorf("largest batch %d", batch)
		}
	})
}

// TestP7_LostReplyToABatch: each attempt of the batch is undone, every waiter gets
// its key.
func TestP7_LostReplyToABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		var once sync.Once
		f.set(func(c call) verdict {
			v := verdict{slow: time.Millisecond}
			if c.op == "acquire" && len(c.keys) > 3 {
				once.Do(func() { v = verdict{err: errors.New("reset"), apply: true} })
			}
			return v
		})
		start := time.Now()
		cycles(t, c, f, 50)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("took %v", d)
		}
		for i := range 50 {
			free(t, f, fmt.Sprint("k", i))
		}
	})
}

// TestABatchHasNoKeyTwice and no TTL but one.
func TestABatchHasNoKeyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(c call) verdict {
			seen := make(map[string]bool)
			for _, k := range c.keys {
				if seen[k] {
					t.Errorf("%s of %v", c.op, c.keys)
				}
				seen[k] = true
			}
			return verdict{slow: time.Millisecond}
		})
		ttl := make(map[driver.HoldID]time.Duration)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				d := time.Duration(1+i%2) * time.Minute
				l, err := c.TryAcquire(context.Background(), fmt.Sprint("k", i/4), rowlock.TTL(d))
				if err == nil {
					mu.Lock()
					ttl[holdOf(l).ID] = d
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, call := range f.seen("acquire") {
			ds := make(map[time.Duration]bool)
			for _, id := range call.ids {
				if d, ok := ttl[id]; ok {
					ds[d] = true
				}
			}
			if len(ds) > 1 {
				t.Error("a batch with two TTLs")
			}
		}
	})
}

// TestReleaseBehindHangingOnes: a release behind statements that hang is not
// kept for longer than ReleaseWait.
func TestReleaseBehindHangingOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		var leases []*rowlock.Lease
		for i := range 40 {
			leases = append(leases, acquire(t, c, fmt.Sprint("k", i)))
		}
		f.set(on("release", verdict{hang: true}))
		var wg sync.WaitGroup
		for i, l := range leases {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				start := time.Now()
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
				if d := time.Since(start); d > 3*time.Second {
					t.Errorf("release %d took %v", i, d)
				}
			})
		}
		wg.Wait()
		f.set(nil)
		time.Sleep(10 * time.Second)
		for _, l := range leases {
			free(t, f, l.Key())
		}
	})
}

// TestP15_PinnedKeysGoApart: a key that was pinned goes in batches of its own, which
// keep no other key waiting, however long they take.
func TestP15_PinnedKeysGoApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		pinned := func(key string) bool { return strings.HasPrefix(key, "pinned") }
		f.set(func(c call) verdict {
			switch {
			case c.op != "acquire" || !slices.ContainsFunc(c.keys, pinned):
				return verdict{slow: time.Millisecond}
			case c.at < time.Second:
				return verdict{answer: slices.Repeat([]driver.Result{{Status: driver.Pinned}}, len(c.keys))}
			}
			return verdict{slow: 10 * time.Second, answer: nil}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // each batch of these is of one key
				if l, err := c.Acquire(ctx, fmt.Sprint("pinned", i), rowlock.TTL(time.Duration(i+30)*time.Second)); err == nil {
					l.Release(context.Background())
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		for i := range 200 {
			start := time.Now()
			wg.Go(func() {
				l := acquire(t, c, fmt.Sprint("k", i))
				if took := time.Since(start); took > 20*time.Millisecond {
					t.Errorf("P15: acquire of another key took %v", took)
				}
				l.Release(context.Background())
			})
			time.Sleep(time.Millisecond)
		}
		for _, call := range f.seen("acquire") {
			if slices.ContainsFunc(call.keys, pinned) && !pinned(call.keys[0]) {
				t.Errorf("P15: one batch of %q", call.keys)
			}
		}
		cancel()
		wg.Wait()
	})
}
