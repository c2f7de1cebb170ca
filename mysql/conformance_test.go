package mysqllock

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// TestMain also is the child process of the suite.
func TestMain(m *testing.M) {
	testserver.Parallel(6)
	testserver.Examples(testserver.MySQL)
	locktest.Main(m, func(config string) (driver.Store, error) {
		return openConfig(config)
	})
}

// openConfig opens a store by lab.setup: in a child process.
func openConfig(config string) (*Store, error) {
	name, dsn, _ := strings.Cut(config, " ")
	parts := strings.Split(name, "+")
	if len(parts) != 2 {
		return nil, fmt.Errorf("%q is no setup", config)
	}
	name, wakeups := parts[0], parts[1]
	var o Options
	var err error
	if o.Strategy, err = ParseStrategy(name); err != nil {
		return nil, err
	}
	if o.WakeupConns, err = strconv.Atoi(wakeups); err != nil {
		return nil, err
	}
	return Open(dsn, o)
}

// harness is a database of its own on a shared server.
func harness(t testing.TB, kind string, strategy Strategy) locktest.Harness {
	return harnessOf(t, newLab(t, kind, strategy))
}

func harnessOf(t testing.TB, l *lab) locktest.Harness {
	l.store()
	var users sync.Map // of each store, so that its connections can be counted
	return locktest.Harness{
		RowLocks: true,
		Config:   l.setup(),
		Open: func(t testing.TB) driver.Store {
			s, user := l.storeOfUser(t)
			users.Store(s, user)
			return s
		},
		Server: func(t testing.TB) (locktest.Server, func(testing.TB) driver.Store) {
			server := testserver.Start(t, l.kind)
			own := newLabAt(t, l.kind, server.DSN(), l.strategy)
			own.wakeups = l.wakeups
			own.store()
			return harmed{server}, func(t testing.TB) driver.Store { return openWith(t, own.dsn(), own.options()) }
		},
		Block: func(t testing.TB, key string) func() {
			l := *l
			l.t = t
			for { // a reaper of another case may take the row between the two
				exec(t, l.db, fmt.Sprintf("INSERT IGNORE INTO %s (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES (x'%x',x'%x','',1,'2020-01-01',%s,'2020-01-01')",
					l.table(), key, make([]byte, 16), row.Epoch))
				unblock, err := l.tryGuard(key)
				if !errors.Is(err, sql.ErrNoRows) {
					must(t, err)
					return unblock
				}
			}
		},
		Guard: func(t testing.TB, s driver.Store, lease *rowlock.Lease) (func() error, error) {
			tx, err := l.db.Begin()
			must(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			return tx.Commit, s.(*Store).Guard(patient(t), tx, lease)
		},
		Connections: func(t testing.TB, s driver.Store) int {
			user, ok := users.Load(s.(*Store))
			if !ok {
				t.Fatal("a store of another harness")
			}
			return len(sessionsOf(t, l, user.(string)))
		},
		InTx: func(ctx context.Context, s driver.Store, fn func(context.Context) error, leases ...*rowlock.Lease) error {
			return s.(*Store).InTx(ctx, leases[0], func(ctx context.Context, _ *sql.Tx) error { return fn(ctx) }, leases[1:]...)
		},
		MaxConnections: func(int, int) int { return defaultConnections + l.options().wakeupConns(defaultWakeupConns) },
		Dead: func(t testing.TB, prefix string, n int) {
			for n > 0 {
				rows := make([]string, 0, 1000)
				for ; n > 0 && len(rows) < cap(rows); n-- {
					rows = append(rows, fmt.Sprintf("('%s%d',x'01','',%d,'2020-01-01','1970-01-02','2020-01-01')", prefix, n-1, n))
				}
				exec(t, l.db, "INSERT INTO "+l.table()+" (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES "+strings.Join(rows, ","))
			}
		},
	}
}

func openFor(t testing.TB, dsn string, strategy Strategy) *Store {
	t.Helper()
	return openWith(t, dsn, Options{Strategy: strategy})
}

func openWith(t testing.TB, dsn string, o Options) *Store {
	t.Helper()
	s, err := Open(dsn, o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// storeOfUser is a store with a user of its own, who may do what a user must.
func (l *lab) storeOfUser(t testing.TB) (*Store, string) {
	t.Helper()
	user := "s" + strings.ToLower(rand.Text()[:12])
	exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
	t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
	exec(t, l.db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+l.config.DBName+".* TO "+user+"@'%'")
	config := l.config.Clone()
	config.User, config.Passwd = user, "pw"
	return openWith(t, config.FormatDSN(), l.options()), user
}

type harmed struct{ s *testserver.Server }

func (h harmed) Pause()   { h.s.Pause() }
func (h harmed) Resume()  { h.s.Resume() }
func (h harmed) Kill()    { h.s.Kill() }
func (h harmed) Restart() { h.s.Restart() }

// TestConformance runs the whole suite for each strategy on each server: on the servers side by side, because the cases
// wait most of the time. In the short tier each server has one of the strategies.
func TestConformance(t *testing.T) {
	sideBySide(t, func(t *testing.T, kind string) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert} {
			if testing.Short() && (strategy == UniqueInsert) != (kind == testserver.MariaDB) {
				continue
			}
			t.Run(strategy.String(), func(t *testing.T) { locktest.Run(t, harness(t, kind, strategy)) })
		}
	})
}

// sideBySide runs f on both servers at the same time.
func sideBySide(t *testing.T, f func(t *testing.T, kind string)) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(t, kind)
		})
	}
}

// TestConformanceOfProbes: the same promises without named locks, so that all who wait probe. One server stands
// for both: who waits, when it looks and what it concludes is the engine's, and the statement of a probe is run on
// both servers by TestConformance, whose waiters probe too.
func TestConformanceOfProbes(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	t.Run(testserver.MySQL, func(t *testing.T) {
		l := newLab(t, testserver.MySQL, VersionColumn)
		l.wakeups = -1
		locktest.Run(t, harnessOf(t, l))
	})
}
