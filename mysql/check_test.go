package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// refused checks an error: what it matches, whether trying again is of use, and
// that it says the words an operator needs.
func refused(t *testing.T, err error, is error, lasting bool, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("%v: does not match %v", err, is)
	}
	if driver.IsLasting(err) != lasting {
		t.Errorf("%v: lasting %v, want %v", err, driver.IsLasting(err), lasting)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: does not say %q", err, w)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	const dsn = "u:p@tcp(127.0.0.1:1)/d"
	for _, c := range []struct {
		name  string
		dsn   string
		o     Options
		words []string
	}{
		{"unknown strategy", dsn, Options{Strategy: 9}, []string{"strategy 9", "UniqueInsert"}},
		{"prefix with a dash", dsn, Options{Prefix: "my-locks"}, []string{"my-locks", "letters"}},
		{"prefix with a quote", dsn, Options{Prefix: "a`b"}, []string{"a`b"}},
		{"prefix with a digit first", dsn, Options{Prefix: "1a"}, []string{"1a"}},
		{"prefix too long", dsn, Options{Prefix: strings.Repeat("a", 42)}, []string{"40"}},
		{"prefix with a newline", dsn, Options{Prefix: "a\n"}, []string{"prefix"}},
		{"too few connections", dsn, Options{Connections: 3}, []string{"3", "4"}},
		{"negative connections", dsn, Options{Connections: -1}, []string{"-1"}},
		{"no DSN", "not a dsn", Options{}, []string{"DSN"}},
		{"bad DSN parameter", dsn + "?parseTime=perhaps", Options{}, []string{"DSN", "perhaps"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(c.dsn, c.o)
			if s != nil {
				t.Error("a store beside the error")
			}
			refused(t, err, driver.ErrInvalid, false, c.words...)
		})
	}
	for s := VersionColumn; s <= SelectForUpdate; s++ {
		if got, err := ParseStrategy(s.String()); err != nil || got != s {
			t.Errorf("ParseStrategy(%q): %v, %v", s.String(), got, err)
		}
	}
	_, err := ParseStrategy("optimistic")
	refused(t, err, driver.ErrInvalid, false, "optimistic", "version", "unique", "for-update")
	if !strings.Contains(Strategy(7).String(), "7") {
		t.Error(Strategy(7).String())
	}
}

func TestCallersPool(t *testing.T) {
	t.Parallel()
	_, err := New(nil, Options{})
	refused(t, err, driver.ErrInvalid, false, "nil")

	each(t, func(t *testing.T, l *lab) {
		l.store()
		small := l.open(l.config)
		small.SetMaxOpenConns(9)
		_, err := New(small, Options{})
		refused(t, err, driver.ErrInvalid, false, "9", "8", "10")

		closed := l.open(l.config)
		must(t, closed.Close())
		_, err = New(closed, Options{})
		refused(t, err, driver.ErrInvalid, false, "closed")

		db := sqlx.NewDb(l.open(l.config), "mysql")
		db.SetMaxOpenConns(10)
		db.SetMaxIdleConns(10)
		// A connection comes back with an open transaction; the store must not use it.
		dirty, err := db.Conn(patient(t))
		must(t, err)
		for _, text := range []string{"CREATE TABLE dirt (n INT PRIMARY KEY)", "SET autocommit=0", "INSERT INTO dirt VALUES (1)"} {
			_, err = dirty.ExecContext(context.Background(), text)
			must(t, err)
		}
		must(t, dirty.Close())

		s, err := New(db.DB, Options{Strategy: l.strategy})
		must(t, err)
		c := client{t: t, Store: s}
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				key := string(rune('a' + i))
				h := c.granted(key, time.Minute)
				c.renew(h)
				c.inspect(key)
				c.release(h)
			})
		}
		wg.Wait()
		if n := db.Stats().OpenConnections; n > 9 {
			t.Errorf("%d connections, want at most 8 beside the one that was there", n)
		}
		var count int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM dirt").Scan(&count))
		if count != 0 {
			t.Error("the store committed a transaction that was not its own")
		}
		must(t, s.Close())
		for range 10 { // none of them is left with our settings
			conn, err := db.Conn(patient(t))
			must(t, err)
			defer conn.Close()
			var wait int
			must(t, conn.QueryRowContext(context.Background(), "SELECT @@SESSION.innodb_lock_wait_timeout").Scan(&wait))
			if wait == 1 {
				t.Error("the pool got a connection with changed settings")
			}
		}
	})
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		client{t: t, Store: s}.granted("a", time.Minute)
		must(t, s.Close())
		must(t, s.Close())
		ctx := patient(t)
		_, err := s.Acquire(ctx, []driver.Request{request("b", time.Minute)})
		refused(t, err, driver.ErrClosed, true)
		_, err = s.Renew(ctx, []driver.Hold{{Key: "a"}})
		refused(t, err, driver.ErrClosed, true)
		_, err = s.Release(ctx, []driver.Hold{{Key: "a"}})
		refused(t, err, driver.ErrClosed, true)
		_, err = s.Inspect(ctx, []string{"a"})
		refused(t, err, driver.ErrClosed, true)
		_, err = s.List(ctx, "", "", 1)
		refused(t, err, driver.ErrClosed, true)
		_, err = s.Reap(ctx, time.Hour)
		refused(t, err, driver.ErrClosed, true)
		_, err = s.ForceRelease(ctx, "a")
		refused(t, err, driver.ErrClosed, true)
		refused(t, s.Check(ctx), driver.ErrClosed, true)
		refused(t, s.Migrate(ctx), driver.ErrClosed, true)
	})
}

func TestTables(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		s := l.bare()
		for range 2 {
			_, err := s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
			refused(t, err, driver.ErrSchema, true, l.table(), "run Migrate")
		}
		refused(t, s.Check(ctx), driver.ErrSchema, true, l.table(), "run Migrate")
		must(t, s.Migrate(ctx))
		must(t, s.Check(ctx))
		client{t: t, Store: s}.granted("a", time.Minute)

		broken := func(change, undo string, is error, words ...string) {
			t.Helper()
			exec(t, l.db, "ALTER TABLE "+l.table()+" "+change)
			s := l.bare()
			refused(t, s.Check(ctx), is, true, append(words, l.table())...)
			_, err := s.Acquire(ctx, []driver.Request{request("b", time.Minute)})
			refused(t, err, is, true, append(words, l.table())...)
			refused(t, s.Migrate(ctx), is, true, append(words, l.table(), "no migration repairs this")...)
			exec(t, l.db, "ALTER TABLE "+l.table()+" "+undo)
			must(t, s.Check(ctx))
		}
		broken("CHANGE released_at released DATETIME(6) NULL", "CHANGE released released_at DATETIME(6) NULL", driver.ErrSchema, "released_at")
		broken("DROP INDEX guard", "ADD UNIQUE guard ("+strings.Join(s.strategy.Layout()[0].Guard, ",")+")", driver.ErrSchema, "guard", "ALTER TABLE", "ADD UNIQUE KEY guard")
		broken("DROP INDEX guard, ADD INDEX guard (name, token)", "DROP INDEX guard, ADD UNIQUE guard ("+strings.Join(s.strategy.Layout()[0].Guard, ",")+")", driver.ErrSchema, "guard", "ALTER TABLE", "ADD UNIQUE KEY guard")
		broken("ENGINE=MyISAM", "ENGINE=InnoDB", driver.ErrNotSupported, "InnoDB")

		// Tables that go while the store is used.
		exec(t, l.db, "DROP TABLE "+l.table())
		_, err := s.Acquire(ctx, []driver.Request{request("c", time.Minute)})
		refused(t, err, driver.ErrSchema, true, l.table(), "run Migrate")
		must(t, s.Migrate(ctx))
		client{t: t, Store: s}.granted("c", time.Minute)
	})
}

// TestMigrateAtOnce: 16 programs start on an empty database.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		for _, prefix := range []string{"", "rowlock2", "_x", strings.Repeat("p", 41)} {
			var stores []*Store
			for range 16 {
				s, err := Open(l.dsn(), Options{Strategy: l.strategy, Prefix: prefix})
				must(t, err)
				defer s.Close()
				stores = append(stores, s)
			}
			var wg sync.WaitGroup
			for _, s := range stores {
				wg.Go(func() {
					if err := s.Migrate(patient(t)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			must(t, stores[0].Check(patient(t)))
			// Each prefix is a lock space of its own.
			client{t: t, Store: stores[0]}.granted("a", time.Minute)
		}
		var tables int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE()").Scan(&tables))
		if tables != 4*9 {
			t.Errorf("%d tables, want 4 times 9", tables)
		}
	})
}

// TestPlainUser: everything but Migrate works with four privileges on the tables.
func TestPlainUser(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		user := "u" + l.config.DBName[2:]
		exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
		t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
		plain := l.config.Clone()
		plain.User, plain.Passwd = user, "pw"
		ctx := patient(t)

		s, err := Open(plain.FormatDSN(), Options{Strategy: l.strategy})
		must(t, err)
		defer s.Close()
		refused(t, s.Check(ctx), nil, true, l.config.DBName) // no privilege at all: 1044

		exec(t, l.db, "GRANT SELECT ON "+l.table()+" TO "+user+"@'%'")
		_, err = s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
		refused(t, err, nil, true, l.shares(), "grant SELECT, INSERT, UPDATE and DELETE")
		exec(t, l.db, "GRANT SELECT ON "+l.shares()+" TO "+user+"@'%'")
		_, err = s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
		refused(t, err, nil, true, l.table(), "grant SELECT, INSERT, UPDATE and DELETE")

		exec(t, l.db, "GRANT INSERT, UPDATE, DELETE ON "+l.table()+" TO "+user+"@'%'")
		exec(t, l.db, "GRANT INSERT, UPDATE, DELETE ON "+l.shares()+" TO "+user+"@'%'")
		own := *l
		own.strategy = l.strategy
		c := client{t: t, Store: s}
		for _, b := range branches {
			t.Run(b.name, func(t *testing.T) {
				c.t, own.t = t, t
				b.run(t, &own, c)
			})
		}
		c.t = t
		for _, q := range []driver.Request{reader("shared", time.Minute), slotOf("shared", 2, time.Minute)} {
			h := c.grant(q)
			c.alive("renewal", h)
			c.wants("release", c.release(h)[0].Status, driver.Released)
		}
		c.wants("exclusive", c.acquire(request("shared", time.Minute))[0].Status, driver.Granted)
		pin(l, c, "pinned") // needs a KILL
		c.wants("pinned", c.acquire(request("pinned", time.Minute))[0].Status, driver.Pinned)
		if s.db.CannotKill.Load() {
			t.Error("KILL was refused")
		}
		if _, err := s.Reap(ctx, time.Hour); err != nil {
			t.Error(err)
		}
	})
}

func TestNoWayIn(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, kind, VersionColumn)
			ctx := patient(t)
			try := func(change func(*mysql.Config)) error {
				t.Helper()
				config := l.config.Clone()
				change(config)
				s, err := Open(config.FormatDSN(), Options{})
				must(t, err)
				defer s.Close()
				_, err = s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
				if err == nil || !driver.IsNotApplied(err) {
					t.Errorf("%v: not proven to have changed nothing", err)
				}
				return err
			}
			refused(t, try(func(c *mysql.Config) { c.User, c.Passwd = "nobody", "wrong" }), nil, true, "DSN")
			refused(t, try(func(c *mysql.Config) { c.DBName = "no_such_database" }), nil, true, "no_such_database")
			refused(t, try(func(c *mysql.Config) { c.DBName = "" }), nil, true, "database")
			refused(t, try(func(c *mysql.Config) { c.Addr = "127.0.0.1:1" }), nil, false, "connect")
		})
	}
}

func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind, "--read-only")
			s, err := Open(server.DSN(), Options{})
			must(t, err)
			defer s.Close()
			ctx := patient(t)
			refused(t, s.Check(ctx), driver.ErrNotSupported, true, "read-only", "primary")
			_, err = s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
			refused(t, err, nil, false, "read-only") // a failover may be under way
			db, err := sql.Open("mysql", server.DSN())
			must(t, err)
			defer db.Close()
			exec(t, db, "SET GLOBAL read_only=0")
			must(t, s.Migrate(ctx))
			client{t: t, Store: s}.granted("a", time.Minute)

			// It becomes read-only while the store is used, as in a failover: passing. A
			// user with privileges could still write, so a plain one asks.
			exec(t, db, "CREATE USER plain@'%' IDENTIFIED BY 'pw'")
			exec(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO plain@'%'")
			config, err := mysql.ParseDSN(server.DSN())
			must(t, err)
			config.User, config.Passwd = "plain", "pw"
			p, err := Open(config.FormatDSN(), Options{})
			must(t, err)
			defer p.Close()
			client{t: t, Store: p}.granted("b", time.Minute)
			exec(t, db, "SET GLOBAL read_only=1")
			_, err = p.Acquire(ctx, []driver.Request{request("c", time.Minute)})
			refused(t, err, nil, false, "read-only")
			if !driver.IsNotApplied(err) {
				t.Errorf("%v: not proven to have changed nothing", err)
			}
		})
	}
}
