package mysqllock

import (
	"math"
	"net/url"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestStatements runs every branch over the ways in which a DSN can change what
// statements mean.
func TestStatements(t *testing.T) {
	t.Parallel()
	type dialect struct {
		name       string
		kind       string // empty: both
		parameters []string
	}
	q := url.QueryEscape
	dialects := []dialect{
		{"plain", "", nil},
		{"clientFoundRows", "", []string{"clientFoundRows=true"}},
		{"times", "", []string{"time_zone=" + q("'+05:30'"), "loc=" + q("America/New_York"), "parseTime=true"}},
		{"no parseTime", "", []string{"parseTime=false", "time_zone=" + q("'-11:00'")}},
		{"quotes", "", []string{"sql_mode=" + q("'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,IGNORE_SPACE'")}},
		{"lax", "", []string{"sql_mode=''", "sql_safe_updates=1", "sql_select_limit=1"}},
		{"traditional", "", []string{"sql_mode=" + q("'TRADITIONAL,NO_UNSIGNED_SUBTRACTION,ONLY_FULL_GROUP_BY'")}},
		{"driver", "", []string{"multiStatements=true", "interpolateParams=true", "columnsWithAlias=true", "compress=true"}},
		{"latin1", "", []string{"charset=latin1"}},
		{"gbk", "", []string{"charset=gbk"}},
		{"sjis", "", []string{"charset=sjis"}},
		{"binary", "", []string{"charset=binary"}},
		{"narrower connection", "", []string{"character_set_connection=latin1"}},
		{"wider connection", "", []string{"character_set_connection=utf16"}},
		{"transaction", testserver.MySQL, []string{"autocommit=0", "transaction_isolation=" + q("'SERIALIZABLE'")}},
		{"transaction", testserver.MariaDB, []string{"autocommit=0", "tx_isolation=" + q("'SERIALIZABLE'")}},
		{"read uncommitted", testserver.MySQL, []string{"transaction_isolation=" + q("'READ-UNCOMMITTED'")}},
		{"oracle", testserver.MariaDB, []string{"sql_mode=" + q("'ORACLE,SIMULTANEOUS_ASSIGNMENT,EMPTY_STRING_IS_NULL'")}},
		{"mssql", testserver.MariaDB, []string{"sql_mode=" + q("'MSSQL,SIMULTANEOUS_ASSIGNMENT,STRICT_ALL_TABLES'")}},
		{"snapshot", testserver.MariaDB, []string{"innodb_snapshot_isolation=1", "tx_isolation=" + q("'REPEATABLE-READ'")}},
	}
	each(t, func(t *testing.T, l *lab) {
		l.store()
		for _, d := range dialects {
			if d.kind != "" && d.kind != l.kind {
				continue
			}
			for form, after := range map[string]int{"prepared": 0, "literal": math.MaxInt} {
				t.Run(d.name+"/"+form, func(t *testing.T) {
					exec(t, l.db, "DELETE FROM "+l.table())
					l := *l
					l.t, l.keepAfter = t, after
					c := client{t: t, Store: l.bare(d.parameters...), foundRows: d.name == "clientFoundRows"}
					for _, b := range branches {
						t.Run(b.name, func(t *testing.T) {
							c.t, l.t = t, t
							b.run(t, &l, c)
						})
					}
				})
			}
		}
	})
}
