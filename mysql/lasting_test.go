package mysqllock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// modesOf are the kinds of attempts that write different tables.
func modesOf() map[string][]rowlock.Option {
	return map[string][]rowlock.Option{"exclusive": nil, "shared": {rowlock.Shared()}, "slots": {rowlock.Slots(2)}}
}

// TestWhatLasts: what refuses every row of a lock table is told at once, also to a caller that waits, and in words that
// say what to do. The server's answer proves that nothing was done: nothing is undone, and nothing is logged.
func TestWhatLasts(t *testing.T) {
	t.Parallel()
	trigger := func(event string) string {
		return "CREATE TRIGGER own_" + strings.ReplaceAll(event, " ", "_") + "_%[2]d BEFORE " + event + " ON %[1]s FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT='not now'"
	}
	for name, c := range map[string]struct {
		change []string // of each table
		words  string
		mysql  bool // only there
	}{
		"a column without a default": {[]string{"ALTER TABLE %[1]s ADD own INT NOT NULL"}, "without a default", false},
		"a constraint":               {[]string{"ALTER TABLE %[1]s ADD CONSTRAINT own_%[2]d CHECK (name='first')"}, "CHECK constraint", false},
		"a trigger":                  {[]string{trigger("INSERT"), trigger("UPDATE")}, "trigger", false},
		"a foreign key": {[]string{
			"ALTER TABLE %[1]s ADD own_id INT NOT NULL DEFAULT 7",
			"SET SESSION foreign_key_checks=0",
			"ALTER TABLE %[1]s ADD CONSTRAINT own_fk_%[2]d FOREIGN KEY (own_id) REFERENCES own_parent (id)",
			"SET SESSION foreign_key_checks=1",
		}, "foreign key", false},
		"a schema that is read-only": {nil, "READ ONLY=0", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // else each case waits in the queue of the package's tests after the one before
			everywhere(t, func(t *testing.T, l *lab) {
				if c.mysql && l.kind != testserver.MySQL {
					return // only MySQL has it
				}
				var mu sync.Mutex
				var log bytes.Buffer
				p := l.program(t, rowlock.Options{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
				p.first(t) // the first use has passed
				one, err := l.db.Conn(patient(t))
				must(t, err)
				defer one.Close()
				run := func(text string) {
					t.Helper()
					if _, err := one.ExecContext(patient(t), text); err != nil {
						t.Fatalf("%s: %v", text, err)
					}
				}
				run("CREATE TABLE own_parent (id INT PRIMARY KEY)")
				for i, table := range []string{l.table(), l.shares()} {
					for _, change := range c.change {
						run(strings.ReplaceAll(strings.ReplaceAll(change, "%[1]s", table), "%[2]d", fmt.Sprint(i)))
					}
				}
				if c.change == nil {
					run("ALTER SCHEMA " + l.config.DBName + " READ ONLY=1")
					defer run("ALTER SCHEMA " + l.config.DBName + " READ ONLY=0")
				}
				for mode, options := range modesOf() {
					for what, acquire := range map[string]func(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error){"Acquire": p.Client.Acquire, "TryAcquire": p.TryAcquire} {
						lease, err := acquire(patient(t), mode+what, options...)
						switch {
						case err == nil:
							t.Errorf("%s, %s: a lease with token %d", what, mode, lease.Token())
						case errors.Is(err, context.DeadlineExceeded):
							t.Errorf("%s, %s: tried until the context ended: %v", what, mode, err)
						case !strings.Contains(err.Error(), c.words):
							t.Errorf("%s, %s: %v, want %q in it", what, mode, err, c.words)
						case !driver.IsNotApplied(err):
							t.Errorf("%s, %s: %v: nothing was done", what, mode, err)
						}
					}
				}
				must(t, p.Client.Close(patient(t)))
				mu.Lock()
				defer mu.Unlock()
				if log.Len() > 0 {
					t.Errorf("logged: %s", log.String())
				}
			})
		})
	}
}

// first takes a key and gives it back.
func (p program) first(t testing.TB) {
	t.Helper()
	must(t, p.lock(t, "first").Release(patient(t)))
}
