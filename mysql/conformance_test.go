package mysqllock

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
)

// TestMain also is the child process of the suite: its configuration is a strategy
// and a DSN.
func TestMain(m *testing.M) {
	locktest.Main(m, func(config string) (driver.Store, error) {
		name, dsn, _ := strings.Cut(config, " ")
		strategy, err := ParseStrategy(name)
		if err != nil {
			return nil, err
		}
		return Open(dsn, Options{Strategy: strategy})
	})
}

// harness is a database of its own on a shared server.
func harness(t testing.TB, kind string, strategy Strategy) locktest.Harness {
	l := newLab(t, kind, strategy)
	l.store()
	var users sync.Map // of each store, so that its connections can be counted
	return locktest.Harness{
		Config: strategy.String() + " " + l.dsn(),
		Open: func(t testing.TB) driver.Store {
			s, user := l.storeOfUser(t)
			users.Store(s, user)
			return s
		},
		Server: func(t testing.TB) (locktest.Server, func(testing.TB) driver.Store) {
			server := testserver.Start(t, kind)
			l := newLabAt(t, kind, server.DSN(), strategy)
			l.store()
			return harmed{server}, func(t testing.TB) driver.Store { return openFor(t, l.dsn(), strategy) }
		},
		Block: func(t testing.TB, key string) func() {
			l := *l
			l.t = t
			exec(t, l.db, fmt.Sprintf("INSERT IGNORE INTO %s (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES (x'%x',x'%x','',1,'2020-01-01',%s,'2020-01-01')",
				l.table(), key, make([]byte, 16), never))
			return l.guard(key)
		},
		Connections: func(t testing.TB, s driver.Store) int {
			user, ok := users.Load(s)
			if !ok {
				t.Fatal("a store of another harness")
			}
			return len(sessionsOf(t, l, user.(string)))
		},
		MaxConnections: func(int, int) int { return defaultConnections },
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
	s, err := Open(dsn, Options{Strategy: strategy})
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
	return openFor(t, config.FormatDSN(), l.strategy), user
}

type harmed struct{ s *testserver.Server }

func (h harmed) Pause()   { h.s.Pause() }
func (h harmed) Resume()  { h.s.Resume() }
func (h harmed) Kill()    { h.s.Kill() }
func (h harmed) Restart() { h.s.Restart() }

// TestConformance runs the whole suite for each strategy on each server.
func TestConformance(t *testing.T) {
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				locktest.Run(t, harness(t, kind, strategy))
			})
		}
	}
}
