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
	for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
		t.Run(strategy.String(), func(t *testing.T) {
			t.Parallel()
			const leases = 50
			server := testserver.Start(t, testserver.MariaDB)
			l := newLabAt(t, testserver.MariaDB, server.DSN(), strategy)
			var log safeLog
			c, err := rowlock.New(l.store(), rowlock.Options{TTL: 6 * time.Second, ReapInterval: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			must(t, err)
			defer c.Close(t.Context())
			held := make([]*rowlock.Lease, leases)
			for i := range held {
				held[i], err = c.Acquire(t.Context(), fmt.Sprint("k", i))
				must(t, err)
			}
			server.Kill()
			time.Sleep(4 * time.Second)
			server.Restart()
			over := "renewals are acknowledged again"
			if strategy == SelectForUpdate { // its holds end with their sessions
				over = "lease lost"
			}
			eventually(t, fmt.Sprintf("the log says %q", over), func() bool {
				return strings.Contains(log.text(), over) || strings.Contains(log.text(), "lease lost")
			})
			if text := log.text(); strings.Count(text, "\n") > leases {
				t.Errorf("more than %d lines:\n%s", leases, text)
			}
			if strategy == SelectForUpdate && !strings.Contains(log.text(), "its session has ended: ") {
				t.Errorf("the log does not say why:\n%s", log.text())
			}
		})
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
