package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// TestHintsOfManyKeys: a client that waits for many keys makes its hint on each of them
// heard, though it renews a few at a time only.
func TestHintsOfManyKeys(t *testing.T) {
	for _, others := range []int{0, 15, 16, 40} {
		t.Run(fmt.Sprint(others, " other keys"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				ctx, cancel := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				busy, late, gone := newClient(t, store, rowlock.Options{}), newClient(t, store, rowlock.Options{}), newClient(t, store, rowlock.Options{})
				for i := range others {
					other := fmt.Sprint("other", i)
					acquire(t, busy, other)
					wg.Go(func() { late.Acquire(ctx, other) })
				}
				for range 8 {
					wg.Go(func() {
						for {
							l, err := busy.Acquire(ctx, "k")
							if err != nil {
								return
							}
							time.Sleep(5 * time.Millisecond)
							l.Release(context.Background())
						}
					})
				}
				time.Sleep(5 * time.Second)
				// A hint of a client that does not wait any more keeps late from leaving its own at
				// once, and is not heeded after a while.
				short, stop := context.WithTimeout(ctx, time.Millisecond)
				gone.Acquire(short, "k")
				stop()
				time.Sleep(700 * time.Millisecond)
				start := time.Now()
				long, stop := context.WithTimeout(ctx, time.Minute)
				_, err := late.Acquire(long, "k")
				stop()
				if took := time.Since(start); err != nil || took > 15*time.Second {
					t.Errorf("after %v: %v", took, err)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}
