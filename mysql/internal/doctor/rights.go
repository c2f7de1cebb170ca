package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

// privileges tries the statements that Check has explained. SHOW GRANTS would not do: it hides what comes by a role, and
// MariaDB's prints the hash of the password.
func (e *Examination) privileges(ctx context.Context) error {
	const id = "RL110"
	if e.report.Ignores(id) {
		return nil
	}
	tried, good := 0, true
	for _, t := range e.Layout {
		lacking, tries, err := e.lacking(ctx, t.Table, t.Columns)
		if err != nil {
			return err
		}
		tried += tries
		if lacking != "" {
			good = false
			e.add(id, doctor.Fail, lacking, "table", t.Table)
		}
	}
	switch {
	case good && tried == 0:
		e.add(id, doctor.Skipped, "the tables are missing")
	case good:
		e.add(id, doctor.OK, count(tried, "statement"))
	}
	return nil
}

// lacking says which privileges a table lacks, after so many tries. It is tried as long as the table is there, so 0 tries
// and nothing that it lacks are a table that is missing.
func (e *Examination) lacking(ctx context.Context, table string, columns []string) (lacking string, tries int, err error) {
	var denied []string
	for _, needs := range append([]schema.Need{{Privilege: "SELECT", Statement: "SELECT 1 FROM " + table + " LIMIT 0"}}, schema.Privileges(table, columns)...) {
		text := needs.Statement
		if e.o.ReadOnly || !e.writable {
			text = "EXPLAIN " + text
		}
		err := e.impatiently(ctx, func() error { return e.try(ctx, text) })
		switch found := schema.FindingOf(err); {
		case err == nil:
		case found == nil:
			return "", tries, err
		case found.Kind == schema.Missing: // RL120 says so
			continue
		case found.Kind == schema.Denied:
			denied = append(denied, needs.Privilege)
		case found.Kind == schema.Refused:
			e.add("RL163", doctor.Fail, fmt.Sprintf("%s on table %s: %s", needs.Privilege, table, found.Says))
		}
		tries++
	}
	if len(denied) > 0 {
		lacking = fmt.Sprintf("%s on table %s: denied", strings.Join(denied, ", "), table)
	}
	return lacking, tries, nil
}

// try sends a statement on a connection of the Store's, whose settings are those of its statements, whatever the server's or
// the DSN's are.
func (e *Examination) try(ctx context.Context, text string) error {
	return conn.DetachedErr(ctx, e.DB, "doctor", func(ctx context.Context) error {
		return e.DB.Slow(ctx, func(c *conn.Conn) error {
			_, err := conn.Query(ctx, c, 0, text, func(*sql.Rows) (bool, error) { return true, nil })
			return err
		})
	})
}

// otherTables looks at those of runs and of LockTx, which locks do not need.
func (e *Examination) otherTables(ctx context.Context) error {
	const id = "RL114"
	if e.report.Ignores(id) {
		return nil
	}
	var missing []string
	good := true
	others := slices.DeleteFunc(slices.Clone(e.Defined), func(d schema.Definition) bool {
		return slices.ContainsFunc(e.Layout, func(t row.Layout) bool { return t.Table == d.Table })
	})
	for _, d := range others {
		table := d.Table
		lacking, tries, err := e.lacking(ctx, table, d.Names())
		switch {
		case err != nil:
			return err
		case lacking != "":
			good = false
			e.add(id, doctor.Warn, lacking, "mend", fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.%s TO %s", e.database, table, e.user))
		case tries == 0:
			missing = append(missing, table)
		}
	}
	switch {
	case len(missing) == len(others) && !e.fit: // RL120 says so
		e.add(id, doctor.Skipped, "the tables are missing")
	case len(missing) > 0:
		e.add(id, doctor.Warn, "missing: "+strings.Join(missing, ", "), "mend", "rowlock migrate --up")
	case good:
		e.add(id, doctor.OK, count(len(others), "table"))
	}
	return nil
}

// impatiently runs statements on the first session that may have to wait for a backup, or for LOCK TABLES: for a second each,
// and not for a year, as the server would.
func (e *Examination) impatiently(ctx context.Context, f func() error) error {
	if err := e.sessions[0].exec(ctx, "SET SESSION lock_wait_timeout=1"); err != nil {
		return err
	}
	err := f()
	return cmp.Or(err, e.sessions[0].exec(ctx, "SET SESSION lock_wait_timeout=DEFAULT"))
}

// mayCreate runs the first statement of Migrate, which makes a table that is there.
func (e *Examination) mayCreate(ctx context.Context) error {
	const id = "RL111"
	if !e.o.Migrate || e.report.Ignores(id) {
		return nil
	}
	if e.o.ReadOnly {
		e.add(id, doctor.Skipped, "Options.ReadOnly")
		return nil
	}
	if !e.fit {
		e.add(id, doctor.Skipped, "the tables cannot be used")
		return nil
	}
	statements, err := schema.Statements(e.Prefix)
	if err != nil {
		return err
	}
	err = e.impatiently(ctx, func() error { return e.sessions[0].exec(ctx, statements[0]) })
	switch conn.Number(err) {
	case conn.ErDatabaseDenied, conn.ErTableDenied:
		e.add(id, doctor.Info, "denied")
	default:
		if err != nil {
			return e.refused(id, err)
		}
		e.add(id, doctor.OK, "yes")
	}
	return nil
}

// pair is two sessions, or a finding that there are none.
func (e *Examination) pair(ctx context.Context, id string) (one, other *plainSession, err error) {
	switch {
	case e.report.Ignores(id):
		return nil, nil, nil
	case e.o.ReadOnly:
		e.add(id, doctor.Skipped, "Options.ReadOnly")
		return nil, nil, nil
	}
	both, err := e.several(ctx, 2)
	if err == nil && len(both) < 2 {
		e.add(id, doctor.Skipped, "the pool has no second connection to give")
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return both[0], both[1], nil
}

// killFor is how long a statement waits to be ended.
const killFor = 2 * time.Second

// killing has one session end the statement of another, which it finds by a name in it: a number that another session
// was given may not be the server's.
func (e *Examination) killing(ctx context.Context) error {
	const id = "RL112"
	sleeper, killer, err := e.pair(ctx, id)
	if err != nil || sleeper == nil {
		return err
	}
	number, err := sleeper.ask(ctx, "SELECT CONNECTION_ID() AS n")
	if err != nil {
		return err
	}
	name := "rowlock_doctor_" + rand.Text()
	slept := make(chan error, 1)
	var rows [][]string
	go func() {
		var err error
		rows, err = sleeper.ask(ctx, fmt.Sprintf("SELECT SLEEP(%d) AS %s", killFor/time.Second, name))
		slept <- err
	}()
	value := "the statement was not ended"
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for killed := false; ; {
		select {
		case err = <-slept:
			switch {
			case conn.Number(err) == conn.ErKilled, err == nil && rows[0][0] == "1":
				e.add(id, doctor.OK, "ended")
				return nil
			case err != nil && conn.Number(err) == 0:
				return err
			}
			e.add(id, doctor.Warn, value)
			return nil
		case <-look.C:
		}
		if killed {
			continue
		}
		seen, err := killer.ask(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID<>CONNECTION_ID() AND INFO LIKE '%SLEEP% AS "+name+"%'")
		switch {
		case err != nil:
			value = "the server's sessions cannot be seen: " + err.Error()
			killed = true
		case len(seen) == 1 && seen[0][0] != number[0][0]:
			value = fmt.Sprintf("session %s is session %s for the server", number[0][0], seen[0][0])
			killed = true
		case len(seen) == 1:
			killed = true
			if err := killer.exec(ctx, "KILL QUERY "+seen[0][0]); err != nil {
				value = err.Error()
			}
		}
	}
}

// namedLocks has one session take a named lock that another has.
func (e *Examination) namedLocks(ctx context.Context) error {
	const id = "RL113"
	one, other, err := e.pair(ctx, id)
	if err != nil || one == nil {
		return err
	}
	name := "'rowlock.doctor." + rand.Text() + "'"
	var got [2]string
	for i, on := range []*plainSession{one, other} {
		rows, err := on.ask(ctx, "SELECT GET_LOCK("+name+",0)")
		switch {
		case conn.Number(err) != 0:
			e.add(id, doctor.Warn, err.Error())
			return nil
		case err != nil:
			return err
		}
		got[i] = rows[0][0]
	}
	if got == [2]string{"1", "0"} {
		e.add(id, doctor.OK, "one of two sessions got the lock")
	} else {
		e.add(id, doctor.Warn, fmt.Sprintf("two sessions asked for one lock, and were answered %q and %q", got[0], got[1]))
	}
	_, err = one.ask(ctx, "SELECT RELEASE_LOCK("+name+")")
	return err
}
