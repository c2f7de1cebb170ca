package enginetest

import (
	"context"
	"sync"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// BenchmarkHandoff is one key that 32 callers want, each for no time.
func BenchmarkHandoff(b *testing.B) {
	ctx := context.Background()
	c, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(ctx)
	var wg sync.WaitGroup
	n := b.N/32 + 1
	b.ReportAllocs()
	b.ResetTimer()
	for range 32 {
		wg.Go(func() {
			for range n {
				l, err := c.Acquire(ctx, "k")
				if err != nil {
					b.Error(err)
					return
				}
				l.Release(ctx)
			}
		})
	}
	wg.Wait()
}
