package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/locktx"
)

// TestP9_LockTxKeys: keys that differ in one byte are different locks, and nothing
// beside a key is locked.
func TestP9_LockTxKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		long := strings.Repeat("k", 255)
		tx := l.begin()
		must(t, s.LockTx(ctx, tx, "job", "job", "b\x00", long, "job", "\xff'\\"))
		for _, k := range []string{"job", "b\x00", long, "\xff'\\"} {
			if free(t, l, s, k) {
				t.Errorf("%.20q is free", k)
			}
		}
		for _, k := range []string{"JOB", "job ", "job\x00", "jo", "job1", "jòb", "jo\u0300b", "b", "b\x00\x00", long[1:], "\xff", "\xff''", "a", "zz", " "} {
			if !free(t, l, s, k) {
				t.Errorf("%.20q is locked", k)
			}
		}
		must(t, s.LockTx(ctx, tx))
		for _, k := range []string{"", long + "k"} {
			if err := s.LockTx(ctx, tx, "a", k); !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("a key of %d bytes: %v", len(k), err)
			}
		}
		if !free(t, l, s, "a") {
			t.Error("a bad key came after something was sent")
		}
		many := make([]string, 2*locktx.Batch+1)
		for i := range many {
			many[i] = fmt.Sprint("many", i)
		}
		must(t, s.LockTx(ctx, tx, many...))
		if free(t, l, s, many[2*locktx.Batch]) {
			t.Error("not all of many keys are locked")
		}
		if !free(t, l, s, "many") {
			t.Error("more than many keys are locked")
		}
	})
}

// TestP8_LockTxErrors: what the server does to the caller's transaction comes back
// as ErrConflict, with the server's error in the chain.
func TestP8_LockTxErrors(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		conflict := func(err error, want uint16) {
			t.Helper()
			var e *mysql.MySQLError
			if !errors.Is(err, rowlock.ErrConflict) || !errors.As(err, &e) || e.Number != want {
				t.Errorf("%v, want a conflict and error %d", err, want)
			}
		}
		t.Run("deadlock", func(t *testing.T) {
			first, second := l.begin(), l.begin()
			must(t, s.LockTx(ctx, first, "a"))
			must(t, s.LockTx(ctx, second, "b"))
			errs := make(chan error, 2)
			go func() { errs <- s.LockTx(ctx, first, "b") }()
			go func() { errs <- s.LockTx(ctx, second, "a") }()
			one, two := <-errs, <-errs
			victim := cmp.Or(one, two)
			conflict(victim, conn.ErDeadlock)
			if one != nil && two != nil || !strings.Contains(victim.Error(), "undone the whole transaction") {
				t.Errorf("%v; %v", one, two)
			}
			must(t, errors.Join(first.Rollback(), second.Rollback()))
		})
		t.Run("lock wait", func(t *testing.T) {
			first, second := l.begin(), l.begin()
			_, err := second.Exec("SET SESSION innodb_lock_wait_timeout=1")
			must(t, err)
			must(t, s.LockTx(ctx, first, "a"))
			conflict(s.LockTx(ctx, second, "a"), conn.ErLockWait)
		})
		t.Run("snapshot", func(t *testing.T) {
			first := l.begin()
			if _, err := first.Exec("SET SESSION innodb_snapshot_isolation=ON"); err != nil {
				t.Log("the server has no such setting: ", err)
				return
			}
			_, err := first.Exec("CREATE TABLE seen (n INT) ENGINE=InnoDB")
			must(t, err)
			_, err = first.Exec("START TRANSACTION WITH CONSISTENT SNAPSHOT")
			must(t, err)
			conflict(s.LockTx(ctx, first, "newer than the snapshot"), conn.ErSnapshot)
			var open bool
			must(t, first.QueryRow("SELECT @@in_transaction").Scan(&open))
			if open {
				t.Error("the transaction was not undone: then the error must not say so")
			}
			_, err = first.Exec("START TRANSACTION WITH CONSISTENT SNAPSHOT")
			must(t, err)
			must(t, s.LockTx(ctx, first, "newer than the snapshot"))
		})
	})
}

// TestP14_LockTx: the connection keeps its settings, whatever becomes of the wait.
func TestP14_LockTx(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		settings := func(tx *sql.Tx) map[string]string {
			t.Helper()
			all := make(map[string]string)
			rows, err := tx.Query("SHOW SESSION VARIABLES")
			must(t, err)
			defer rows.Close()
			for rows.Next() {
				var name, value string
				must(t, rows.Scan(&name, &value))
				all[name] = value
			}
			must(t, rows.Err())
			for _, passing := range []string{"timestamp", "rand_seed1", "rand_seed2", "gtid_executed", "gtid_binlog_pos", "gtid_current_pos", "gtid_binlog_state", "last_gtid", "statement_id", "open_files", "error_count", "warning_count"} {
				delete(all, passing)
			}
			for name := range all {
				if strings.HasPrefix(name, "gtid") || strings.HasPrefix(name, "innodb_") && strings.Contains(name, "buffer") {
					delete(all, name)
				}
			}
			return all
		}
		first, second := l.begin(), l.begin()
		before := settings(second)
		must(t, s.LockTx(ctx, first, "a"))
		must(t, s.LockTx(ctx, second, "b"))
		errs := []error{
			s.LockTxNoWait(ctx, second, "a"),
			s.LockTxWait(ctx, second, 50*time.Millisecond, "a"),
		}
		inTime := inMoreTime(t, 200*time.Millisecond, func(ctx context.Context) error { return s.LockTx(ctx, second, "a") }, told)
		for _, err := range append(errs, inTime) {
			if !errors.Is(err, rowlock.ErrHeld) {
				t.Error(err)
			}
		}
		if after := settings(second); !maps.Equal(before, after) {
			for name, value := range after {
				if before[name] != value {
					t.Errorf("%s was %q and is %q", name, before[name], value)
				}
			}
		}
		if free(t, l, s, "b") {
			t.Error("a busy key undid the transaction")
		}
		for _, k := range []string{"A", "a1", "c"} { // new rows around those
			if !free(t, l, s, k) {
				t.Errorf("%s is locked", k)
			}
		}
	})
}

// TestLockTxOnlyInATransaction: elsewhere a lock would end with its statement.
func TestLockTxOnlyInATransaction(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		conn, err := l.db.Conn(ctx)
		must(t, err)
		defer conn.Close()
		for _, tx := range []Tx{nil, l.db, conn} {
			if err := s.LockTx(ctx, tx, "a"); !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("%T: %v", tx, err)
			}
		}
		_, err = conn.ExecContext(ctx, "START TRANSACTION")
		must(t, err)
		must(t, s.LockTx(ctx, conn, "a"))
		if free(t, l, s, "a") {
			t.Error("a *sql.Conn with a transaction locks nothing")
		}
		_, err = conn.ExecContext(ctx, "ROLLBACK")
		must(t, err)
		exec(t, l.db, "DROP TABLE rowlock_tx")
		if err := s.LockTx(ctx, l.begin(), "a"); !errors.Is(err, rowlock.ErrSchema) {
			t.Errorf("no table: %v", err)
		}
	})
}

// TestLockTxFromElsewhere: the transaction may have another default database and be
// of another user, whose statements the Store cannot end.
func TestLockTxFromElsewhere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		other := newLab(t, l.kind, l.strategy)
		tx := other.begin()
		must(t, s.LockTx(ctx, tx, "a"))
		if free(t, l, s, "a") {
			t.Error("locked elsewhere")
		}
		user := l.config.DBName + "_u"
		exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'secret'")
		t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
		exec(t, l.db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+l.config.DBName+".* TO "+user+"@'%'")
		config := l.config.Clone()
		config.User, config.Passwd = user, "secret"
		plain, err := Open(config.FormatDSN(), Options{Strategy: l.strategy})
		must(t, err)
		defer plain.Close()
		waiting := l.begin()
		must(t, plain.LockTx(ctx, waiting, "b"))
		if err := plain.LockTxWait(ctx, waiting, 100*time.Millisecond, "a"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("a busy key: %v", err)
		}
		if err := inMoreTime(t, 200*time.Millisecond, func(ctx context.Context) error { return plain.LockTx(ctx, waiting, "a") }, told); !told(err) {
			t.Errorf("a context that ended: %v", err)
		}
		if free(t, l, s, "b") {
			t.Error("the transaction was undone")
		}
		time.AfterFunc(100*time.Millisecond, func() { _ = tx.Rollback() })
		must(t, plain.LockTxWait(ctx, waiting, testserver.Patience(t), "a", "b"))
		must(t, waiting.Rollback())

		// The user itself can end its own, without a privilege.
		must(t, s.LockTx(ctx, other.begin(), "a"))
		waiting, err = l.open(config).Begin()
		must(t, err)
		defer waiting.Rollback()
		if err := plain.LockTxWait(ctx, waiting, 50*time.Millisecond, "a"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("a busy key: %v", err)
		}
	})
}

// TestLockTxRowsGone: rows that were removed by hand are made again; a transaction
// that does not see what was made for it is on another server.
func TestLockTxRowsGone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		must(t, s.LockTx(ctx, l.begin(), "a"))
		gone := lookAway{l.begin(), 1}
		must(t, s.LockTx(ctx, &gone, "b"))
		if free(t, l, s, "b") {
			t.Error("not locked")
		}
		never := lookAway{l.begin(), 100}
		if err := s.LockTx(ctx, &never, "c"); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("rows that are never seen: %v", err)
		}
	})
}

// lookAway is a transaction that does not see the rows the first n times.
type lookAway struct {
	*sql.Tx
	n int
}

func (a *lookAway) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if strings.Contains(text, "FOR UPDATE") && a.n > 0 {
		a.n--
		text = "SELECT 1 FROM DUAL WHERE 1=0"
	}
	return a.Tx.QueryContext(ctx, text, args...)
}

// TestLockTxOnItsOwnServer: a MariaDB that undoes a transaction for a busy key, which
// the error says; and one that falls silent, which a wait survives by two seconds.
func TestLockTxOnItsOwnServer(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	server := testserver.Start(t, testserver.MariaDB, "--innodb-rollback-on-timeout")
	l := newLabAt(t, testserver.MariaDB, server.DSN(), VersionColumn)
	s, ctx := l.store(), patient(t)
	first, second := l.begin(), l.begin()
	must(t, s.LockTx(ctx, first, "a"))
	if err := s.LockTxNoWait(ctx, second, "a"); !errors.Is(err, rowlock.ErrHeld) || !errors.Is(err, rowlock.ErrConflict) {
		t.Errorf("a busy key: %v", err)
	}
	var open bool
	must(t, second.QueryRow("SELECT @@in_transaction").Scan(&open))
	if open {
		t.Error("the transaction was not undone: then the error must not say so")
	}
	must(t, second.Rollback())

	second = l.begin()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	start, ended := time.Now(), make(chan error, 1)
	go func() { ended <- s.LockTx(short, second, "a") }()
	time.Sleep(100 * time.Millisecond)
	server.Pause()
	err := <-ended
	server.Resume()
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rowlock.ErrHeld) {
		t.Errorf("a server that is silent: %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	must(t, first.Rollback())
	eventually(t, "the key is free", func() bool { return free(t, l, s, "a") })
}

// TestP8_LockTxWaitEnds: LockTxWait ends in time whatever it waits for: conflicts without an end, as while a cluster of Galera changes its
// members, at the first use of a Store or later.
func TestP8_LockTxWaitEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		l.store()
		conflicts := l.firewall().conflictsFor("\xff\x7a\x04#42S02") // a table that is missing
		s := l.bare()
		lock := func(s *Store) error {
			tx := l.begin()
			defer func() { _ = tx.Rollback() }()
			return s.LockTxWait(patient(t), tx, 200*time.Millisecond, "k")
		}
		ended := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, rowlock.ErrHeld) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "1213") {
				t.Errorf("P8: %s: %v, want ErrHeld", what, err)
			}
		}
		must(t, lock(s))
		exec(t, l.db, "RENAME TABLE rowlock_tx TO away")
		ended("conflicts", lock(s))
		exec(t, l.db, "RENAME TABLE away TO rowlock_tx")
		if conflicts.Load() == 0 {
			t.Error("there was no conflict")
		}
		must(t, lock(s))

		exec(t, l.db, "RENAME TABLE "+l.table()+" TO away")
		ended("conflicts at the first use", lock(l.bare()))
		exec(t, l.db, "RENAME TABLE away TO "+l.table())
	})
}
