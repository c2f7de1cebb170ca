package mysqllock

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/cluster"
)

// TestCluster: what the servers of each kind are taken for, and which settings are warned of.
func TestCluster(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, is string
		risky    string // a setting
		warning  string
	}{
		{testserver.MySQLSemiSync, "semi-synchronous", "SET GLOBAL rpl_semi_sync_source_timeout=10000", "rpl_semi_sync_source_timeout is 10000 ms"},
		{testserver.MySQLAsync, "asynchronous", "", "1 replicas"},
		{testserver.MySQLGroup3, "group", "SET GLOBAL group_replication_unreachable_majority_timeout=5", "group_replication_unreachable_majority_timeout is 5"},
		{testserver.MariaDBGalera3, "galera", "", "Options.SingleWriter is not set: all nodes of Galera take writes, and row locks are local to each: guards, InTx, Once, MarkRun, LockTx, Shared, Slots"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			l := newClusterLab(t, c.kind)
			s, err := Open(l.DSN(), Options{})
			must(t, err)
			defer s.Close()
			must(t, s.Check(patient(t)))
			is, err := s.Cluster(patient(t))
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
				is, err = s.Cluster(patient(t))
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
		is, err := s.Cluster(patient(t))
		must(t, err)
		if is.Kind != "single" || len(is.Warnings) > 0 {
			t.Errorf("taken for %+v", is)
		}
		must(t, s.Close())
		_, err = s.Cluster(patient(t))
		refused(t, err, rowlock.ErrClosed, true, "closed")
	})
}

// TestWarnings: the warnings of one server, by the names that its variables have there.
func TestWarnings(t *testing.T) {
	t.Parallel()
	semi := func(prefix, name, value string) map[string]string {
		return map[string]string{"rpl_semi_sync_" + prefix + "_enabled": "ON", "rpl_semi_sync_" + prefix + "_" + name: value}
	}
	galera := map[string]string{"wsrep_on": "ON", "wsrep_provider": "/libgalera_smm.so"}
	for _, c := range []struct {
		name string
		set  map[string]string
		o    Options
		want string // of the warnings; empty: there is none
	}{
		{"commits wait without replicas", semi("source", "wait_no_replica", "ON"), Options{}, ""},
		{"they do not", semi("source", "wait_no_replica", "OFF"), Options{}, "rpl_semi_sync_source_wait_no_replica is OFF"},
		{"the same by its older name", semi("master", "wait_no_slave", "OFF"), Options{}, "rpl_semi_sync_master_wait_no_slave is OFF"},
		{"the time-out by its older name", semi("master", "timeout", "10000"), Options{}, "rpl_semi_sync_master_timeout is 10000 ms"},
		{"the wait point by its older name", semi("master", "wait_point", "AFTER_COMMIT"), Options{}, "rpl_semi_sync_master_wait_point is AFTER_COMMIT"},
		{"Galera", galera, Options{}, "guards, InTx, Once, MarkRun, LockTx, Shared, Slots"},
		{"Galera, unique", galera, Options{Strategy: UniqueInsert}, "guards, InTx, Once, MarkRun, LockTx, Shared, Slots"},
		{"Galera with one writer, by the program's word", galera, Options{SingleWriter: true}, ""},
		{"Galera, for-update", galera, Options{Strategy: SelectForUpdate}, "it is refused"},
		{"Galera, for-update with one writer", galera, Options{Strategy: SelectForUpdate, SingleWriter: true}, "row locks are local to a node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Store{options: c.o}
			is, _ := s.describe(cluster.View{Kind: cluster.KindOf(c.set), Variables: c.set}, 0)
			if got := strings.Join(is.Warnings, "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("warned of %q, want %q", got, c.want)
			}
		})
	}
}

// testSingleWriter: on Galera SelectForUpdate is refused, at the first use too, unless the program says that there is one
// writer. Who says so with another strategy is warned no more.
func testSingleWriter(t *testing.T, l *clusterLab) {
	s, err := Open(l.DSN(), Options{Strategy: SelectForUpdate})
	must(t, err)
	defer s.Close()
	refused(t, s.Check(patient(t)), rowlock.ErrNotSupported, true, "Galera", "SingleWriter")
	_, err = l.client(s).TryAcquire(patient(t), "a")
	refused(t, err, rowlock.ErrNotSupported, true, "SingleWriter")

	one, err := Open(l.DSN(), Options{Strategy: SelectForUpdate, SingleWriter: true})
	must(t, err)
	defer one.Close()
	must(t, one.Check(patient(t)))
	c := l.client(one)
	held, err := c.TryAcquire(patient(t), "held")
	must(t, err)
	is, err := one.Cluster(patient(t))
	must(t, err)
	if len(is.Warnings) != 1 {
		t.Errorf("warned of %q", is.Warnings)
	}
	led, err := Open(l.DSN(), Options{SingleWriter: true})
	must(t, err)
	defer led.Close()
	is, err = led.Cluster(patient(t))
	must(t, err)
	if len(is.Warnings) > 0 || !strings.Contains(is.Promised, "guards, InTx, Once, MarkRun, LockTx, Shared, Slots and SelectForUpdate need one writable node") {
		t.Errorf("one writer, by the program's word: %+v", is)
	}
	// A second writer, by a proxy that leads elsewhere: the lease row of another node's run keeps the key.
	other, err := Open(l.MemberDSNs()[1], Options{Strategy: SelectForUpdate, SingleWriter: true})
	must(t, err)
	defer other.Close()
	eventually(t, "the other node has the lease row", func() bool {
		info, err := other.Inspect(patient(t), []string{"held"})
		must(t, err)
		return info[0].Held
	})
	if _, err := l.client(other).TryAcquire(patient(t), "held"); err == nil {
		t.Errorf("P2: a key is held on one node (%v) and was granted on another", held.Err())
	}
}
