package testenv_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestServer takes a server of each kind through its life. Which way it comes from is told by ROWLOCK_TEST_MODE: CI
// runs this test for Docker too.
func TestServer(t *testing.T) {
	for _, kind := range testenv.Kinds {
		if kind.Clustered() {
			continue // see TestCluster
		}
		t.Run(string(kind), func(t *testing.T) {
			if kind == testenv.Mongo3 {
				testserver.Long(t)
			}
			data := t.TempDir()
			t.Setenv("ROWLOCK_TEST_DATA", data)
			onlyLoopback(t)
			s := start(t, kind)
			c := connect(t, s)

			must(t, "first insert of a key", c.insert("a"))
			if err := c.insert("a"); err == nil {
				t.Error("a key was inserted twice")
			}

			must(t, "pause", s.Pause())
			if err := c.ping(300 * time.Millisecond); err == nil {
				t.Error("a paused server answered")
			}
			must(t, "resume", s.Resume())
			must(t, "ping after resume", c.ping(20*time.Second))

			must(t, "pause before kill", s.Pause())
			must(t, "kill while paused", s.Kill())
			must(t, "kill twice", s.Kill())
			if err := c.ping(2 * time.Second); err == nil {
				t.Error("a killed server answered")
			}
			must(t, "restart", s.Restart(t.Context()))
			must(t, "ping after restart", c.ping(20*time.Second))
			if err := c.insert("a"); err == nil {
				t.Error("a committed key is gone after kill and restart")
			}

			dsn := s.DSN()
			must(t, "close", s.Close())
			must(t, "close twice", s.Close())
			if err := c.ping(2 * time.Second); err == nil {
				t.Errorf("%s answers after Close", dsn)
			}
			if err := s.Pause(); err == nil {
				t.Error("a closed server was paused")
			}
			if left, _ := os.ReadDir(data); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestMembers kills one node of three: the others go on, and it comes back.
func TestMembers(t *testing.T) {
	testserver.Long(t)
	s := start(t, testenv.Mongo3)
	c := connect(t, s)
	must(t, "insert", c.insert("a"))
	must(t, "kill the primary", s.Kill(0))
	must(t, "insert on the new primary", c.insertUntil("b", 20*time.Second))
	must(t, "restart it", s.Restart(t.Context(), 0))
	if err := s.Kill(3); err == nil {
		t.Error("there is no fourth member, and it was killed")
	}
}

// TestArguments checks that extra arguments reach the server program.
func TestArguments(t *testing.T) {
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.MariaDB} {
		s := start(t, kind, "--read-only")
		var on int
		must(t, "query", sqlPool(t, s.DSN()).QueryRow("SELECT @@global.read_only").Scan(&on))
		if on != 1 {
			t.Errorf("%s: --read-only did not reach the server", kind)
		}
	}
}

// TestDurability reads back the settings that the documentation promises.
func TestDurability(t *testing.T) {
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.MariaDB} {
		s := start(t, kind)
		var flush, sync, binlog, connections int
		must(t, "query", sqlPool(t, s.DSN()).QueryRow(
			"SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin, @@max_connections").
			Scan(&flush, &sync, &binlog, &connections))
		if flush != 1 || sync != 1 || binlog != 1 || connections != 600 {
			t.Errorf("%s: flush log %d, sync binlog %d, binlog %d, connections %d; want 1, 1, 1, 600",
				kind, flush, sync, binlog, connections)
		}
	}
}

// start gives the test a server of its own.
func start(t *testing.T, kind testenv.Kind, args ...string) *testenv.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, err := testenv.Start(ctx, kind, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
