package testenv_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/internal/testserver"
)

// clusterKinds are those that have members which take turns at being written to.
func clusterKinds() (kinds []testenv.Kind) {
	for _, k := range testenv.Kinds {
		if k.Clustered() {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// startCluster skips where a cluster cannot be made: it takes programs of this machine, not containers.
func startCluster(t *testing.T, kind testenv.Kind) *testenv.Server {
	testserver.Long(t)
	t.Helper()
	s, err := testenv.Start(t.Context(), kind)
	skipUnavailable(t, err)
	must(t, "start", err)
	t.Cleanup(func() { must(t, "close", s.Close()) })
	return s
}

// TestCluster takes a cluster of each kind through a switch, a kill and a freeze of the member that takes writes, and
// looks at what both addresses do and that nothing that was acknowledged is gone.
func TestCluster(t *testing.T) {
	for _, kind := range clusterKinds() {
		t.Run(string(kind), func(t *testing.T) {
			data := t.TempDir()
			t.Setenv("ROWLOCK_TEST_DATA", data)
			onlyLoopback(t)
			begin := time.Now()
			s := startCluster(t, kind)
			t.Logf("%s %s after %v", kind, s.Version(), time.Since(begin).Round(100*time.Millisecond))
			c := connectSQL(t, s)
			must(t, "insert", c.insert("before"))

			cut, left := oneConn(t, s.DSN()), oneConn(t, s.LeavingDSN())
			old := primary(t, s, -1)
			next := (old + 1) % s.Members()
			must(t, "switch", s.Switch(t.Context(), next))
			if got := primary(t, s, -1); got != next {
				t.Fatalf("member %d takes writes after a switch to %d", got, next)
			}
			must(t, "insert after the switch", c.insertUntil("switched", 20*time.Second))
			if err := answers(t, cut); err == nil {
				t.Error("the address that cuts left a connection to the member that took writes before")
			}
			must(t, "a connection of the address that leaves them", answers(t, left))
			if err := s.Switch(t.Context(), next); err == nil {
				t.Error("switched to the member that takes writes already")
			}
			if err := s.Switch(t.Context(), s.Members()); err == nil {
				t.Error("switched to a member that is not there")
			}

			if kind == testenv.MySQLAsync {
				everywhere(t, s, 2) // who dies forgets what the others have not got
			}
			must(t, "kill", s.Kill(next))
			after := promote(t, s, next)
			must(t, "insert after the kill", c.insertUntil("killed", 20*time.Second))
			must(t, "rejoin", s.Rejoin(t.Context(), next))

			if kind == testenv.MySQLAsync {
				everywhere(t, s, 3)
			}
			must(t, "freeze", s.Pause(after))
			last := promote(t, s, after)
			must(t, "insert after the freeze", c.insertUntil("frozen", 20*time.Second))
			must(t, "resume", s.Resume(after))
			must(t, "rejoin", s.Rejoin(t.Context(), after))
			must(t, "insert at the end", c.insertUntil("end", 20*time.Second))
			t.Logf("members %d, %d, %d, %d took writes in turn", old, next, after, last)

			everywhere(t, s, 5)
			must(t, "restart of another", s.Restart(t.Context(), (last+1)%s.Members()))
			if err := s.Restart(t.Context()); err == nil {
				t.Error("a cluster was restarted as a whole")
			}
			must(t, "close", s.Close())
			if _, err := s.Promote(t.Context()); err == nil {
				t.Error("a closed cluster was changed")
			}
			if left, _ := os.ReadDir(data); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// everywhere waits until each member has so many keys.
func everywhere(t *testing.T, s *testenv.Server, keys int) {
	t.Helper()
	for i, dsn := range s.MemberDSNs() {
		db := sqlPool(t, dsn)
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			var n int
			err := db.QueryRow("SELECT COUNT(*) FROM held").Scan(&n)
			if err == nil && n == keys {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("member %d has %d of %d keys: %v", i, n, keys, err)
			}
		}
	}
}

// TestNoCluster: what is no cluster says so.
func TestNoCluster(t *testing.T) {
	s := start(t, testenv.Mongo)
	if _, err := s.Promote(t.Context()); err == nil {
		t.Error("a single server was promoted")
	}
	if s.LeavingDSN() != "" || s.MemberDSNs() != nil {
		t.Error("a single server has addresses of a cluster")
	}
}

// TestFailoverForgets: what tells asynchronous replicas from semi-synchronous ones. The replicas receive nothing for a
// moment, the primary acknowledges a write or does not, and dies.
func TestFailoverForgets(t *testing.T) {
	for _, kind := range []testenv.Kind{testenv.MySQLAsync, testenv.MySQLSemiSync} {
		t.Run(string(kind), func(t *testing.T) {
			s := startCluster(t, kind)
			c := connectSQL(t, s)
			must(t, "insert", c.insert("before"))
			old := primary(t, s, -1)
			for _, replica := range others(t, s, old) {
				_, err := replica.Exec("STOP REPLICA IO_THREAD")
				must(t, "stop receiving", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := c.do(ctx, "last")
			if acknowledged := err == nil; acknowledged != (kind == testenv.MySQLAsync) {
				t.Fatalf("a write that no replica received: %v", err)
			}
			must(t, "kill", s.Kill(old))
			promote(t, s, old)
			must(t, "the same key once more, which nobody has", c.insertUntil("other", 20*time.Second))
			var n int
			must(t, "count", sqlPool(t, s.DSN()).QueryRow("SELECT COUNT(*) FROM held WHERE k='last'").Scan(&n))
			if n != 0 {
				t.Errorf("the new primary has a write that it never received")
			}
			must(t, "rejoin: what only the old primary has is thrown away", s.Rejoin(t.Context(), old))
			must(t, "count", sqlPool(t, s.MemberDSNs()[old]).QueryRow("SELECT COUNT(*) FROM held WHERE k='last'").Scan(&n))
			if n != 0 {
				t.Errorf("the old primary kept a write that the others lack")
			}
		})
	}
}

// TestRejoined: a member that was frozen takes part for the others too when Rejoin returns: where they have left it behind, and
// it does not know that yet, the next that fails would leave no majority.
func TestRejoined(t *testing.T) {
	for _, kind := range []testenv.Kind{testenv.MySQLGroup3, testenv.MariaDBGalera3} {
		t.Run(string(kind), func(t *testing.T) {
			s := startCluster(t, kind)
			c := connectSQL(t, s)
			old := primary(t, s, -1)
			must(t, "freeze", s.Pause(old))
			now := promote(t, s, old)
			must(t, "insert", c.insertUntil(fmt.Sprint(old, time.Now()), 20*time.Second)) // by then the others have left it behind
			must(t, "rejoin", s.Rejoin(t.Context(), old))
			must(t, "freeze the next", s.Pause(now))
			promote(t, s, now)
			must(t, "insert", c.insertUntil(fmt.Sprint(now, time.Now()), 20*time.Second))
			must(t, "rejoin the next", s.Rejoin(t.Context(), now))
		})
	}
}

// TestMemberCutOff: a member that its clients reach and the others do not is replaced, and comes back. What it is told to
// write meanwhile is written nowhere.
func TestMemberCutOff(t *testing.T) {
	testserver.Long(t)
	for _, kind := range []testenv.Kind{testenv.MySQLSemiSync, testenv.MySQLGroup3, testenv.MariaDBGalera3} {
		t.Run(string(kind), func(t *testing.T) {
			s := troubled(t, kind)
			c := connectSQL(t, s)
			must(t, "insert", c.insert("before"))
			old := primary(t, s, -1)
			must(t, "cut off", s.CutOff(true, old))
			alone, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			wrote := make(chan error, 1)
			onOld := oneConn(t, s.MemberDSNs()[old])
			go func() {
				_, err := onOld.ExecContext(alone, "INSERT INTO held VALUES ('alone')")
				wrote <- err
			}()
			if kind != testenv.MySQLSemiSync { // its replicas are promoted by whoever notices
				primary(t, s, old)
			}
			now := promote(t, s, old)
			must(t, "insert", c.insertUntil("cut", 30*time.Second))
			must(t, "ask the one that is cut off", answers(t, oneConn(t, s.MemberDSNs()[old])))
			t.Logf("member %d takes writes after member %d", now, old)
			begin := time.Now()
			must(t, "undo", s.CutOff(false, old))
			must(t, "rejoin", s.Rejoin(t.Context(), old))
			t.Logf("it takes part again after %v", time.Since(begin).Round(100*time.Millisecond))
			must(t, "insert", c.insertUntil("after", 30*time.Second))
			everywhere(t, s, 3)
			cancel()
			if err := <-wrote; err == nil {
				t.Error("a write was acknowledged by the member that was cut off")
			}
		})
	}
}

// primary waits until a member takes writes, and not that one.
func primary(t *testing.T, s *testenv.Server, not int) int {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if i, err := s.Primary(t.Context()); err == nil && i >= 0 && i != not {
			return i
		}
	}
	t.Fatalf("no member but %d takes writes", not)
	return 0
}

// others are all members but one.
func others(t *testing.T, s *testenv.Server, but int) (all []*sql.DB) {
	t.Helper()
	for i, dsn := range s.MemberDSNs() {
		if i != but {
			all = append(all, sqlPool(t, dsn))
		}
	}
	return all
}

func promote(t *testing.T, s *testenv.Server, old int) int {
	t.Helper()
	begin := time.Now()
	to, err := s.Promote(t.Context())
	must(t, "promote", err)
	if to == old || to < 0 {
		t.Fatalf("member %d was promoted, while %d is away", to, old)
	}
	t.Logf("member %d after member %d, in %v", to, old, time.Since(begin).Round(10*time.Millisecond))
	return to
}

// oneConn is one connection, which is not replaced by another.
func oneConn(t *testing.T, dsn string) *sql.Conn {
	t.Helper()
	c, err := sqlPool(t, dsn).Conn(t.Context())
	must(t, "connect", err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, "first statement", answers(t, c))
	return c
}

func answers(t *testing.T, c *sql.Conn) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return c.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
}
