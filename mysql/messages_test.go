package mysqllock

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// saysOnce checks that an error says a phrase once: wrapped twice it is noise.
func saysOnce(t *testing.T, err error, phrases ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range phrases {
		if n := strings.Count(err.Error(), p); n != 1 {
			t.Errorf("%v: says %q %d times", err, p, n)
		}
	}
}

// TestDSNs: what is no DSN is an error that shows the form, and keeps the password
// to itself; a URL is taken for what it says.
func TestDSNs(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", " ", "postgres://u:secret@h/d", "u:secret@h:3306/d"} {
		s, err := Open(dsn, Options{})
		if s != nil {
			t.Errorf("%q: a store beside the error", dsn)
		}
		refused(t, err, driver.ErrInvalid, false, "user:password@tcp(host:3306)/database")
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error has the password: %v", dsn, err)
		}
	}
	each(t, func(t *testing.T, l *lab) {
		l.store()
		u := url.URL{Scheme: "mysql", User: url.UserPassword(l.config.User, l.config.Passwd), Host: l.config.Addr, Path: "/" + l.config.DBName, RawQuery: "parseTime=true"}
		s, err := Open(u.String(), l.options())
		must(t, err)
		defer s.Close()
		must(t, s.Check(patient(t)))
	})
}

// TestForgottenMigrate names the table and what to do, once.
func TestForgottenMigrate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		s := l.bare()
		_, err := s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
		refused(t, err, driver.ErrSchema, true, l.table())
		saysOnce(t, err, "run Migrate", driver.ErrSchema.Error(), "missing")
		must(t, s.Migrate(ctx))
		exec(t, l.db, "DROP TABLE rowlock_run")
		exec(t, l.db, "DROP TABLE "+l.table())
		_, err = s.Acquire(ctx, []driver.Request{request("a", time.Minute)}) // while it is used
		refused(t, err, driver.ErrSchema, true, l.table())
		saysOnce(t, err, "run Migrate", driver.ErrSchema.Error())
	})
}

// TestForeignTable: a table of our name that is somebody else's is not one to
// drop without a thought.
func TestForeignTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		exec(t, l.db, "CREATE TABLE "+l.table()+" (id INT PRIMARY KEY) ENGINE=InnoDB")
		err := l.bare().Migrate(ctx)
		refused(t, err, driver.ErrSchema, true, l.table(), "Options.Prefix")
		saysOnce(t, err, driver.ErrSchema.Error(), "no migration repairs", "run Migrate")
	})
}

// TestPrivileges: Check finds out what the user may not do, and Migrate says which
// privilege it needs.
func TestPrivileges(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		ctx := patient(t)
		user := "p" + l.config.DBName[2:]
		exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
		t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
		plain := l.config.Clone()
		plain.User, plain.Passwd = user, "pw"
		for _, missing := range []string{"INSERT", "UPDATE", "DELETE"} {
			var some []string
			for _, p := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
				if p != missing {
					some = append(some, p)
				}
			}
			exec(t, l.db, "GRANT "+strings.Join(some, ",")+" ON "+l.config.DBName+".* TO "+user+"@'%'")
			s, err := Open(plain.FormatDSN(), l.options())
			must(t, err)
			err = s.Check(ctx)
			refused(t, err, nil, true, missing, "grant SELECT, INSERT, UPDATE and DELETE")
			must(t, s.Close())
			exec(t, l.db, "REVOKE ALL ON "+l.config.DBName+".* FROM "+user+"@'%'")
		}
		exec(t, l.db, "GRANT SELECT,INSERT,UPDATE,DELETE ON "+l.config.DBName+".* TO "+user+"@'%'")
		o := l.options()
		o.Prefix = "other"
		s, err := Open(plain.FormatDSN(), o)
		must(t, err)
		defer s.Close()
		err = s.Migrate(ctx)
		refused(t, err, nil, true, "grant it CREATE")
		if strings.Contains(err.Error(), "SELECT, INSERT") {
			t.Errorf("%v: names other privileges", err)
		}
	})
}
