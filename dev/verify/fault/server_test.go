package fault

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func TestServerKilled(t *testing.T) {
	each(t, "server-killed", func(t *testing.T, l *lab, f Fault) { l.until(t, f, failed) })
}

func TestServerFrozenShort(t *testing.T) {
	each(t, "server-frozen-short", func(t *testing.T, l *lab, f Fault) { l.until(t, f, l.hung(t)) })
}

func TestServerFrozenLong(t *testing.T) {
	each(t, "server-frozen-long", func(t *testing.T, l *lab, f Fault) { l.until(t, f, l.hung(t)) })
}

func TestSessionsKilled(t *testing.T) {
	each(t, "sessions-killed", func(t *testing.T, l *lab, f Fault) { l.until(t, f, failed) })
}

func TestOperationsKilled(t *testing.T) {
	each(t, "operations-killed", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(_ string, ops []op) bool {
			return slices.ContainsFunc(ops, func(o op) bool { return o.err != nil && strings.Contains(o.err.Error(), "interrupted") })
		})
	})
}

func (l *lab) global(t *testing.T, name string) (value int) {
	t.Helper()
	must(t, l.DB.QueryRow("SELECT @@GLOBAL."+name).Scan(&value))
	return value
}

func TestConnectionsFull(t *testing.T) {
	each(t, "connections-full", func(t *testing.T, l *lab, f Fault) {
		before := l.global(t, "max_connections")
		l.until(t, f, func(_ string, ops []op) bool {
			return slices.ContainsFunc(ops, func(o op) bool {
				e := new(mysql.MySQLError)
				return errors.As(o.err, &e) && e.Number == 1040
			})
		})
		if after := l.global(t, "max_connections"); after != before {
			t.Errorf("max_connections was %d and is %d", before, after)
		}
	})
}

// TestWaitTimeout: a session that rests for longer than a second is ended.
func TestWaitTimeout(t *testing.T) {
	each(t, "wait-timeout", func(t *testing.T, l *lab, f Fault) {
		before := l.global(t, "wait_timeout")
		var resting *sql.Conn
		l.saw(t, f, func(ctx context.Context) bool {
			if resting != nil {
				_ = resting.Close()
			}
			var err error
			if resting, err = l.db.Conn(ctx); err != nil {
				return false
			}
			var timeout int
			if err := resting.QueryRowContext(ctx, "SELECT @@wait_timeout").Scan(&timeout); err != nil || timeout != 1 {
				return false
			}
			timed.Rest(ctx, 1300*time.Millisecond)
			return ctx.Err() == nil && resting.PingContext(ctx) != nil
		})
		if after := l.global(t, "wait_timeout"); after != before {
			t.Errorf("wait_timeout was %d and is %d", before, after)
		}
		var timeout int
		must(t, l.db.QueryRow("SELECT @@wait_timeout").Scan(&timeout))
		if timeout != before {
			t.Errorf("a session has wait_timeout %d", timeout)
		}
	})
}
