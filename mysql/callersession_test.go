package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// callerSession is something that a program's session can bring along. {db} is the Store's database, {other} another one with
// lock tables that have the same rows, {table} the strategy's.
type callerSession struct {
	name  string
	on    string // the server; empty: both
	setUp []string
	// refuses is a part of the error of each verb; empty: the verb works.
	guard, mark, lock string
}

const otherTables = "lock tables of another database"

func setting(names ...string) (cases []callerSession) {
	for _, n := range names {
		cases = append(cases, callerSession{name: n, setUp: []string{"SET SESSION " + n}})
	}
	return cases
}

func only(kind string, cases []callerSession) []callerSession {
	for i := range cases {
		cases[i].on = kind
	}
	return cases
}

func callerSessions() (all []callerSession) {
	all = append(all, setting(
		"autocommit=0", "completion_type=CHAIN", "sql_select_limit=0", "sql_select_limit=1", "sql_safe_updates=1", "max_join_size=1", "sql_big_selects=0",
		"div_precision_increment=0", "timestamp=1", "timestamp=2000000000", "time_zone='+13:00'", "time_zone='-12:00'",
		"collation_connection=utf8mb4_bin", "character_set_connection=utf16", "character_set_results=utf16", "character_set_results=NULL",
		"character_set_client=latin1", "character_set_client=gbk", "innodb_lock_wait_timeout=1", "lock_wait_timeout=1",
		"sql_auto_is_null=1", "insert_id=7", "max_error_count=0, sql_notes=0", "low_priority_updates=1",
		"optimizer_search_depth=0", "optimizer_prune_level=0", "lc_messages='de_DE'", "lc_time_names='de_DE'", "sql_log_bin=0", "profiling=1",
		"sql_mode=''", "sql_mode='ANSI'", "sql_mode='TRADITIONAL'", "sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
		"sql_mode='HIGH_NOT_PRECEDENCE,IGNORE_SPACE,REAL_AS_FLOAT,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'",
		"optimizer_switch='index_merge=off,index_condition_pushdown=off,materialization=off,semijoin=off,mrr=off'",
	)...)
	all = append(all, only(testserver.MySQL, setting("max_execution_time=60000", "transaction_isolation='SERIALIZABLE'", "transaction_isolation='READ-UNCOMMITTED'",
		"sql_require_primary_key=1", "windowing_use_high_precision=0", "range_optimizer_max_mem_size=1", "use_secondary_engine=OFF"))...)
	all = append(all, only(testserver.MariaDB, setting("max_statement_time=60", "tx_isolation='SERIALIZABLE'", "tx_isolation='READ-UNCOMMITTED'", "sql_mode='ORACLE'",
		"sql_mode='EMPTY_STRING_IS_NULL'", "sql_mode='EMPTY_STRING_IS_NULL,TIME_ROUND_FRACTIONAL,SIMULTANEOUS_ASSIGNMENT'", "sql_mode='MSSQL'", "sql_mode='DB2'",
		"system_versioning_asof='2001-01-01 00:00:00'", "join_cache_level=0", "use_stat_tables='NEVER'", "check_constraint_checks=0"))...)
	copied := []string{"INSERT INTO {other}.{table} SELECT * FROM {db}.{table}", "INSERT INTO {other}.rowlock_tx SELECT * FROM {db}.rowlock_tx"}
	hidden := func(table string) []string {
		return append(append([]string{}, copied...), "CREATE TEMPORARY TABLE {db}."+table+" LIKE {other}."+table, "INSERT INTO {db}."+table+" SELECT * FROM {other}."+table)
	}
	const temporary, locked, readOnly = "temporary table", "LOCK TABLES", "READ ONLY"
	all = append(all,
		callerSession{name: "no checks, an empty table of marks", setUp: []string{"TRUNCATE TABLE {db}.rowlock_run", "SET SESSION unique_checks=0, foreign_key_checks=0"}},
		callerSession{name: "read-only on MySQL", on: testserver.MySQL, setUp: []string{"SET SESSION transaction_read_only=1"}, mark: readOnly, lock: readOnly},
		callerSession{name: "read-only on MariaDB", on: testserver.MariaDB, setUp: []string{"SET SESSION tx_read_only=1"}, mark: readOnly, lock: readOnly},
		callerSession{name: otherTables, setUp: append(append([]string{}, copied...), "USE {other}")},
		callerSession{name: "a temporary lease table", on: testserver.MySQL, setUp: hidden("{table}"), guard: temporary, mark: temporary},
		callerSession{name: "a temporary table of marks", on: testserver.MySQL, setUp: hidden("rowlock_run"), mark: temporary},
		callerSession{name: "a temporary table of LockTx", on: testserver.MySQL, setUp: hidden("rowlock_tx"), lock: temporary},
		callerSession{name: "locked tables", setUp: []string{"SET SESSION autocommit=0", "CREATE TABLE {other}.mine (n INT) ENGINE=InnoDB", "LOCK TABLES {other}.mine WRITE"}, guard: locked, mark: locked, lock: locked},
		callerSession{name: "a named lock", setUp: []string{"DO GET_LOCK('{db}',1)"}},
	)
	return all
}

// hookedConn is a connection on which something happens before a guard's locking read.
type hookedConn struct {
	*sql.Conn
	happens func()
}

func (h hookedConn) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if h.happens != nil && strings.Contains(text, "LOCK IN SHARE MODE") {
		h.happens()
	}
	return h.Conn.QueryContext(ctx, text, args...)
}

// TestP14_CallersSession: what a session brings along changes nothing of Guard, MarkRun and LockTx, or is refused by name.
func TestP14_CallersSession(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		other := newLab(t, l.kind, l.strategy)
		other.store()
		fill := strings.NewReplacer("{db}", l.config.DBName, "{other}", other.config.DBName, "{table}", l.table())
		for i, c := range callerSessions() {
			if c.on != "" && c.on != l.kind {
				continue
			}
			// begun is such a session with an open transaction; done ends both.
			begun := func() (session *sql.Conn, done func()) {
				session, err := l.db.Conn(ctx)
				must(t, err)
				for _, text := range append(c.setUp, "") {
					if text == "" {
						if text = "START TRANSACTION"; strings.HasPrefix(c.name, "locked") {
							break // it would end them; autocommit is off
						}
					}
					if _, err := session.ExecContext(ctx, fill.Replace(text)); err != nil {
						t.Fatalf("%s: %s: %v", c.name, text, err)
					}
				}
				return session, func() {
					_, _ = session.ExecContext(ctx, "ROLLBACK")
					_ = session.Raw(func(any) error { return sqldriver.ErrBadConn })
					_ = session.Close()
					for _, table := range []string{l.table(), "rowlock_tx", "rowlock_run"} {
						exec(t, other.db, "DELETE FROM "+table)
					}
					exec(t, other.db, "DROP TABLE IF EXISTS mine")
				}
			}
			as := func(verb string, err error, refuses string) (works bool) {
				t.Helper()
				if refuses == "" && err != nil || refuses != "" && (err == nil || !strings.Contains(err.Error(), refuses)) {
					t.Errorf("P14, %s, %s: %v, want %q", c.name, verb, err, refuses)
				}
				return err == nil
			}
			key := fmt.Sprintf("key %d", i)

			lease := a.lock(t, key)
			session, done := begun()
			if as("Guard", a.Guard(ctx, session, lease), c.guard) {
				l.guarded(key, c.name)
			}
			done()

			session, done = begun()
			if as("MarkRun", a.MarkRun(ctx, session, lease, "run"), c.mark) {
				l.guarded(key, c.name)
				if err := a.MarkRun(ctx, session, lease, "run"); !errors.Is(err, rowlock.ErrAlreadyRan) {
					t.Errorf("P13, %s: the run was marked again: %v", c.name, err)
				}
				_, err := session.ExecContext(ctx, "COMMIT")
				must(t, err)
				marks, err := a.Marks(ctx, key, 10)
				must(t, err)
				if len(marks) != 1 || marks[0].Age < -time.Minute || marks[0].Age > time.Minute {
					t.Errorf("P13, %s: the marks are %+v", c.name, marks)
				}
			}
			done()

			// The lease is lost after the plain read.
			session, done = begun()
			err := a.Guard(ctx, hookedConn{session, func() {
				_, err := b.Store.ForceRelease(ctx, key)
				must(t, err)
				must(t, b.lock(t, key).Release(ctx))
			}}, lease)
			if c.guard == "" && !errors.Is(err, rowlock.ErrLost) || err == nil {
				t.Errorf("P4, %s: a guard of a lease that is lost: %v", c.name, err)
			}
			done()
			_ = lease.Release(ctx)

			tx := l.beginAt(t, sql.LevelDefault)
			must(t, a.LockTx(ctx, tx, key)) // makes the row
			must(t, tx.Rollback())
			session, done = begun()
			if as("LockTx", a.LockTx(ctx, session, key), c.lock) {
				tx := l.beginAt(t, sql.LevelDefault)
				if err := b.LockTxNoWait(ctx, tx, key); !errors.Is(err, rowlock.ErrHeld) {
					t.Errorf("%s: LockTx locks nothing: %v", c.name, err)
				}
				must(t, tx.Rollback())
			}
			done()
			session, done = begun()
			tx = l.beginAt(t, sql.LevelDefault)
			must(t, b.LockTx(ctx, tx, key))
			if err := a.LockTxNoWait(ctx, session, key); c.lock == "" && !errors.Is(err, rowlock.ErrHeld) || err == nil {
				t.Errorf("%s: LockTx of a key that is taken: %v", c.name, err)
			}
			if err := a.LockTxWait(ctx, session, 20*time.Millisecond, key); c.lock == "" && !errors.Is(err, rowlock.ErrHeld) && !errors.Is(err, rowlock.ErrConflict) || err == nil {
				t.Errorf("%s: LockTxWait of a key that is taken: %v", c.name, err)
			}
			done()
			must(t, tx.Rollback())
		}
	})
}

// guarded fails the test unless the entry of the key in the guard index is locked.
func (l *lab) guarded(key, what string) {
	l.t.Helper()
	tx := l.beginAt(l.t, sql.LevelReadCommitted)
	defer tx.Rollback()
	var token uint64
	var hold string
	must(l.t, tx.QueryRow(fmt.Sprintf("SELECT token,HEX(hold) FROM %s WHERE name=x'%x'", l.table(), key)).Scan(&token, &hold))
	text := fmt.Sprintf("SELECT token FROM %s FORCE INDEX (guard) WHERE token=%d AND name=x'%x' AND hold=x'%s' FOR UPDATE NOWAIT", l.table(), token, key, hold)
	if err := tx.QueryRow(text).Scan(&token); err == nil {
		l.t.Errorf("P4, %s: the guard locks nothing", what)
	}
}

// TestP14_GuardOverAGroupUnderALimit: sql_select_limit counts no reads of a guard.
func TestP14_GuardOverAGroupUnderALimit(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		p := l.program(t, rowlock.Options{})
		leases := []*rowlock.Lease{p.lock(t, "a"), p.lock(t, "b"), p.lock(t, "c"), p.lock(t, "slots", rowlock.Slots(2)), p.lock(t, "shared", rowlock.Shared())}
		for _, limit := range []int{0, 1, 2} {
			c, err := l.db.Conn(ctx)
			must(t, err)
			for _, text := range []string{fmt.Sprintf("SET SESSION sql_select_limit=%d", limit), "START TRANSACTION"} {
				_, err = c.ExecContext(ctx, text)
				must(t, err)
			}
			if err := p.Guard(ctx, c, leases[0], leases[1:]...); err != nil {
				t.Errorf("sql_select_limit=%d: a guard over five leases: %v", limit, err)
			} else {
				l.guarded("a", "the first of a group")
				l.guarded("c", "the last of a group")
			}
			for _, lease := range leases {
				if err := p.Guard(ctx, c, lease); err != nil {
					t.Errorf("sql_select_limit=%d, %s: %v", limit, lease.Key(), err)
				}
			}
			_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
			_ = c.Close()
		}
	})
}

// TestGuardFromAnotherDatabaseThanOneWithAnyName: the name of the Store's database may have letters that are not ASCII.
func TestGuardFromAnotherDatabaseThanOneWithAnyName(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		plain := *l.config
		plain.Params = l.config.Params
		name := l.config.DBName + "_zürich`東"
		quoted := "`" + strings.ReplaceAll(name, "`", "``") + "`"
		exec(t, l.db, "CREATE DATABASE "+quoted)
		t.Cleanup(func() { _, _ = l.open(&plain).Exec("DROP DATABASE " + quoted) })
		l.config.DBName = name
		p := l.program(t, rowlock.Options{})
		l.db = l.open(l.config)
		for _, c := range []struct {
			name    string
			at      *sql.DB
			setUp   string
			refuses string
		}{
			{"another database", l.open(&plain), "SET NAMES utf8mb4", ""},
			{"utf8mb3", l.open(&plain), "SET NAMES utf8mb3", ""},
			{"results in another character set", l.open(&plain), "SET character_set_results=utf16, character_set_connection=utf16", ""},
			{"its own database", l.db, "SET NAMES latin1", ""},
			{"another database in latin1", l.open(&plain), "SET NAMES latin1", "charset=utf8mb4"},
		} {
			lease := p.lock(t, c.name)
			for verb, f := range map[string]func(Tx) error{
				"Guard":      func(tx Tx) error { return p.Guard(ctx, tx, lease) },
				"MarkRun":    func(tx Tx) error { return p.MarkRun(ctx, tx, lease, "run") },
				"LockTx":     func(tx Tx) error { return p.LockTx(ctx, tx, c.name) },
				"LockTxWait": func(tx Tx) error { return p.LockTxWait(ctx, tx, time.Minute, c.name) },
			} {
				session, err := c.at.Conn(ctx)
				must(t, err)
				for _, text := range []string{c.setUp, "START TRANSACTION"} {
					_, err := session.ExecContext(ctx, text)
					must(t, err)
				}
				if err := f(session); c.refuses == "" && err != nil || c.refuses != "" && (!errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), c.refuses)) {
					t.Errorf("%s, %s: %v, want %q", c.name, verb, err, c.refuses)
				} else if err == nil && verb == "Guard" {
					l.guarded(c.name, c.name)
				}
				_ = session.Raw(func(any) error { return sqldriver.ErrBadConn })
				_ = session.Close()
			}
		}
	})
}
