package testenv_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/rowlock/rowlock/testenv"
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

			var replicas []*sql.DB
			for i, dsn := range s.MemberDSNs() {
				if i != old {
					replicas = append(replicas, sqlPool(t, dsn))
				}
			}
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
