package mysqllock

import (
	"context"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
)

// BenchmarkStore runs the benchmarks of the suite for each server and strategy.
func BenchmarkStore(b *testing.B) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			b.Run(kind+"/"+strategy.String(), func(b *testing.B) {
				h := harness(b, kind, strategy)
				if strategy == SelectForUpdate {
					h = sessionHarness(b, kind)
				}
				h.Floor = func(t testing.TB) func() error { return floor(t, kind) }
				locktest.Bench(b, h)
			})
		}
	}
}

// floor is a lock written by hand, on a connection of its own and a table with a
// primary key only: an UPDATE takes the row if it is free, another one frees it.
// Both commit.
func floor(t testing.TB, kind string) func() error {
	l := newLab(t, kind, VersionColumn)
	exec(t, l.db, "CREATE TABLE floor (name VARBINARY(255) PRIMARY KEY, version BIGINT, until DATETIME(6)) ENGINE=InnoDB")
	exec(t, l.db, "INSERT INTO floor VALUES ('a',1,'1970-01-02')")
	ctx := context.Background()
	c, err := l.db.Conn(ctx)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return func() error {
		if _, err := c.ExecContext(ctx, "UPDATE floor SET version=version+1,until=UTC_TIMESTAMP(6)+INTERVAL 30 SECOND WHERE name='a' AND until<=UTC_TIMESTAMP(6)"); err != nil {
			return err
		}
		_, err := c.ExecContext(ctx, "UPDATE floor SET until='1970-01-02' WHERE name='a'")
		return err
	}
}
