package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// examine is what Doctor says, with few samples.
func examine(t testing.TB, s *Store, o doctor.Options) *doctor.Report {
	t.Helper()
	if o.Samples == 0 {
		o.Samples = 2
	}
	r, err := s.Doctor(patient(t), o)
	must(t, err)
	return r
}

// finds returns the finding with an ID and a severity whose value has some words.
func finds(t testing.TB, r *doctor.Report, id string, severity doctor.Severity, words ...string) (found doctor.Finding) {
	t.Helper()
	for _, f := range r.Of(id) {
		matches := f.Severity == severity
		for _, w := range words {
			matches = matches && strings.Contains(f.Value, w)
		}
		if !matches {
			continue
		}
		if severity >= doctor.Warn && f.Advice == "" || f.Title == "" || strings.ContainsAny(f.Advice+f.Command, "{}") {
			t.Errorf("a finding without texts: %+v", f)
		}
		return f
	}
	t.Errorf("no finding %s (%v) of %q: %+v", id, severity, words, r.Of(id))
	return doctor.Finding{}
}

// finds is for what a change of the lab's database causes: the change, the finding, the command that it advises, and no
// finding any more.
func (l *lab) finds(s *Store, change, id string, severity doctor.Severity, o doctor.Options, words ...string) {
	l.t.Helper()
	exec(l.t, l.db, change)
	f := finds(l.t, examine(l.t, s, o), id, severity, words...)
	if f.Command == "" {
		return
	}
	exec(l.t, l.db, f.Command)
	for _, f := range examine(l.t, s, o).Of(id) {
		if f.Severity >= doctor.Warn {
			l.t.Errorf("%s: %s\nwas not mended by %s: %+v", id, change, f.Command, f)
		}
	}
}

// TestDoctorHealthy: on a server that is as it should be nothing is wrong, whatever the strategy, and nothing of the Doctor stays.
func TestDoctorHealthy(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		r := examine(t, s, doctor.Options{Samples: 30, Migrate: true, Ignore: []string{"RL132", "RL150"}}) // other tests run on this server
		for _, f := range r.Findings {
			if f.Severity >= doctor.Skipped {
				t.Errorf("%+v", f)
			}
		}
		if !strings.Contains(r.Server, "server_id") || r.Strategy != l.strategy.String() || r.Statement.P50 <= 0 || r.Commit.P50 <= 0 || r.Renewal.P99 <= 0 || r.SkewError <= 0 || r.SaneTTL < 2*time.Second {
			t.Errorf("%+v", r)
		}
		if len(r.Findings) < 20 || r.Exit(true) != doctor.ExitOK {
			t.Errorf("%d findings, exit code %d", len(r.Findings), r.Exit(true))
		}
		for _, table := range []string{l.table(), l.shares()} {
			var rows int
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&rows))
			if rows != 0 {
				t.Errorf("%d rows are left in %s", rows, table)
			}
		}
	})
}

// TestDoctorReadOnly: with ReadOnly nothing is written, and what would be is skipped.
func TestDoctorReadOnly(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		var rec recorder
		connector, err := mysql.NewConnector(l.config.Clone())
		must(t, err)
		pool := sql.OpenDB(recordingConnector{connector, &rec})
		defer pool.Close()
		s, err := New(pool, l.options())
		must(t, err)
		defer s.Close()
		r := examine(t, s, doctor.Options{ReadOnly: true, Migrate: true})
		for _, id := range []string{"RL111", "RL112", "RL113", "RL161", "RL162", "RL163"} {
			finds(t, r, id, doctor.Skipped, "ReadOnly")
		}
		finds(t, r, "RL110", doctor.OK)
		for _, text := range rec.take() {
			switch verb, _, _ := strings.Cut(text, " "); verb {
			case "SELECT", "SHOW", "SET", "EXPLAIN", "ROLLBACK", "DO", "PROXYSQL":
			default:
				t.Errorf("sent %s", text)
			}
		}
		if r.Statement.P50 <= 0 || r.Renewal.P50 != 0 || r.Exit(false) != doctor.ExitOK {
			t.Errorf("%+v", r)
		}
	})
}

// TestDoctorSmallPool: where a program's pool has one connection to give, what needs two is skipped.
func TestDoctorSmallPool(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	onServers(t, func(t *testing.T, l *lab) {
		l.store()
		pool, s, _ := l.sharedPool(t, 20, Options{})
		must(t, s.Check(patient(t))) // opens what the Store needs here
		for pool.Stats().InUse < 19 {
			c, err := pool.Conn(patient(t))
			must(t, err)
			defer c.Close()
		}
		r := examine(t, s, doctor.Options{Ignore: []string{"RL161", "RL162"}})
		for _, id := range []string{"RL112", "RL113", "RL171", "RL172"} {
			finds(t, r, id, doctor.Skipped, "no second connection")
		}
		if n := pool.Stats().InUse; n != 19 {
			t.Errorf("%d connections are in use after it, want 19", n)
		}
	}, VersionColumn)
}

// TestDoctorRefuses: options that cannot be used, and a server that cannot be reached.
func TestDoctorRefuses(t *testing.T) {
	t.Parallel()
	s, err := Open("u:p@tcp(127.0.0.1:1)/d", Options{})
	must(t, err)
	ctx := patient(t)
	_, err = s.Doctor(ctx, doctor.Options{})
	refused(t, err, nil, false, "connect")
	for _, c := range []struct {
		o     doctor.Options
		words []string
	}{
		{doctor.Options{Samples: -1}, []string{"Samples", "-1"}},
		{doctor.Options{TTL: -time.Second}, []string{"TTL", "-1s"}},
		{doctor.Options{Programs: -2}, []string{"Programs", "-2"}},
		{doctor.Options{OldTransaction: -1}, []string{"OldTransaction"}},
		{doctor.Options{Ignore: []string{"RL201"}}, []string{"RL201", "RL101"}},
	} {
		_, err = s.Doctor(ctx, c.o)
		refused(t, err, driver.ErrInvalid, true, c.words...)
	}
	must(t, s.Close())
	_, err = s.Doctor(ctx, doctor.Options{})
	refused(t, err, driver.ErrClosed, true, "closed")
}

// TestDoctorSettings: each setting that is wrong on a real server is found, and the command mends it.
func TestDoctorSettings(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			isMySQL := kind == testserver.MySQL
			server := testserver.Start(t, kind)
			l := newLabAt(t, kind, server.DSN(), VersionColumn)
			s := l.store()
			none := doctor.Options{}
			l.finds(s, "SET GLOBAL innodb_flush_log_at_trx_commit=2", "RL103", doctor.Fail, none, "is 2")
			l.finds(s, "SET GLOBAL sync_binlog=0", "RL108", doctor.Warn, none, "is 0")
			l.finds(s, "SET GLOBAL innodb_deadlock_detect=OFF", "RL105", doctor.Warn, none, "OFF")
			l.finds(s, "SET GLOBAL wait_timeout=30", "RL106", doctor.Warn, none, "30s")
			l.finds(s, "SET GLOBAL max_allowed_packet=65536", "RL131", doctor.Warn, none, "65536")
			l.finds(s, "SET GLOBAL max_connections=20", "RL130", doctor.Warn, doctor.Options{Programs: 2}, "of 20", "2 programs of up to 10")
			l.finds(s, "SET GLOBAL read_only=ON", "RL102", doctor.Fail, none, "read_only is ON")
			readOnly := l.readOnlyByDefault()
			l.finds(s, "SET GLOBAL "+readOnly+"=ON", "RL102", doctor.Warn, none, readOnly+" is ON")
			if isMySQL {
				l.finds(s, "ALTER SCHEMA "+l.config.DBName+" READ ONLY=1", "RL102", doctor.Fail, doctor.Options{ReadOnly: true}, "READ ONLY")
				l.finds(s, "SET GLOBAL transaction_isolation='SERIALIZABLE'", "RL104", doctor.Warn, none, "SERIALIZABLE")
				l.finds(s, "SET GLOBAL max_execution_time=1000", "RL107", doctor.Warn, none, "max_execution_time is 1000 (1s)")
				l.finds(s, "ALTER INSTANCE DISABLE INNODB REDO_LOG", "RL109", doctor.Fail, none, "redo log")
				l.finds(s, "SET GLOBAL offline_mode=ON", "RL102", doctor.Fail, none, "offline_mode is ON")
			} else {
				l.finds(s, "SET GLOBAL tx_isolation='SERIALIZABLE'", "RL104", doctor.Warn, none, "SERIALIZABLE")
				l.finds(s, "SET GLOBAL max_statement_time=1.5", "RL107", doctor.Warn, none, "max_statement_time is 1.5", "(1.5s)")
				l.strategy = SelectForUpdate
				l.finds(l.bare(), "SET GLOBAL idle_write_transaction_timeout=5", "RL106", doctor.Fail, none, "idle_write_transaction_timeout is 5s", "30s")
			}
			if r := examine(t, s, none); r.Worst() >= doctor.Warn {
				t.Errorf("after all was mended: %+v", r.Findings)
			}
			l.strategy = VersionColumn
			t.Run("clock", func(t *testing.T) { testDoctorClock(t, l) })
			t.Run("refused connections", func(t *testing.T) { testDoctorRefusedConnections(t, l) })
		})
	}
}

// TestDoctorTries: where no lock can be taken Doctor fails, for whatever reason that is.
func TestDoctorTries(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		exec(t, l.db, "CREATE TRIGGER refusing BEFORE INSERT ON "+l.table()+" FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT='not here'")
		r := examine(t, s, doctor.Options{})
		finds(t, r, "RL163", doctor.Fail, "not here")
		finds(t, r, "RL161", doctor.Skipped)
		if r.Exit(false) != doctor.ExitFail {
			t.Errorf("exit code %d", r.Exit(false))
		}
		exec(t, l.db, "DROP TRIGGER refusing")
		finds(t, examine(t, s, doctor.Options{}), "RL163", doctor.OK)
	})
}

// readOnlyByDefault is the variable that makes transactions read-only: MariaDB before 11.1 knows only the old name.
func (l *lab) readOnlyByDefault() string {
	l.t.Helper()
	err := l.db.QueryRow("SELECT @@GLOBAL.transaction_read_only").Scan(new(int))
	if conn.Number(err) == conn.ErNoVariable {
		return "tx_read_only"
	}
	must(l.t, err)
	return "transaction_read_only"
}

// TestDoctorReadOnlySessions: Doctor succeeds on a server whose sessions begin read-only if and only if locks can be taken there.
func TestDoctorReadOnlySessions(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind)
			name := newLabAt(t, kind, server.DSN(), VersionColumn).readOnlyByDefault()
			for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
				l := newLabAt(t, kind, server.DSN(), strategy)
				l.store()
				exec(t, l.db, "SET GLOBAL "+name+"=1")
				results, err := l.bare().Acquire(patient(t), []driver.Request{request("a", time.Minute)})
				if err == nil {
					err = results[0].Err
				}
				r := examine(t, l.bare(), doctor.Options{})
				want, exit := doctor.OK, doctor.ExitWarn
				if err != nil {
					want, exit = doctor.Fail, doctor.ExitFail
				}
				finds(t, r, "RL163", want)
				finds(t, r, "RL102", doctor.Warn, name)
				if r.Exit(false) != exit {
					t.Errorf("an acquire says %v, the exit code is %d: %+v", err, r.Exit(false), r.Findings)
				}
				exec(t, l.db, "SET GLOBAL "+name+"=0")
			}
		})
	}
}

// TestDoctorServers: what only the start of a server can make wrong.
func TestDoctorServers(t *testing.T) {
	t.Parallel()
	on := func(t *testing.T, kind string, arguments ...string) *doctor.Report {
		server := testserver.Start(t, kind, arguments...)
		s, err := Open(server.DSN(), Options{})
		must(t, err)
		defer s.Close()
		return examine(t, s, doctor.Options{Ignore: []string{"RL112"}})
	}
	t.Run("no double write", func(t *testing.T) {
		t.Parallel()
		finds(t, on(t, testserver.MySQL, "--innodb-doublewrite=OFF"), "RL109", doctor.Warn, "OFF")
	})
	t.Run("an old version", func(t *testing.T) {
		t.Parallel()
		r := on(t, testserver.MariaDB, "--version=10.5.9-MariaDB", "--skip-log-bin")
		finds(t, r, "RL101", doctor.Fail, "10.5.9")
		finds(t, r, "RL108", doctor.OK, "log_bin is OFF")
	})
	t.Run("another product", func(t *testing.T) {
		t.Parallel()
		finds(t, on(t, testserver.MariaDB, "--version=8.0.11-TiDB-v7.5.0"), "RL101", doctor.Fail, "TiDB")
	})
}

// testDoctorRefusedConnections: somebody was refused for want of a connection.
func testDoctorRefusedConnections(t *testing.T, l *lab) {
	exec(t, l.db, "CREATE USER many@'%' IDENTIFIED BY 'pw'")
	exec(t, l.db, "SET GLOBAL max_connections=10")
	config := l.config.Clone()
	config.User, config.Passwd, config.DBName = "many", "pw", ""
	pool := l.open(config)
	var err error
	for range 20 {
		var c *sql.Conn
		if c, err = pool.Conn(patient(t)); err != nil {
			break
		}
		defer c.Close()
	}
	if err == nil {
		t.Fatal("20 connections where 10 are allowed")
	}
	exec(t, l.db, "SET GLOBAL max_connections=100")
	store := l.store()
	var r *doctor.Report
	eventually(t, "the server has counted it", func() bool { // after the answer
		r = examine(t, store, doctor.Options{ReadOnly: true})
		return r.Of("RL132")[0].Severity != doctor.OK
	})
	// It was before the doctor came, and says nothing of now.
	finds(t, r, "RL132", doctor.Info, "none just now", "max_connections 100")
	if r.Exit(false) != doctor.ExitOK {
		t.Errorf("exit code %d", r.Exit(false))
	}

	// A doctor that has seen a smaller number at its beginning warns.
	ctx := patient(t)
	report := doctor.New(doctor.MySQL(), doctor.Options{})
	e := store.examination(nil, doctor.Options{Programs: 1}, report)
	defer e.End()
	_, err = e.Begin(ctx)
	must(t, err)
	must(t, e.RefusedConnections(ctx))
	exec(t, l.db, finds(t, report, "RL132", doctor.Warn, "just now", "max_connections 100").Command)
}

// TestDoctorPrivileges: a user without rights is told which, and what it may not look at.
func TestDoctorPrivileges(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		s, user := l.plainStore(t)
		exec(t, l.db, "GRANT SELECT ON "+l.config.DBName+".* TO "+user)
		r := examine(t, s, doctor.Options{Migrate: true})
		f := finds(t, r, "RL110", doctor.Fail, "INSERT, UPDATE, DELETE", l.table())
		finds(t, r, "RL111", doctor.Info, "denied")
		finds(t, r, "RL150", doctor.Skipped, "PROCESS")
		finds(t, r, "RL121", doctor.Skipped, "TRIGGER") // it would not see one
		finds(t, r, "RL125", doctor.Skipped, "EVENT")
		finds(t, r, "RL161", doctor.Skipped)
		if r.Exit(false) != doctor.ExitFail || !strings.Contains(f.Command, user) {
			t.Errorf("exit code %d; %+v", r.Exit(false), f)
		}
		for _, f := range append(r.Of("RL110"), r.Of("RL114")...) {
			exec(t, l.db, f.Command)
		}
		r = examine(t, s, doctor.Options{Migrate: true})
		finds(t, r, "RL110", doctor.OK)
		finds(t, r, "RL161", doctor.OK)
		finds(t, r, "RL112", doctor.OK, "ended") // KILL of its own sessions needs no privilege
		if r.Exit(false) != doctor.ExitOK || r.Exit(true) != doctor.ExitUnknown {
			t.Errorf("exit codes %d and %d", r.Exit(false), r.Exit(true))
		}
		for _, t2 := range s.strategy.Layout() {
			exec(t, l.db, "GRANT TRIGGER ON "+t2.Table+" TO "+user)
		}
		exec(t, l.db, "GRANT EVENT ON "+l.config.DBName+".* TO "+user)
		r = examine(t, s, doctor.Options{Migrate: true})
		finds(t, r, "RL121", doctor.OK)
		finds(t, r, "RL125", doctor.OK)
		exec(t, l.db, finds(t, r, "RL111", doctor.Info).Command)
		finds(t, examine(t, s, doctor.Options{Migrate: true}), "RL111", doctor.OK)

		must(t, s.Close()) // its connections count
		exec(t, l.db, "ALTER USER "+user+" WITH MAX_USER_CONNECTIONS 7")
		s, err := Open(l.dsnOf(user), l.options())
		must(t, err)
		defer s.Close()
		r = examine(t, s, doctor.Options{ReadOnly: true})
		exec(t, l.db, finds(t, r, "RL130", doctor.Warn, "7 for this user").Command)
	})
}

// TestDoctorOtherTables: the tables of runs and of LockTx are looked at too. Locks work without them.
func TestDoctorOtherTables(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		full := l.store()
		s, user := l.plainStore(t)
		for _, table := range full.strategy.Layout() {
			exec(t, l.db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+table.Table+" TO "+user)
		}
		r := examine(t, s, doctor.Options{})
		finds(t, r, "RL110", doctor.OK)
		finds(t, r, "RL161", doctor.OK)
		for _, table := range []string{full.names.run, full.names.tx} {
			f := finds(t, r, "RL114", doctor.Warn, table, "SELECT", "denied")
			if !strings.Contains(f.Command, user) || !strings.Contains(f.Command, table) {
				t.Errorf("the command: %+v", f)
			}
			exec(t, l.db, f.Command)
		}
		finds(t, examine(t, s, doctor.Options{}), "RL114", doctor.OK)
		finds(t, examine(t, s, doctor.Options{ReadOnly: true}), "RL114", doctor.OK)
		exec(t, l.db, "DROP TABLE "+full.names.run)
		if f := finds(t, examine(t, s, doctor.Options{}), "RL114", doctor.Warn, full.names.run, "missing"); f.Command != "rowlock migrate --up" {
			t.Errorf("the command: %+v", f)
		}
		exec(t, l.db, "DROP TABLE "+full.names.tx)
		exec(t, l.db, "DROP TABLE "+l.table())
		finds(t, examine(t, s, doctor.Options{}), "RL114", doctor.Skipped, "missing")
	})
}

// plainStore is a store of a user that has no rights yet.
func (l *lab) plainStore(t *testing.T) (s *Store, user string) {
	t.Helper()
	name := "u" + l.config.DBName[2:]
	user = "'" + name + "'@'%'"
	exec(t, l.db, "CREATE USER "+user+" IDENTIFIED BY 'pw'")
	t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user) })
	s, err := Open(l.dsnOf(user), l.options())
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, user
}

// dsnOf is the lab's address for that user.
func (l *lab) dsnOf(user string) string {
	config := l.config.Clone()
	config.User, _, _ = strings.Cut(strings.Trim(user, "'"), "'")
	config.Passwd = "pw"
	return config.FormatDSN()
}

// TestDoctorTables: tables that are missing, or not as they should be.
func TestDoctorTables(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.bare()
		ctx := patient(t)
		r := examine(t, s, doctor.Options{})
		finds(t, r, "RL120", doctor.Fail, l.table(), "missing")
		finds(t, r, "RL161", doctor.Skipped)
		finds(t, r, "RL110", doctor.Skipped, "missing")
		must(t, s.Migrate(ctx))
		finds(t, examine(t, s, doctor.Options{}), "RL120", doctor.OK)

		none, table := doctor.Options{}, l.table()
		l.finds(s, "ALTER TABLE "+table+" ENGINE=MyISAM", "RL124", doctor.Fail, none, table, "MyISAM")
		l.finds(s, "ALTER TABLE "+table+" MODIFY name VARCHAR(255) CHARACTER SET latin1 NOT NULL", "RL123", doctor.Fail, none, table, "varchar(255)", "latin1_swedish_ci")
		l.finds(s, "CREATE TRIGGER watching AFTER UPDATE ON "+table+" FOR EACH ROW SET @seen=1", "RL121", doctor.Fail, none, "watching", table)
		l.finds(s, "CREATE TRIGGER leaving AFTER DELETE ON "+table+" FOR EACH ROW SET @seen=1", "RL121", doctor.Warn, none, "leaving", table)
		l.finds(s, "CREATE TABLE jobs (name VARBINARY(255) NOT NULL, CONSTRAINT known FOREIGN KEY (name) REFERENCES "+table+" (name)) ENGINE=InnoDB", "RL121", doctor.Warn, none, "known", "jobs")
		l.finds(s, "ALTER TABLE "+table+" ADD UNIQUE KEY strange (acquired_at)", "RL123", doctor.Fail, none, table, "the unique index strange")
		l.finds(s, "CREATE EVENT tidy ON SCHEDULE EVERY 1 DAY DO DELETE FROM "+table+" WHERE expires_at < NOW()", "RL125", doctor.Warn, none, "event tidy of schema "+l.config.DBName)
		l.finds(s, "ALTER TABLE "+table+" PARTITION BY KEY (name) PARTITIONS 2", "RL121", doctor.Warn, none, "partitions", table)

		exec(t, l.db, "ALTER TABLE "+table+" DROP INDEX guard")
		finds(t, examine(t, s, none), "RL123", doctor.Fail, table, "guard")
	})
}

// TestDoctorDeadRows: rows that nobody reaps.
func TestDoctorDeadRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		rows := make([]string, 1001)
		for i := range rows {
			rows[i] = fmt.Sprintf("('k%d',x'%032x','me',%d,'2020-01-01','2020-01-01','2020-01-01')", i, i+1, i+2048)
		}
		exec(t, l.db, "INSERT INTO "+l.table()+" (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES "+strings.Join(rows, ","))
		finds(t, examine(t, s, doctor.Options{}), "RL122", doctor.Warn, "1001", l.table())
		for range 3 { // what the command does
			_, err := s.Reap(patient(t), 48*time.Hour)
			must(t, err)
		}
		finds(t, examine(t, s, doctor.Options{}), "RL122", doctor.OK, "0")
	})
}

// TestDoctorOldTransactions: a guarded transaction that nobody ends is found, a long hold of SelectForUpdate is not.
func TestDoctorOldTransactions(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		client{t: t, Store: s}.granted("held", time.Minute)
		tx, err := l.db.Begin()
		must(t, err)
		defer tx.Rollback()
		var id uint64
		must(t, tx.QueryRow("SELECT CONNECTION_ID()").Scan(&id))
		must(t, s.LockTx(patient(t), tx, "job"))
		time.Sleep(1100 * time.Millisecond) // the server counts whole seconds
		session := fmt.Sprintf("session %d:", id)
		// The server renews what it says of transactions only when nobody asked for 0.1 s (MySQL manual, "Persistence and
		// Consistency of InnoDB Transaction and Locking Information"), and other tests ask this server too.
		examined := func(done func(*doctor.Report) bool) (r *doctor.Report) {
			t.Helper()
			for end := time.Now().Add(testserver.Patience(t)); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				if r = examine(t, s, doctor.Options{OldTransaction: time.Second}); done(r) {
					return r
				}
			}
			return r
		}
		listed := func(r *doctor.Report) bool {
			return slices.ContainsFunc(r.Of("RL150"), func(f doctor.Finding) bool { return strings.Contains(f.Value, session) })
		}
		r := examined(listed)
		f := finds(t, r, "RL150", doctor.Warn, session)
		if t.Failed() {
			return
		}
		if s.options.Strategy == SelectForUpdate {
			var holder uint64
			must(t, l.db.QueryRow("SELECT conn_id FROM rowlock_session WHERE name='held'").Scan(&holder))
			for _, f := range r.Of("RL150") {
				if strings.Contains(f.Value, fmt.Sprintf("session %d:", holder)) {
					t.Errorf("the holder of a key is taken for a transaction that is in the way: %+v", f)
				}
			}
		}
		exec(t, l.db, f.Command)
		if r := examined(func(r *doctor.Report) bool { return !listed(r) }); listed(r) {
			t.Errorf("the transaction has ended, and is found: %+v", r.Of("RL150"))
		}
	})
}

// testDoctorClock: a server whose clock is wrong. SET TIMESTAMP is what its users see as the time.
func testDoctorClock(t *testing.T, l *lab) {
	r := examine(t, l.store(), doctor.Options{})
	finds(t, r, "RL160", doctor.Info)
	if off := max(r.Skew, -r.Skew) - r.SkewError; off > time.Second {
		t.Errorf("the server of this machine is %v away", r.Skew)
	}
	s, user := l.plainStore(t) // others do not get init_connect
	exec(t, l.db, "GRANT ALL ON "+l.config.DBName+".* TO "+user)
	exec(t, l.db, "SET GLOBAL init_connect='SET timestamp=1000000000'")
	defer exec(t, l.db, "SET GLOBAL init_connect=''")
	r = examine(t, s, doctor.Options{ReadOnly: true})
	finds(t, r, "RL160", doctor.Info, "behind")
	if behind := time.Since(time.Unix(1000000000, 0)); r.Skew > -behind+time.Minute || r.Skew < -behind-time.Minute {
		t.Errorf("skew %v, want about %v", r.Skew, -behind)
	}
}

// TestDoctorLatency: a database that is far away, for a TTL that is short.
func TestDoctorLatency(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, l *lab) {
		l.store()
		far := newDistance(t, l.config.Addr, 50*time.Millisecond)
		s := l.through(far.addr)
		r := examine(t, s, doctor.Options{TTL: 500 * time.Millisecond, Failover: time.Minute})
		finds(t, r, "RL161", doctor.Fail, "500ms")
		finds(t, r, "RL162", doctor.Warn, "500ms", "1m0s")
		if r.Statement.P50 < 100*time.Millisecond || r.Renewal.P50 < 100*time.Millisecond || r.SaneTTL < 106*time.Second {
			t.Errorf("%+v", r)
		}
		w := r.Renewal.P99 // the machine may have been busy
		again := doctor.New(doctor.MySQL(), doctor.Options{})
		again.Renewal = r.Renewal
		again.Judge("RL161", "RL162", doctor.Options{TTL: 10 * w}, 0)
		finds(t, again, "RL161", doctor.Warn)
	}, VersionColumn)
}

// through is a store of the lab behind a proxy.
func (l *lab) through(addr string) *Store {
	l.t.Helper()
	config := l.config.Clone()
	config.Addr = addr
	s, err := Open(config.FormatDSN(), l.options())
	must(l.t, err)
	l.t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestDoctorProxies: proxies that share sessions among clients, and one that leads to two servers.
func TestDoctorProxies(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		m := newMultiplexer(t, l.config.Addr)
		m.answers = "PROXYSQL INTERNAL SESSION"
		o := doctor.Options{}
		if l.strategy == SelectForUpdate { // a lock would be the session of all clients
			o.Ignore = []string{"RL161", "RL162"}
		}
		r := examine(t, l.through(m.addr), o)
		finds(t, r, "RL170", doctor.Info)
		if l.strategy == SelectForUpdate {
			finds(t, r, "RL171", doctor.Fail, "3 connections were 1 session")
		} else {
			finds(t, r, "RL171", doctor.Info, "3 connections were 1 session")
		}
		finds(t, r, "RL112", doctor.Warn)
		finds(t, r, "RL113", doctor.Warn, `"1" and "1"`)
	})
	t.Run("two servers", func(t *testing.T) {
		t.Parallel()
		one := newLab(t, testserver.MySQL, VersionColumn)
		other, err := mysql.ParseDSN(testserver.DSN(t, testserver.MariaDB))
		must(t, err)
		config := one.config.Clone()
		config.DBName, config.Addr = "", newMultiplexer(t, one.config.Addr, other.Addr).addr
		s, err := Open(config.FormatDSN(), Options{})
		must(t, err)
		defer s.Close()
		// Of statements that go to two servers nothing else is certain.
		report := doctor.New(doctor.MySQL(), doctor.Options{})
		e := s.examination(nil, doctor.Options{}, report)
		defer e.End()
		_, err = e.Open(context.Background())
		must(t, err)
		must(t, e.Proxies(patient(t)))
		finds(t, report, "RL172", doctor.Fail, ":1, ")
	})
}
