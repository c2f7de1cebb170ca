package mysqllock

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/internal/testserver"
	look "github.com/rowlock/rowlock/mysql/internal/doctor"
)

// testDoctorCluster is part of TestCluster, which has started the cluster: what is set wrongly there is found, and mended by
// the commands.
func testDoctorCluster(t *testing.T, l *clusterLab) {
	primary := &lab{t: t, kind: l.kind}
	s := l.member(t, primary, l.Primary(), Options{})
	none := doctor.Options{Ignore: []string{"RL112", "RL113", "RL161", "RL162"}} // take time, and are tried elsewhere
	switch l.kind {
	case testserver.MySQLSemiSync:
		primary.finds(s, "SET GLOBAL rpl_semi_sync_source_timeout=10000", "RL144", doctor.Warn, none, "rpl_semi_sync_source_timeout is 10000 ms")
		primary.finds(s, "SET GLOBAL rpl_semi_sync_source_wait_point=AFTER_COMMIT", "RL145", doctor.Fail, none, "AFTER_COMMIT")
		primary.finds(s, "SET GLOBAL rpl_semi_sync_source_wait_no_replica=OFF", "RL145", doctor.Warn, none, "rpl_semi_sync_source_wait_no_replica is OFF")
		finds(t, examine(t, s, none), "RL145", doctor.OK)
		primary.finds(s, "SET GLOBAL sync_binlog=0", "RL108", doctor.Fail, none, "sync_binlog is 0, with 2 replicas")
		finds(t, examine(t, s, none), "RL140", doctor.Info, "semi-synchronous")

		replica := &lab{t: t, kind: l.kind}
		other := l.member(t, replica, 1-min(l.Primary(), 1), Options{})
		finds(t, examine(t, other, none), "RL148", doctor.OK)
		exec(t, replica.db, "SET GLOBAL super_read_only=OFF")
		exec(t, replica.db, "SET GLOBAL read_only=OFF")
		f := finds(t, examine(t, other, none), "RL148", doctor.Warn, "1 source")
		commands, _, _ := strings.Cut(f.Command, ",")
		for _, command := range strings.Split(commands, "; ") {
			exec(t, replica.db, command)
		}
		finds(t, examine(t, other, none), "RL148", doctor.OK)
	case testserver.MySQLAsync:
		r := examine(t, s, none)
		finds(t, r, "RL140", doctor.Info, "asynchronous")
		finds(t, r, "RL141", doctor.Warn, "1 replicas")
	case testserver.MySQLGroup3:
		primary.finds(s, "SET GLOBAL group_replication_unreachable_majority_timeout=5", "RL147", doctor.Fail, none, "unreachable_majority_timeout is 5")
		primary.finds(s, "SET GLOBAL group_replication_consistency=EVENTUAL", "RL146", doctor.Fail, none, "EVENTUAL")
		r := examine(t, s, doctor.Options{Ignore: []string{"RL112", "RL113"}, TTL: look.GroupFailover})
		finds(t, r, "RL140", doctor.Info, "group")
		finds(t, r, "RL142", doctor.OK)
		finds(t, r, "RL162", doctor.Warn, "a failover of 7s")

		secondary := &lab{t: t, kind: l.kind}
		other := l.member(t, secondary, 1-min(l.Primary(), 1), Options{})
		finds(t, examine(t, other, none), "RL149", doctor.Fail, "SECONDARY")

		exec(t, primary.db, "SELECT group_replication_switch_to_multi_primary_mode()")
		one := l.member(t, primary, l.Primary(), Options{Strategy: SelectForUpdate, SingleWriter: true})
		finds(t, examine(t, one, none), "RL142", doctor.Fail, "OFF")
		f := finds(t, examine(t, s, none), "RL142", doctor.Warn, "OFF")
		exec(t, primary.db, f.Command)
		finds(t, examine(t, s, none), "RL142", doctor.OK)
	case testserver.MariaDBGalera3:
		primary.finds(s, "SET GLOBAL innodb_flush_log_at_trx_commit=2", "RL103", doctor.Warn, none, "is 2")
		one := l.member(t, primary, l.Primary(), Options{Strategy: SelectForUpdate, SingleWriter: true})
		finds(t, examine(t, one, none), "RL143", doctor.Warn)
		r := examine(t, s, none)
		finds(t, r, "RL140", doctor.Info, "galera")
		finds(t, r, "RL143", doctor.Warn, "SingleWriter is not set")
		led := l.member(t, primary, l.Primary(), Options{SingleWriter: true})
		finds(t, examine(t, led, none), "RL143", doctor.Info, "SingleWriter is set")
		without := l.member(t, primary, l.Primary(), Options{Strategy: SelectForUpdate})
		finds(t, examine(t, without, none), "RL143", doctor.Fail, "SelectForUpdate without")

		l.Kill(1, 2)
		last := &lab{t: t, kind: l.kind}
		alone := l.member(t, last, 0, Options{})
		eventually(t, "the node knows that it is alone", func() bool {
			r = examine(t, alone, none)
			return slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.ID == "RL149" && f.Severity == doctor.Fail })
		})
		finds(t, r, "RL149", doctor.Fail, "not Primary Synced ON")
	}
}

// member opens a store on one member, and the lab on it too.
func (l *clusterLab) member(t *testing.T, on *lab, member int, o Options) *Store {
	t.Helper()
	dsn := l.MemberDSNs()[member]
	config, err := poolConfig(dsn)
	must(t, err)
	on.config, on.db = config, on.open(config)
	s, err := Open(dsn, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
