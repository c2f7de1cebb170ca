package enginetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// BenchmarkCycle is what the engine itself costs: acquire and release over the
// memory store, uncontended, for a caller whose context can be cancelled, as that of a
// request to a server can.
func BenchmarkCycle(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(ctx)
	for name, get := range map[string]func(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error){
		"Acquire": c.Acquire, "TryAcquire": c.TryAcquire,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l, err := get(ctx, "k")
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCycleAmong is the same beside other leases.
func BenchmarkCycleAmong(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(ctx)
	for i := range 10_000 {
		if _, err := c.Acquire(ctx, fmt.Sprint("other", i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(ctx, "k")
		if err != nil {
			b.Fatal(err)
		}
		l.Release(ctx)
	}
}

// BenchmarkObserved is BenchmarkCycle with an observer that does nothing.
func BenchmarkObserved(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, o := range map[string]*rowlock.Observer{
		"None": nil,
		"Callers": {
			AcquireStart: func(ctx context.Context, _ rowlock.AcquireStart) context.Context { return ctx },
			AcquireEnd:   func(context.Context, rowlock.AcquireEnd) {},
		},
		"All": {
			AcquireStart: func(ctx context.Context, _ rowlock.AcquireStart) context.Context { return ctx },
			AcquireEnd:   func(context.Context, rowlock.AcquireEnd) {},
			LeaseEnd:     func(context.Context, rowlock.LeaseEnd) {},
			Called:       func(rowlock.Called) {},
		},
	} {
		var opts rowlock.Options
		if o != nil {
			opts.Observers = []*rowlock.Observer{o}
		}
		c, err := rowlock.New(memory.New(), opts)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l, err := c.Acquire(ctx, "k")
				if err != nil {
					b.Fatal(err)
				}
				l.Release(ctx)
			}
		})
		c.Close(ctx)
	}
}
