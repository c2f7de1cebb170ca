package mongolock

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// BenchmarkGuard tells what a guard costs: transactions of one write, without a guard,
// with Guard, by InTx and by Once, in turns. The metrics are the speed of each as a
// part of the unguarded one's, at the median.
func BenchmarkGuard(b *testing.B) {
	b.Run("nodes=1", func(b *testing.B) { benchGuard(b, testserver.DSN(b, testserver.Mongo)) })
	b.Run("nodes=3", func(b *testing.B) { benchGuard(b, testserver.Start(b, testserver.Mongo3).DSN()) })
}

func benchGuard(b *testing.B, uri string) {
	s := open(b, database(b, uri), Options{})
	lease := guarded(b, locker(b, s, rowlock.Options{}), "k")
	sess, err := s.db.Client().StartSession()
	must(b, err)
	defer sess.EndSession(context.Background())
	ctx := mongo.NewSessionContext(b.Context(), sess)
	write := func(ctx context.Context) error { return add(ctx, s, "n") }
	must(b, write(b.Context()))
	own := func(guard bool) {
		must(b, sess.StartTransaction(ownTransactions))
		if guard {
			must(b, s.Guard(ctx, lease))
		}
		must(b, write(ctx))
		must(b, sess.CommitTransaction(ctx))
	}
	ways := []struct {
		name string
		do   func()
		took []time.Duration
	}{
		{"plain", func() { own(false) }, nil},
		{"Guard", func() { own(true) }, nil},
		{"InTx", func() { must(b, s.InTx(b.Context(), lease, write)) }, nil},
		{"Once", func() { must(b, s.Once(b.Context(), lease, newID().String(), write)) }, nil},
	}
	for i := 0; b.Loop(); i++ {
		for n := range ways {
			w := &ways[(i+n)%len(ways)]
			start := time.Now()
			w.do()
			w.took = append(w.took, time.Since(start))
		}
	}
	median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) }
	plain := median(ways[0].took)
	b.ReportMetric(plain/1e6, "plain-ms")
	for _, w := range ways[1:] {
		b.ReportMetric(plain/median(w.took), w.name+"/plain")
	}
}
