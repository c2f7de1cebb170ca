package number

import (
	"context"
	"flag"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/memory"
)

// Engine measures an uncontended cycle over the memory store: what the library
// itself costs.
func (b *Bench) Engine(ctx context.Context) error {
	b.Say("engine")
	if flag.Lookup("test.benchtime") == nil {
		testing.Init()
	}
	if err := flag.Set("test.benchtime", b.Plan.Block.String()); err != nil {
		return err
	}
	client, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	cancellable, cancel := context.WithCancel(ctx) // as that of a request to a server is
	defer cancel()
	for range b.Plan.Rounds {
		var failed error
		r := testing.Benchmark(func(t *testing.B) {
			t.ReportAllocs()
			for t.Loop() {
				lease, err := client.Acquire(cancellable, "k")
				if err == nil {
					err = lease.Release(cancellable)
				}
				if err != nil {
					failed = err
					return
				}
			}
		})
		if failed != nil {
			return failed
		}
		at := result.At{Number: "engine", Server: "memory", Side: "rowlock"}
		b.File.Add(at, "ns/cycle", float64(r.NsPerOp()))
		b.File.Add(at, "allocs/cycle", float64(r.AllocsPerOp()))
	}
	return nil
}
