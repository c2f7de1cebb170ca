package mysqllock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// The floor is two durable commits on a table with a primary key only, written by
// hand. One worker, so the commit of the server's disk is most of it.
func BenchmarkCycle(b *testing.B) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		b.Run(kind+"/floor", func(b *testing.B) {
			l := newLab(b, kind, VersionColumn)
			exec(b, l.db, "CREATE TABLE floor (name VARBINARY(255) PRIMARY KEY, version BIGINT, until DATETIME(6)) ENGINE=InnoDB")
			exec(b, l.db, "INSERT INTO floor VALUES ('a',1,'1970-01-02')")
			for b.Loop() {
				exec(b, l.db, "UPDATE floor SET version=version+1,until=UTC_TIMESTAMP(6)+INTERVAL 30 SECOND WHERE name='a' AND until<=UTC_TIMESTAMP(6)")
				exec(b, l.db, "UPDATE floor SET until='1970-01-02' WHERE name='a'")
			}
		})
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			b.Run(kind+"/"+strategy.String(), func(b *testing.B) {
				l := newLab(b, kind, strategy)
				s := l.store()
				ctx := context.Background()
				for b.Loop() {
					q := request("a", 30*time.Second)
					r, err := s.Acquire(ctx, []driver.Request{q})
					if err != nil || r[0].Status != driver.Granted {
						b.Fatal(r, err)
					}
					if _, err := s.Release(ctx, []driver.Hold{{Key: "a", ID: q.ID}}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

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
