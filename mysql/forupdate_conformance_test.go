package mysqllock

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// sessionHarness is the harness of SelectForUpdate: sessions are beyond the
// connections of the Store, and one that the server ends is noticed late.
func sessionHarness(t testing.TB, kind string) locktest.Harness {
	h := harness(t, kind, SelectForUpdate)
	h.MaxConnections = func(held, waited int) int { return defaultConnections + held + waited + session.MaxAttempts }
	h.LateLoss = 2 * time.Second
	dead := h.Dead
	h.Dead = func(t testing.TB, prefix string, n int) {
		dead(t, prefix, n)
		_, dsn, _ := strings.Cut(h.Config, " ")
		db, err := sql.Open("mysql", dsn)
		must(t, err)
		defer db.Close()
		exec(t, db, fmt.Sprintf("INSERT INTO rowlock_session_row (name) SELECT name FROM rowlock_session WHERE LEFT(name,%d)=x'%x'", len(prefix), prefix))
	}
	return h
}

// TestForUpdateConformance runs the whole suite, in the short tier on MySQL only.
func TestForUpdateConformance(t *testing.T) {
	sideBySide(t, func(t *testing.T, kind string) {
		if kind == testserver.MariaDB {
			testserver.Long(t)
		}
		locktest.Run(t, sessionHarness(t, kind))
	})
}
