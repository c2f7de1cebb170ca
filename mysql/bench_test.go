package mysqllock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// BenchmarkRenew extends many holds in one call.
func BenchmarkRenew(b *testing.B) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, n := range []int{1, 100, 500} {
			b.Run(fmt.Sprint(kind, "/", n), func(b *testing.B) {
				l := newLab(b, kind, VersionColumn)
				s := l.store()
				ctx := context.Background()
				var reqs []driver.Request
				var holds []driver.Hold
				for i := range n {
					q := request(fmt.Sprint("key", i), time.Minute)
					reqs = append(reqs, q)
					holds = append(holds, driver.Hold{Key: q.Key, ID: q.ID, TTL: time.Minute})
				}
				if _, err := s.Acquire(ctx, reqs); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					r, err := s.Renew(ctx, holds)
					if err != nil || r[0].Status != driver.Alive {
						b.Fatal(r, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/hold")
			})
		}
	}
}
