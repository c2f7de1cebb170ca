package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// BenchmarkForUpdateCycle is the lease cycle of so many workers, each with a key of
// its own: what it costs beyond its own statements are sessions that are opened.
func BenchmarkForUpdateCycle(b *testing.B) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, workers := range []int{1, 8, 32, 128} {
			b.Run(fmt.Sprintf("%s/%d", kind, workers), func(b *testing.B) {
				s := newLab(b, kind, SelectForUpdate).store()
				c, err := rowlock.New(s, rowlock.Options{})
				must(b, err)
				defer c.Close(context.Background())
				work := make(chan struct{})
				var wg, warm sync.WaitGroup
				warm.Add(workers)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				for i := range workers {
					wg.Go(func() {
						cycle := func() {
							lease, err := c.Acquire(ctx, fmt.Sprint("k", i))
							if err == nil {
								err = lease.Release(ctx)
							}
							if err != nil {
								b.Error(err)
							}
						}
						for range 3 {
							cycle()
						}
						warm.Done()
						for range work {
							cycle()
						}
					})
				}
				warm.Wait()
				sent := s.Statements()
				for b.Loop() {
					work <- struct{}{}
				}
				close(work)
				wg.Wait()
				b.ReportMetric(float64(s.Statements()-sent)/float64(b.N), "statements/cycle")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkForUpdateRefused is a try of a key that another has.
func BenchmarkForUpdateRefused(b *testing.B) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		b.Run(kind, func(b *testing.B) {
			l := newLab(b, kind, SelectForUpdate)
			holder := client{t: b, Store: l.store()}
			holder.granted("k", 10*time.Minute)
			s := l.bare()
			c, err := rowlock.New(s, rowlock.Options{})
			must(b, err)
			defer c.Close(context.Background())
			try := func() {
				if _, err := c.TryAcquire(context.Background(), "k"); !errors.Is(err, rowlock.ErrHeld) {
					b.Fatal(err)
				}
			}
			try()
			sent := s.Statements()
			for b.Loop() {
				try()
			}
			b.ReportMetric(float64(s.Statements()-sent)/float64(b.N), "statements/try")
		})
	}
}
