package mysqllock

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestCluster: what the servers of each kind are taken for, and which settings are warned of.
func TestCluster(t *testing.T) {
	for _, c := range []struct {
		kind, is string
		risky    string // a setting
		warning  string
	}{
		{testserver.MySQLSemiSync, "semi-synchronous", "SET GLOBAL rpl_semi_sync_source_timeout=10000", "rpl_semi_sync_source_timeout is 10000 ms"},
		{testserver.MySQLAsync, "asynchronous", "", "1 replicas"},
		{testserver.MySQLGroup3, "group", "SET GLOBAL group_replication_unreachable_majority_timeout=5", "group_replication_unreachable_majority_timeout is 5"},
		{testserver.MariaDBGalera3, "galera", "", ""},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			l := newClusterLab(t, c.kind)
			s, err := Open(l.DSN(), Options{})
			must(t, err)
			defer s.Close()
			must(t, s.Check(within(t, time.Minute)))
			is, err := s.Cluster(within(t, time.Minute))
			must(t, err)
			if is.Kind != c.is || is.Promised == "" {
				t.Errorf("taken for %+v", is)
			}
			if c.risky != "" {
				if len(is.Warnings) > 0 {
					t.Errorf("warned of %q", is.Warnings)
				}
				db, err := sql.Open("mysql", l.DSN())
				must(t, err)
				defer db.Close()
				exec(t, db, c.risky)
				is, err = s.Cluster(within(t, time.Minute))
				must(t, err)
			}
			if got := strings.Join(is.Warnings, "; "); !strings.Contains(got, c.warning) || (got == "") != (c.warning == "") {
				t.Errorf("warned of %q, want %q", got, c.warning)
			}
			if c.kind == testserver.MariaDBGalera3 {
				testSingleWriter(t, l)
			}
			t.Run("doctor", func(t *testing.T) { testDoctorCluster(t, l) })
		})
	}
}

// TestClusterOfOne: a server without replicas is taken for one.
func TestClusterOfOne(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		is, err := s.Cluster(within(t, patience))
		must(t, err)
		if is.Kind != "single" || len(is.Warnings) > 0 {
			t.Errorf("taken for %+v", is)
		}
		must(t, s.Close())
		_, err = s.Cluster(within(t, patience))
		refused(t, err, rowlock.ErrClosed, true, "closed")
	})
}

// testSingleWriter: on Galera SelectForUpdate is refused, at the first use too, unless the program says that there is one
// writer.
func testSingleWriter(t *testing.T, l *clusterLab) {
	s, err := Open(l.DSN(), Options{Strategy: SelectForUpdate})
	must(t, err)
	defer s.Close()
	refused(t, s.Check(within(t, time.Minute)), rowlock.ErrNotSupported, true, "Galera", "SingleWriter")
	_, err = l.client(s).TryAcquire(within(t, time.Minute), "a")
	refused(t, err, rowlock.ErrNotSupported, true, "SingleWriter")

	one, err := Open(l.DSN(), Options{Strategy: SelectForUpdate, SingleWriter: true})
	must(t, err)
	defer one.Close()
	must(t, one.Check(within(t, time.Minute)))
	c := l.client(one)
	held, err := c.TryAcquire(within(t, time.Minute), "held")
	must(t, err)
	is, err := one.Cluster(within(t, time.Minute))
	must(t, err)
	if len(is.Warnings) != 1 {
		t.Errorf("warned of %q", is.Warnings)
	}
	// A second writer, by a proxy that leads elsewhere: the lease row of another node's run keeps the key.
	other, err := Open(l.MemberDSNs()[1], Options{Strategy: SelectForUpdate, SingleWriter: true})
	must(t, err)
	defer other.Close()
	eventually(t, "the other node has the lease row", func() bool {
		info, err := other.Inspect(within(t, time.Minute), []string{"held"})
		must(t, err)
		return info[0].Held
	})
	if _, err := l.client(other).TryAcquire(within(t, time.Minute), "held"); err == nil {
		t.Errorf("P2: a key is held on one node (%v) and was granted on another", held.Err())
	}
}
