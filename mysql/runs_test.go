package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

func TestReapRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		if _, err := a.ReapRuns(ctx, time.Minute); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("a grace that is too short: %v", err)
		}
		lease := a.lock(t, "a")
		nothing := func(context.Context, *sql.Tx) error { return nil }
		for _, run := range []string{"old", "young"} {
			must(t, a.Once(ctx, lease, run, nothing))
		}
		exec(t, l.db, "UPDATE rowlock_run SET at=at-INTERVAL 2 HOUR WHERE run='old'")
		rows := make([]string, 600)
		for i := range rows {
			rows[i] = fmt.Sprintf("('b','%d',1,'2020-01-01')", i)
		}
		exec(t, l.db, "INSERT INTO rowlock_run (name,run,token,at) VALUES "+strings.Join(rows, ","))
		old := func() (n int) {
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM rowlock_run WHERE run<>'young'").Scan(&n))
			return n
		}
		for left := old(); left > 0; {
			n, err := a.ReapRuns(ctx, time.Hour)
			must(t, err)
			if n > 500 {
				t.Fatalf("%d marks were removed by one call, want at most 500", n)
			}
			// A mark that a slow DELETE could not remove in its time stays for the next call.
			if left -= n; left != old() {
				t.Fatalf("ReapRuns says that it removed %d marks, there are %d, want %d", n, old(), left)
			}
		}
		if n, err := a.ReapRuns(ctx, time.Hour); n != 0 || err != nil {
			t.Errorf("%d marks were removed where none is old: %v", n, err)
		}
		if err := a.Once(ctx, lease, "young", nothing); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: a young mark: %v", err)
		}
		must(t, a.Once(ctx, lease, "old", nothing))
		exec(t, l.db, "DROP TABLE rowlock_run")
		for what, err := range map[string]error{
			"Once":    a.Once(ctx, lease, "1", nothing),
			"MarkRun": a.MarkRun(ctx, l.beginAt(t, sql.LevelDefault), lease, "1"),
			"ReapRuns": func() error {
				_, err := a.ReapRuns(ctx, time.Hour)
				return err
			}(),
		} {
			if !errors.Is(err, rowlock.ErrSchema) {
				t.Errorf("%s without the table: %v", what, err)
			}
		}
	})
}

// TestP14_GuardChangesNoSetting of the caller's transaction or connection.
func TestP14_GuardChangesNoSetting(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		exec(t, l.db, "CREATE TABLE counted (id BIGINT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB AUTO_INCREMENT=4711")
		c, err := l.db.Conn(ctx)
		must(t, err)
		defer c.Close()
		run := func(text string) {
			t.Helper()
			_, err := c.ExecContext(ctx, text)
			must(t, err)
		}
		settings := func() map[string]string {
			all := make(map[string]string)
			rows, err := c.QueryContext(ctx, "SHOW SESSION VARIABLES")
			must(t, err)
			defer rows.Close()
			for rows.Next() {
				var name, value string
				must(t, rows.Scan(&name, &value))
				switch name {
				case "timestamp", "warning_count", "error_count", "rand_seed1", "rand_seed2", "statement_id", // of each statement
					"gtid_current_pos", "gtid_binlog_pos", "gtid_binlog_state", "gtid_executed": // of the server
				default:
					all[name] = value
				}
			}
			must(t, rows.Err())
			var mine string
			must(t, c.QueryRowContext(ctx, "SELECT CONCAT_WS(',',@mine,LAST_INSERT_ID(),CONNECTION_ID(),DATABASE())").Scan(&mine))
			all["others"] = mine
			return all
		}
		run("SET @mine=42, SESSION autocommit=0, SESSION sql_mode='', SESSION time_zone='+03:00', SESSION wait_timeout=1234, SESSION innodb_lock_wait_timeout=33")
		run("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
		for i, begin := range []string{"START TRANSACTION", "SELECT 1"} { // autocommit is off
			run(begin)
			run("INSERT INTO counted VALUES ()")
			run("SAVEPOINT before_it")
			lease := a.lock(t, begin)
			before := settings()
			must(t, a.Guard(ctx, c, lease))
			must(t, a.MarkRun(ctx, c, lease, "1"))
			for name, value := range settings() {
				if before[name] != value {
					t.Errorf("P14: %s was %q, is %q", name, before[name], value)
				}
			}
			if i == 0 {
				run("ROLLBACK TO SAVEPOINT before_it")
			}
			run("COMMIT")
			must(t, lease.Release(ctx))
		}
		var counted, marks int
		must(t, l.db.QueryRow("SELECT (SELECT COUNT(*) FROM counted),(SELECT COUNT(*) FROM rowlock_run)").Scan(&counted, &marks))
		if counted != 2 || marks != 1 {
			t.Errorf("P14: the transaction wrote %d rows, want 2, and %d marks, want 1", counted, marks)
		}
	})
}
