package testenv_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
)

// TestHalfReceived: the primary dies in the middle of what it sends. Of its last transaction the replicas have the begin and
// wait for the rest, for a minute where they are only told to stop.
func TestHalfReceived(t *testing.T) {
	for _, kind := range []testenv.Kind{testenv.MySQLSemiSync, testenv.MySQLAsync} {
		t.Run(string(kind), func(t *testing.T) {
			s := startCluster(t, kind)
			c := connectSQL(t, s)
			must(t, "insert", c.insert("before"))
			old := primary(t, s, -1)
			writer := oneConn(t, s.MemberDSNs()[old])
			_, err := writer.ExecContext(t.Context(), "CREATE TABLE large (v LONGBLOB)")
			must(t, "create table", err)
			everywhere(t, s, 1)

			replicas := others(t, s, old)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					_, _ = writer.ExecContext(ctx, "INSERT INTO large WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i+1 FROM n WHERE i<200) SELECT REPEAT('x',1000000) FROM n")
				}
			}()
			for begin := time.Now(); ; {
				for !half(t, replicas) {
					if time.Since(begin) > time.Minute {
						t.Fatal("no replica was ever in the middle of a transaction")
					}
				}
				must(t, "freeze", s.Pause(old))
				time.Sleep(200 * time.Millisecond) // what is under way arrives
				if half(t, replicas) {
					break
				}
				must(t, "resume", s.Resume(old))
			}
			must(t, "kill", s.Kill(old))
			if !half(t, replicas) {
				t.Fatal("the replicas have all of it")
			}
			soon, cancel := context.WithTimeout(t.Context(), 45*time.Second) // the servers would wait for 60
			defer cancel()
			begin := time.Now()
			to, err := s.Promote(soon)
			must(t, "promote", err)
			t.Logf("member %d after member %d, in %v", to, old, time.Since(begin).Round(10*time.Millisecond))
			must(t, "insert", c.insertUntil("after", 20*time.Second))
			must(t, "rejoin", s.Rejoin(t.Context(), old))
			everywhere(t, s, 2)
		})
	}
}

// half reports whether a replica has begun to apply a transaction that it has not received as a whole.
func half(t *testing.T, replicas []*sql.DB) bool {
	t.Helper()
	for _, db := range replicas {
		var is bool
		must(t, "ask a replica", db.QueryRow("SELECT c.QUEUEING_TRANSACTION<>'' AND c.QUEUEING_TRANSACTION=a.PROCESSING_TRANSACTION "+
			"FROM performance_schema.replication_connection_status c JOIN performance_schema.replication_applier_status_by_coordinator a USING (CHANNEL_NAME)").Scan(&is))
		if is {
			return true
		}
	}
	return false
}

// TestSwitchWhileARowIsWaitedFor: the primary becomes read-only after the statements that are under way. One of them waits for a
// row that a transaction has, whose next statement waits for the switch.
func TestSwitchWhileARowIsWaitedFor(t *testing.T) {
	s := startCluster(t, testenv.MySQLSemiSync)
	c := connectSQL(t, s)
	must(t, "insert", c.insert("row"))
	old := primary(t, s, -1)
	first, next := oneConn(t, s.MemberDSNs()[old]), oneConn(t, s.MemberDSNs()[old])
	do := func(c *sql.Conn, text string) error {
		_, err := c.ExecContext(t.Context(), text)
		return err
	}
	must(t, "begin", do(first, "BEGIN"))
	must(t, "lock", do(first, "SELECT k FROM held WHERE k='row' FOR UPDATE"))
	waited := make(chan error, 1)
	go func() { waited <- do(next, "SELECT k FROM held WHERE k='row' FOR UPDATE") }()
	watch := sqlPool(t, s.MemberDSNs()[old])
	until(t, watch, "SELECT COUNT(*)>0 FROM performance_schema.data_lock_waits")
	switched := make(chan error, 1)
	go func() { switched <- s.Switch(t.Context(), (old+1)%s.Members()) }()
	until(t, watch, "SELECT COUNT(*)>0 FROM performance_schema.processlist WHERE STATE='Waiting for global read lock'")
	must(t, "write what was begun", do(first, "INSERT INTO held VALUES ('other')"))
	must(t, "commit what was begun", do(first, "COMMIT"))
	must(t, "wait for the row, for less than the 50 s of innodb_lock_wait_timeout", <-waited)
	must(t, "switch", <-switched)
	everywhere(t, s, 2)
}

// TestSwitchToOneThatIsBehind: who has not received what was committed does not become the primary, however long that takes.
func TestSwitchToOneThatIsBehind(t *testing.T) {
	s := startCluster(t, testenv.MySQLSemiSync)
	c := connectSQL(t, s)
	next := (primary(t, s, -1) + 1) % s.Members()
	receiver := func(verb string) {
		_, err := sqlPool(t, s.MemberDSNs()[next]).Exec(verb + " REPLICA IO_THREAD")
		must(t, verb, err)
	}
	receiver("STOP")
	must(t, "insert, which the third acknowledges", c.insertUntil("committed", 20*time.Second))
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Switch(soon, next); err == nil {
		t.Error("the next primary lacks what was committed")
	}
	receiver("START")
	must(t, "switch", s.Switch(t.Context(), next))
	everywhere(t, s, 1)
}

// until waits until a condition of the server holds.
func until(t *testing.T, db *sql.DB, condition string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var is bool
		must(t, condition, db.QueryRow(condition).Scan(&is))
		if is {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never: %s", condition)
		}
	}
}
