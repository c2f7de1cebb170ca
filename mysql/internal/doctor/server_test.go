package doctor

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/doctor"
)

// finds is an error unless the last finding with the ID is so severe, and says the word.
func finds(t *testing.T, e *Examination, id string, s doctor.Severity, word string) {
	t.Helper()
	all := e.report.Of(id)
	if len(all) == 0 {
		t.Fatalf("no finding %s", id)
	}
	if f := all[len(all)-1]; f.Severity != s || !strings.Contains(f.Value, word) {
		t.Errorf("%s: %v %q, want %v with %q", id, f.Severity, f.Value, s, word)
	}
}

// TestDoctorAurora: there is none to be had here, so its variable is put where those of a server are.
func TestDoctorAurora(t *testing.T) {
	t.Parallel()
	e := &Examination{report: doctor.New(doctor.MySQL(), doctor.Options{}), settings: map[string]string{"version": "8.0.39", "aurora_version": "3.08.0"}}
	e.server()
	finds(t, e, "RL101", doctor.Info, "3.08.0")
	// On a node of Galera the others have what one forgets.
	e.settings = map[string]string{"wsrep_on": "ON", "innodb_flush_log_at_trx_commit": "2"}
	e.durability()
	finds(t, e, "RL103", doctor.Warn, "is 2")
}
