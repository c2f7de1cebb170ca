package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// BenchmarkGuard is a transaction that writes one row, without a guard and with each
// kind of it. Each iteration runs every way once, in random order, so that a noisy
// machine is as noisy for all. The ratios are of the medians, without a guard / with.
func BenchmarkGuard(b *testing.B) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			b.Run(kind+"/"+strategy.String(), func(b *testing.B) { benchmarkGuard(b, newLab(b, kind, strategy)) })
		}
	}
}

func benchmarkGuard(b *testing.B, l *lab) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := l.program(b, rowlock.Options{})
	lease := a.lock(b, "a")
	exec(b, l.db, "CREATE TABLE counts (id INT PRIMARY KEY, n BIGINT) ENGINE=InnoDB")
	exec(b, l.db, "INSERT INTO counts VALUES (1,0)")
	write := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE counts SET n=n+1 WHERE id=1")
		return err
	}
	own := func(before func(*sql.Tx) error) func() error {
		return func() error {
			tx, err := l.db.BeginTx(ctx, nil)
			if err == nil {
				defer tx.Rollback()
				err = before(tx)
			}
			if err == nil {
				err = write(ctx, tx)
			}
			if err != nil {
				return err
			}
			return tx.Commit()
		}
	}
	run := 0
	ways := []struct {
		name  string
		cycle func() error
		took  []time.Duration
	}{
		{name: "unguarded", cycle: own(func(*sql.Tx) error { return nil })},
		{name: "Guard", cycle: own(func(tx *sql.Tx) error { return a.Guard(ctx, tx, lease) })},
		{name: "MarkRun", cycle: own(func(tx *sql.Tx) error { run++; return a.MarkRun(ctx, tx, lease, fmt.Sprint(run)) })},
		{name: "InTx", cycle: func() error { return a.InTx(ctx, lease, write) }},
		{name: "Once", cycle: func() error { run++; return a.Once(ctx, lease, fmt.Sprint(run), write) }},
	}
	for b.Loop() {
		for _, i := range rand.Perm(len(ways)) {
			start := time.Now()
			must(b, ways[i].cycle())
			ways[i].took = append(ways[i].took, time.Since(start))
		}
	}
	median := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(took[len(took)/2])
	}
	floor := median(ways[0].took)
	b.ReportMetric(floor/1e3, "unguarded-µs")
	for _, w := range ways[1:] {
		b.ReportMetric(floor/median(w.took), w.name+"/x")
	}
	b.ReportMetric(0, "ns/op")
}
