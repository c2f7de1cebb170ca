package mysqllock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

// unfit checks that the lab's tables are refused wherever somebody looks at them, with the words, and that the statement
// of the error mends the table.
func (l *lab) unfit(t *testing.T, what, table string, words ...string) {
	t.Helper()
	s := l.bare()
	err := s.Check(patient(t))
	if err == nil {
		t.Errorf("P9: %s: Check finds nothing", what)
		return
	}
	refused(t, err, driver.ErrSchema, true, append(words, table)...)
	_, err = s.Acquire(patient(t), []driver.Request{request("a", time.Minute)})
	refused(t, err, driver.ErrSchema, true, append(words, table)...)
	refused(t, s.Migrate(patient(t)), driver.ErrSchema, true, append(words, table)...)
	var m *schema.Finding
	if !errors.As(err, &m) || !strings.HasSuffix(err.Error(), m.Mend) {
		t.Fatalf("%s: %v: does not end with the statement that mends it", what, err)
	}
	r := examine(t, s, doctor.Options{ReadOnly: true})
	finds(t, r, "RL123", doctor.Fail, append(slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "MODIFY") }), table)...)
	if i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Command == m.Mend }); i < 0 {
		t.Errorf("%s: Doctor does not give the statement that mends it: %+v", what, r.Findings)
	}
	exec(t, l.db, m.Mend)
	if err := s.Check(patient(t)); err != nil {
		t.Errorf("%s: after %s: %v", what, m.Mend, err)
	}
}

// others are types that a column must not have, by the one that it must have.
var others = map[string][]string{
	"VARBINARY(255)":  {"VARCHAR(255) CHARACTER SET latin1", "VARBINARY(254)", "BINARY(255)"},
	"VARBINARY(300)":  {"VARCHAR(300) CHARACTER SET utf8mb4", "VARBINARY(255)", "TINYBLOB"},
	"VARBINARY(16)":   {"VARCHAR(16) CHARACTER SET utf8mb4", "VARBINARY(15)", "BINARY(16)"},
	"BINARY(16)":      {"VARBINARY(15)", "BINARY(20)", "CHAR(16) CHARACTER SET latin1"},
	"BIGINT UNSIGNED": {"BIGINT", "INT UNSIGNED", "DECIMAL(30,0)"},
	"DATETIME(6)":     {"DATETIME", "DATETIME(3)", "TIMESTAMP(6)"},
	"DATETIME":        {"TIMESTAMP", "DATE", "VARBINARY(30)"},
	"VARBINARY(2368)": {"VARCHAR(2368) CHARACTER SET latin1", "VARBINARY(2367)", "BINARY(255)"},
}

// TestP9_ColumnsThatDrifted: a column of any of the tables that is not as the migration makes it is refused with its name, what it
// is and what it must be. With DATETIME in the place of DATETIME(6) two programs would trust one key for up to half a second.
func TestP9_ColumnsThatDrifted(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		defined, err := s.defined(s.strategy.Layout())
		must(t, err)
		if want := len(s.strategy.Layout()) + 2; len(defined) != want {
			t.Fatalf("%d tables are looked at, want %d", len(defined), want)
		}
		for _, d := range defined {
			for n := range 3 {
				var changes, words []string
				for _, c := range d.Columns {
					drifted := c
					if len(others[c.Kind]) != 3 {
						t.Fatalf("others has no three types in the place of %s, that column %s has", c.Kind, c.Name)
					}
					drifted.Kind = others[c.Kind][n]
					if !slices.Contains(d.Primary, c.Name) && drifted.Kind != "TIMESTAMP(6)" && drifted.Kind != "TIMESTAMP" {
						drifted.Null = n == 1 != c.Null
					}
					changes = append(changes, "MODIFY "+drifted.String())
					words = append(words, "column "+c.Name+" is ", "it must be "+c.Is(), "MODIFY "+c.String())
				}
				exec(t, l.db, "ALTER TABLE "+d.Table+" "+strings.Join(changes, ", "))
				l.unfit(t, fmt.Sprint(d.Table, changes), d.Table, words...)
			}
			for _, c := range d.Columns {
				if slices.Contains(d.Primary, c.Name) {
					continue
				}
				other := c
				other.Null = !c.Null
				exec(t, l.db, "ALTER TABLE "+d.Table+" MODIFY "+other.String())
				l.unfit(t, "nullability", d.Table, "column "+c.Name+" is ", " "+strings.TrimPrefix(other.Is(), c.Kind+" ")+",", "it must be "+c.Is())
				break // the first tells as much as all
			}
		}
	})
}

// TestP9_TablesThatDrifted: what else makes statements fail, or lets two rows be one.
func TestP9_TablesThatDrifted(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		guard := strings.Join(s.strategy.Layout()[0].Guard, ",")
		for _, c := range []struct {
			table, change, undo string
			words               []string
		}{
			{l.table(), "ADD tenant INT NOT NULL", "DROP tenant", []string{"column tenant", "not rowlock's", "int", "no default"}},
			{l.shares(), "ADD note TEXT NOT NULL", "DROP note", []string{"column note", "text"}},
			{l.shares(), "ADD tenant VARCHAR(20) CHARACTER SET latin1 NOT NULL", "DROP tenant", []string{"column tenant", "latin1"}},
			{"rowlock_run", "ADD tenant INT NOT NULL", "DROP tenant", []string{"column tenant"}},
			{"rowlock_tx", "ADD tenant INT NOT NULL", "DROP tenant", []string{"column tenant"}},
			{l.table(), "ADD n BIGINT NOT NULL AUTO_INCREMENT, ADD KEY n (n)", "DROP n", []string{"column n", "AUTO_INCREMENT", "tokens"}},
			{l.table(), "DROP PRIMARY KEY", "", []string{"primary key is missing", "over (name)"}},
			{l.table(), "DROP PRIMARY KEY, ADD PRIMARY KEY (name(20))", "", []string{"over (name(20))", "over (name)"}},
			{l.table(), "DROP PRIMARY KEY, ADD PRIMARY KEY (name, hold)", "", []string{"over (name,hold)"}},
			{l.shares(), "DROP PRIMARY KEY, ADD PRIMARY KEY (slot, name)", "", []string{"over (slot,name)", "over (name,slot)"}},
			{"rowlock_run", "DROP PRIMARY KEY, ADD PRIMARY KEY (name)", "", []string{"over (name)", "over (name,run)"}},
			{l.table(), "DROP INDEX guard", "", []string{"guard is missing", guard}},
			{l.table(), "DROP INDEX guard, ADD UNIQUE KEY guard (name)", "", []string{"guard is over (name)", "must be over"}},
			{l.table(), "ADD UNIQUE KEY one_each (owner)", "", []string{"one_each", "owner", "must not be there"}},
			{l.shares(), "ADD UNIQUE KEY one_hold (name, owner)", "", []string{"one_hold"}},
			{l.table(), "MODIFY acquired_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)", "", []string{"column acquired_at", "ON UPDATE"}},
			{l.table(), "MODIFY owner VARBINARY(255) GENERATED ALWAYS AS ('me') STORED", "", []string{"column owner", "STORED GENERATED"}},
			{l.table(), "DROP COLUMN owner, ADD COLUMN owner VARBINARY(255) GENERATED ALWAYS AS ('me') VIRTUAL", "", []string{"column owner", "VIRTUAL GENERATED"}},
		} {
			exec(t, l.db, "ALTER TABLE "+c.table+" "+c.change)
			l.unfit(t, c.change, c.table, c.words...)
			if c.undo != "" {
				exec(t, l.db, "ALTER TABLE "+c.table+" "+c.undo)
			}
		}
		exec(t, l.db, "RENAME TABLE "+l.table()+" TO elsewhere")
		exec(t, l.db, "CREATE VIEW "+l.table()+" AS SELECT * FROM elsewhere")
		err := l.bare().Check(patient(t))
		refused(t, err, driver.ErrSchema, true, l.table())
	})
}

// TestWiderTables: more than is needed does no harm: longer columns, columns that need no value, indexes that refuse nothing.
func TestWiderTables(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		s := l.store()
		for _, change := range []string{
			"MODIFY owner VARBINARY(1000) NOT NULL", "MODIFY owner MEDIUMBLOB NOT NULL", "MODIFY name VARBINARY(400) NOT NULL", "MODIFY hold VARBINARY(16) NOT NULL",
			"ADD note TEXT", "ADD made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "ADD kind ENUM('a','b') NOT NULL", "ADD tenant INT NOT NULL DEFAULT 7",
			"ADD total INT AS (1+1) VIRTUAL", "ADD kept INT AS (1+1) STORED NOT NULL",
			"ADD KEY by_owner (expires_at)", "ADD UNIQUE KEY all_of_it (name, hold, token)",
		} {
			if strings.Contains(change, "STORED NOT NULL") && l.kind == "mariadb" {
				change = strings.TrimSuffix(change, " NOT NULL") // which MariaDB does not know
			}
			exec(t, l.db, "ALTER TABLE "+l.table()+" "+change)
			if err := l.bare().Check(patient(t)); err != nil {
				t.Errorf("P9: %s: %v", change, err)
			}
		}
		exec(t, l.db, "ALTER TABLE "+l.shares()+" ADD total INT AS (1+1) VIRTUAL, MODIFY owner VARBINARY(1000) NOT NULL")
		if l.strategy == SelectForUpdate {
			exec(t, l.db, "ALTER TABLE "+l.table()+" MODIFY started DATETIME(6) NULL, MODIFY server VARBINARY(600) NULL")
		}
		c := client{t: t, Store: l.bare()}
		must(t, c.Check(patient(t)))
		for _, q := range []driver.Request{request("a", time.Minute), reader("a", time.Minute), slotOf("a", 2, time.Minute)} {
			h := c.grant(q)
			c.alive("renewal", h)
			c.wants("release", c.release(h)[0].Status, driver.Released)
		}
		p := l.programOn(t, s, rowlock.Options{})
		lease := p.lock(t, "b")
		tx := l.beginAt(t, 0)
		must(t, p.Guard(patient(t), tx, lease))
		must(t, tx.Commit())
		must(t, lease.Release(patient(t)))
		if _, err := p.Client.ForceRelease(patient(t), "a"); err != nil {
			t.Error(err)
		}
		c.granted("a", time.Minute)
	})
}
