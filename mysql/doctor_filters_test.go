package mysqllock

import (
	"testing"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestDoctorFilters: a filter that keeps the lock tables from a replica is found.
func TestDoctorFilters(t *testing.T) {
	t.Parallel()
	none := doctor.Options{ReadOnly: true}
	examineOn := func(t *testing.T, kind string, arguments ...string) (*Store, *lab, *doctor.Report) {
		t.Helper()
		server := testserver.Start(t, kind, arguments...)
		config, err := poolConfig(server.DSN())
		must(t, err)
		l := &lab{t: t, kind: kind, config: config}
		l.db = l.open(config)
		s := l.bare()
		return s, l, examine(t, s, none)
	}
	semi := map[string][]string{
		testserver.MySQL:   {"--plugin-load-add=semisync_source.so", "--loose-rpl-semi-sync-source-enabled=1", "--loose-rpl-semi-sync-source-timeout=100"},
		testserver.MariaDB: {"--rpl-semi-sync-master-enabled=1", "--rpl-semi-sync-master-timeout=100"},
	}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for name, argument := range map[string]string{"do": "--binlog-do-db=elsewhere", "ignore": "--binlog-ignore-db=test"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, l, r := examineOn(t, kind, append(semi[kind], argument)...)
				if l.config.DBName != "test" {
					t.Fatalf("the database is %s", l.config.DBName)
				}
				finds(t, r, "RL141", doctor.Fail, "binlog_"+name+"_db", "schema test")
				if r.Exit(false) != doctor.ExitFail {
					t.Errorf("exit code %d", r.Exit(false))
				}
			})
		}
		t.Run(kind+"/without a replica", func(t *testing.T) {
			t.Parallel()
			_, _, r := examineOn(t, kind, "--binlog-ignore-db=test")
			finds(t, r, "RL141", doctor.Info, "binlog_ignore_db")
		})
	}
	t.Run("replica of MySQL", func(t *testing.T) {
		t.Parallel()
		s, l, r := examineOn(t, testserver.MySQL, append(semi[testserver.MySQL], "--binlog-ignore-db=elsewhere")...)
		finds(t, r, "RL141", doctor.OK)
		for rule, is := range map[string]string{
			"REPLICATE_IGNORE_DB=(test)": "replicate_ignore_db", "REPLICATE_DO_DB=(elsewhere)": "replicate_do_db",
			"REPLICATE_WILD_IGNORE_TABLE=('te_t.rowlock\\_%')": "replicate_wild_ignore_table", "REPLICATE_DO_TABLE=(test.orders)": "replicate_do_table",
		} {
			exec(t, l.db, "CHANGE REPLICATION FILTER "+rule)
			finds(t, examine(t, s, none), "RL141", doctor.Fail, is)
			exec(t, l.db, "CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB=(), REPLICATE_DO_DB=(), REPLICATE_WILD_IGNORE_TABLE=(), REPLICATE_DO_TABLE=()")
			finds(t, examine(t, s, none), "RL141", doctor.OK)
		}
	})
	t.Run("replica of MariaDB", func(t *testing.T) {
		t.Parallel()
		_, _, r := examineOn(t, testserver.MariaDB, append(semi[testserver.MariaDB], "--replicate-wild-ignore-table=test.%")...)
		finds(t, r, "RL141", doctor.Fail, "replicate_wild_ignore_table")
	})
}
