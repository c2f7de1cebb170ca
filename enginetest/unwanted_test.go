package enginetest

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP18_JoinedAsItsFirstCallerGaveUp: a reader joins a grant in the moment in which that is given back, because the
// caller that asked for it has given up. It keeps its lease, and its Release comes back.
func TestP18_JoinedAsItsFirstCallerGaveUp(t *testing.T) {
	for range 1500 {
		synctest.Test(t, func(t *testing.T) {
			f := newFaultStore()
			f.set(on("acquire", verdict{delay: 10 * time.Millisecond}))
			c := newClient(t, f)
			gone, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() {
				if l, err := c.Acquire(gone, "k", rowlock.Shared()); err == nil {
					t.Errorf("a caller that gave up got %v", l)
				}
			})
			for range 8 {
				all.Go(func() {
					time.Sleep(10 * time.Millisecond)
					for range rand.IntN(300) {
						runtime.Gosched()
					}
					l := acquire(t, c, "k", rowlock.Shared())
					time.Sleep(20 * time.Millisecond)
					if err := l.Err(); err != nil {
						t.Errorf("P18: a reader whose grant another had asked for: %v", err)
					}
					release(t, l)
				})
			}
			all.Wait()
		})
		if t.Failed() {
			return
		}
	}
}
