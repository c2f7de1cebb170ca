package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCallersShareBatches: on a server that syncs every few milliseconds for all that
// commit, callers that come together share their statements, and none waits for more
// syncs than its own two need.
func TestCallersShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, cycles, tick = 8, 50, 10 * time.Millisecond
		f := newFaultStore()
		c := newClient(t, f)
		start := time.Now()
		f.set(func(call) verdict { // a commit goes with the next sync
			return verdict{slow: 2*tick - time.Since(start)%tick}
		})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range cycles {
					if err := acquire(t, c, fmt.Sprint("k", i)).Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if took, most := time.Since(start), 2*cycles*2*tick; took > most+most/10 {
			t.Errorf("took %v, %v of it for statements", took, most)
		}
		if n := len(f.seen("acquire")); n > cycles+cycles/4 {
			t.Errorf("%d statements for %d acquires of %d callers", n, cycles, callers)
		}
	})
}

// TestFewCallersWaitForNobody: neither two callers, nor the last of
// many.
func TestFewCallersWaitForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const batch = 10 * time.Millisecond
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(call) verdict { return verdict{slow: batch} })
		cycle := func(i int) {
			if err := acquire(t, c, fmt.Sprint("k", i)).Release(context.Background()); err != nil {
				t.Error(err)
			}
		}
		for range 20 {
			cycles(t, c, f, 50)
		}
		time.Sleep(200 * time.Millisecond)
		start := time.Now()
		cycle(0)
		if d := time.Since(start); d != 2*batch {
			t.Errorf("a lone caller's cycle took %v", d)
		}
		time.Sleep(time.Second)
		start = time.Now()
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				for range 10 {
					cycle(i)
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d != 20*batch {
			t.Errorf("ten cycles of two callers took %v", d)
		}
	})
}
