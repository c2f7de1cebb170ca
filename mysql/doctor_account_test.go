package mysqllock

import (
	"testing"

	"github.com/rowlock/rowlock/doctor"
)

// TestDoctorQuota: what an account may do in an hour is found, and the command lifts it.
func TestDoctorQuota(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		s, user := l.plainStore(t)
		exec(t, l.db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+l.config.DBName+".* TO "+user)
		finds(t, examine(t, s, doctor.Options{}), "RL133", doctor.OK, "none")
		for _, limit := range []string{"MAX_QUERIES_PER_HOUR 5000", "MAX_UPDATES_PER_HOUR 6000", "MAX_CONNECTIONS_PER_HOUR 700"} {
			l.finds(s, "ALTER USER "+user+" WITH "+limit, "RL133", doctor.Warn, doctor.Options{}, limit)
		}
	})
}

// TestDoctorSmallAnswers: limits on what a session reads, by the DSN or for all sessions, change no finding.
func TestDoctorSmallAnswers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		worst := func(r *doctor.Report) map[string]doctor.Severity {
			all := make(map[string]doctor.Severity)
			for _, f := range r.Findings {
				all[f.ID] = max(all[f.ID], f.Severity)
			}
			return all
		}
		o := doctor.Options{ReadOnly: true, Migrate: true, Ignore: []string{"RL132", "RL150"}} // other tests run on this server
		want := worst(examine(t, l.store(), o))
		for _, parameter := range []string{"sql_select_limit=1", "sql_select_limit=0", "max_join_size=1&sql_big_selects=0"} {
			got := worst(examine(t, l.bare(parameter), o))
			for id, severity := range want {
				if got[id] != severity {
					t.Errorf("%s: %s is %v, want %v", parameter, id, got[id], severity)
				}
			}
		}
	})
}
