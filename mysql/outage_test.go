package mysqllock

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

// TestLogOfAnOutage: the server dies for four seconds. With each strategy the log says
// what happened to the leases, in a handful of lines.
func TestLogOfAnOutage(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const leases, ttl = 50, 6 * time.Second
			server := testserver.Start(t, kind)
			began := time.Now()
			type program struct {
				strategy Strategy
				log      safeLog
				held     []*rowlock.Lease
			}
			var programs []*program
			for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
				p := &program{strategy: strategy}
				programs = append(programs, p)
				c, err := rowlock.New(newLabAt(t, kind, server.DSN(), strategy).store(),
					rowlock.Options{TTL: ttl, ReapInterval: -1, Logger: slog.New(slog.NewTextHandler(&p.log, nil))})
				must(t, err)
				defer c.Close(t.Context())
				for i := range leases {
					l, err := c.Acquire(patient(t), fmt.Sprint("k", i))
					must(t, err)
					p.held = append(p.held, l)
				}
			}
			server.Kill()
			killed := time.Now()
			time.Sleep(4 * time.Second)
			server.Restart()
			for _, p := range programs {
				t.Run(p.strategy.String(), func(t *testing.T) {
					over := "renewals are acknowledged again"
					if p.strategy == SelectForUpdate { // its holds end with their sessions
						over = "lease lost"
					}
					eventually(t, fmt.Sprintf("the log says %q", over), func() bool {
						return strings.Contains(p.log.text(), over) || strings.Contains(p.log.text(), "lease lost")
					})
					for _, l := range p.held { // a lease that is trusted beyond this was renewed after the outage
						eventually(t, "each lease is lost or renewed", func() bool { return l.Err() != nil || l.Until().After(killed.Add(ttl)) })
					}
					time.Sleep(1100 * time.Millisecond) // what is added up is written within a second
					checkLines(t, p.log.text(), leases, time.Since(began))
					if p.strategy == SelectForUpdate && !strings.Contains(p.log.text(), "its session has ended: ") {
						t.Errorf("the log does not say why:\n%s", p.log.text())
					}
				})
			}
		})
	}
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
