package mongolock

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestLogOfAnOutage: the server dies for four seconds. The log says what happened to the
// leases, in a handful of lines.
func TestLogOfAnOutage(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	const leases, ttl = 50, 6 * time.Second
	server := testserver.Start(t, testserver.Mongo)
	began := time.Now()
	var log safeLog
	c := locker(t, open(t, database(t, server.DSN()), Options{}), rowlock.Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var held []*rowlock.Lease
	for i := range leases {
		l, err := c.Acquire(t.Context(), fmt.Sprint("k", i))
		must(t, err)
		held = append(held, l)
	}
	server.Kill()
	killed := time.Now()
	time.Sleep(4 * time.Second)
	server.Restart()
	eventually := func(what string, condition func() bool) {
		t.Helper()
		for end := time.Now().Add(testserver.Patience(t)); !condition(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("still not: %s:\n%s", what, log.text())
			}
		}
	}
	eventually("the log says how it ended", func() bool {
		return strings.Contains(log.text(), "renewals are acknowledged again") || strings.Contains(log.text(), "lease lost")
	})
	for _, l := range held { // a lease that is trusted beyond this was renewed after the outage
		eventually("each lease is lost or renewed", func() bool { return l.Err() != nil || l.Until().After(killed.Add(ttl)) })
	}
	time.Sleep(1100 * time.Millisecond) // what is added up is written within a second
	checkLines(t, log.text(), leases, time.Since(began))
}

// checkLines fails the test if a log of so many leases over so long a time has more lines than
// internal/logs promises: a message has at most one line a second, and one more for the second
// that has begun. Only "lease lost" has a line for each lease, up to 20 in 10 s, and all losses
// of an outage are within one TTL of its begin. A line for each lease is too many for both.
func checkLines(t *testing.T, text string, leases int, within time.Duration) {
	t.Helper()
	const losses = 20
	each := int(within/time.Second) + 2
	if max(each, losses) >= leases {
		t.Logf("the outage was too long to tell much: in %v a message may have %d lines", within, each)
	}
	lines := map[string]int{}
	for line := range strings.Lines(text) {
		_, message, _ := strings.Cut(line, " msg=")
		if quoted, ok := strings.CutPrefix(message, `"`); ok {
			message, _, _ = strings.Cut(quoted, `"`)
		} else {
			message, _, _ = strings.Cut(message, " ")
		}
		lines[message]++
	}
	for message, n := range lines {
		most := each
		if message == "lease lost" {
			most = losses
		}
		if n > most {
			t.Errorf("%d lines %q for %d leases in %v, want at most %d:\n%s", n, message, leases, within, most, text)
		}
	}
}

// safeLog is a log's text.
type safeLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *safeLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
