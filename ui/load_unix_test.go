//go:build unix

package ui_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testdb"
	"github.com/rowlock/rowlock/internal/testserver"
	mysqllock "github.com/rowlock/rowlock/mysql"
	"github.com/rowlock/rowlock/ui"
)

// BenchmarkViewers: 64 browsers look at 10 000 keys in MySQL for 20 s. What the page costs, as a share of a core (the
// 64 readers, who are in this process, included), and statements a second.
func BenchmarkViewers(b *testing.B) {
	s, err := mysqllock.Open(testdb.MySQL(b, testserver.MySQL).FormatDSN(), mysqllock.Options{})
	must(b, err)
	defer s.Close()
	must(b, s.Migrate(b.Context()))
	batch := s.Limits().Batch
	var reqs []driver.Request
	for i := range 10_000 {
		reqs = append(reqs, driver.Request{Key: fmt.Sprintf("key-%05d", i), ID: driver.HoldID{1, byte(i), byte(i >> 8)}, Owner: "web-1", TTL: time.Hour})
	}
	for len(reqs) > 0 {
		n := min(batch, len(reqs))
		_, err := s.Acquire(b.Context(), reqs[:n])
		must(b, err)
		reqs = reqs[n:]
	}
	for b.Loop() {
		h, err := ui.New(s, ui.Options{})
		must(b, err)
		server := httptest.NewServer(h)
		var viewers sync.WaitGroup
		for range 64 {
			answer, err := http.Get(server.URL + "/events")
			must(b, err)
			viewers.Go(func() {
				defer answer.Body.Close()
				_, _ = io.Copy(io.Discard, answer.Body) // until Close
			})
		}
		time.Sleep(5 * time.Second) // the first messages have all rows
		before, statements, start := used(b), s.Statements(), time.Now()
		time.Sleep(20 * time.Second)
		took := time.Since(start).Seconds()
		b.ReportMetric(100*(used(b)-before).Seconds()/took, "%core")
		b.ReportMetric(float64(s.Statements()-statements)/took, "statements/s")
		must(b, h.Close())
		viewers.Wait()
		server.Close()
	}
}

// used is the processor time of this process so far.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
