package testserver_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestServer drives a server of its own through all steps, by what the network shows of it.
func TestServer(t *testing.T) {
	s := testserver.Start(t, testserver.Mongo)
	addr, _, _ := strings.Cut(strings.TrimPrefix(s.DSN(), "mongodb://"), "/")
	if !listens(addr) || s.Version() == "" {
		t.Fatalf("%s, version %q, does not listen", addr, s.Version())
	}
	s.Pause()
	s.Resume()
	s.Kill()
	if listens(addr) {
		t.Error("a killed server listens")
	}
	s.Restart()
	if !listens(addr) {
		t.Error("a restarted server does not listen")
	}
	s.Close()
	s.Close()
	if listens(addr) {
		t.Error("a closed server listens")
	}
}

// TestCluster drives a cluster of its own.
func TestCluster(t *testing.T) {
	testserver.Long(t)
	s := testserver.Start(t, testserver.MySQLAsync)
	if n := len(s.MemberDSNs()); n != 2 || s.LeavingDSN() == "" || s.Primary() != 0 {
		t.Fatalf("%d members, leaving address %q", n, s.LeavingDSN())
	}
	s.Switch(1)
	s.Kill(1)
	if to := s.Promote(); to != 0 {
		t.Errorf("member %d takes writes", to)
	}
	s.Rejoin(1)
	if at := s.Primary(); at != 0 {
		t.Errorf("member %d takes writes", at)
	}
}

// TestDSN: the shared servers are there whenever anything is.
func TestDSN(t *testing.T) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB, testserver.Mongo} {
		if testserver.DSN(t, kind) == "" {
			t.Errorf("no address for %s", kind)
		}
	}
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
