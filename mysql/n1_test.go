package mysqllock

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// BenchmarkN1 is the lease cycle of one worker against the floor, which is two
// durable commits written by hand. Each iteration runs the floor and every way
// through the library once, in random order, so that a noisy machine is as noisy
// for all. The ratios are floor / library: of the medians (x/p50) and of the means
// between the first and the eighth decile (x/mean).
//
// store and pool are the Store's steps, on a pool of its own (Open) and on the
// caller's (New); client is what a user calls.
func BenchmarkN1(b *testing.B) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			b.Run(kind+"/"+strategy.String(), func(b *testing.B) { benchmarkN1(b, newLab(b, kind, strategy)) })
		}
	}
}

func benchmarkN1(b *testing.B, l *lab) {
	ctx, cancel := context.WithCancel(context.Background()) // as a program has it
	defer cancel()
	s := l.store()
	pooled, err := New(l.open(l.config), Options{Strategy: l.strategy})
	must(b, err)
	defer pooled.Close()
	client, err := rowlock.New(s, rowlock.Options{})
	must(b, err)
	defer client.Close(ctx)
	steps := func(s *Store, key string) func() {
		return func() {
			q := request(key, 30*time.Second)
			r, err := s.Acquire(ctx, []driver.Request{q})
			if err != nil || r[0].Status != driver.Granted {
				b.Fatal(r, err)
			}
			r, err = s.Release(ctx, []driver.Hold{{Key: key, ID: q.ID}})
			if err != nil || r[0].Status != driver.Released {
				b.Fatal(r, err)
			}
		}
	}
	byHand := floor(b, l.kind)
	ways := []struct {
		name  string
		cycle func()
		took  []time.Duration
	}{
		{name: "floor", cycle: func() { must(b, byHand()) }},
		{name: "store", cycle: steps(s, "store")},
		{name: "pool", cycle: steps(pooled, "pool")},
		{name: "client", cycle: func() {
			lease, err := client.Acquire(ctx, "client")
			must(b, err)
			must(b, lease.Release(ctx))
		}},
	}
	order := rand.Perm(len(ways))
	for n := -20; n < 0 || b.Loop(); n++ { // the first ones open connections
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			start := time.Now()
			ways[i].cycle()
			if n >= 0 {
				ways[i].took = append(ways[i].took, time.Since(start))
			}
		}
	}
	half, mean := middle(ways[0].took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(half, "floor-µs")
	for _, w := range ways[1:] {
		p50, trimmed := middle(w.took)
		b.ReportMetric(half/p50, w.name+"/p50")
		b.ReportMetric(mean/trimmed, w.name+"/mean")
	}
}

// middle is the median and the mean without the fastest tenth and the slowest two,
// in microseconds.
func middle(took []time.Duration) (p50, mean float64) {
	slices.Sort(took)
	n := len(took)
	few := took[n/10 : n-n/5]
	for _, d := range few {
		mean += float64(d) / float64(len(few)) / 1e3
	}
	return float64(took[n/2]) / 1e3, mean
}
