package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// fullServers are the ways in which a Store gets no new connection, from when full is called.
var fullServers = map[string]func(t *testing.T, l *lab, o Options) (s *Store, full func()){
	"no connection is left": func(t *testing.T, l *lab, o Options) (*Store, func()) {
		user := "n" + l.config.DBName[2:]
		exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw' WITH MAX_USER_CONNECTIONS 12")
		t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
		exec(t, l.db, "GRANT ALL ON "+l.config.DBName+".* TO "+user+"@'%'")
		config := l.config.Clone()
		config.User, config.Passwd = user, "pw"
		return openWith(t, config.FormatDSN(), o), func() {
			for {
				db := l.open(config)
				db.SetMaxOpenConns(1)
				if err := db.PingContext(patient(t)); conn.NoConnection(err) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	},
	"a dial hangs": func(t *testing.T, l *lab, o Options) (*Store, func()) {
		var hangs atomic.Bool
		config := l.config.Clone()
		config.Net = "hangs" + l.config.DBName
		mysql.RegisterDialContext(config.Net, func(ctx context.Context, address string) (net.Conn, error) {
			if hangs.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		})
		t.Cleanup(func() { mysql.DeregisterDialContext(config.Net) })
		return openWith(t, config.FormatDSN(), o), func() { hangs.Store(true) }
	},
	"the program's pool is used up": func(t *testing.T, l *lab, o Options) (*Store, func()) {
		pool := l.open(l.config)
		pool.SetMaxOpenConns(12)
		s, err := New(pool, o)
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s, func() {
			var all []*sql.Conn
			t.Cleanup(func() {
				for _, c := range all {
					_ = c.Close()
				}
			})
			for pool.Stats().InUse < 12 {
				c, err := pool.Conn(patient(t))
				must(t, err)
				all = append(all, c)
			}
		}
	},
}

// TestP26_FullServer: a renewal and a release that get no connection of their own use one that rests, whatever it was opened for.
func TestP26_FullServer(t *testing.T) {
	t.Parallel()
	for name, make := range fullServers {
		for _, few := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/few=%v", name, few), func(t *testing.T) {
				t.Parallel()
				everywhere(t, func(t *testing.T, l *lab) {
					l.store()
					s, full := make(t, l, Options{Strategy: l.strategy, FewConnections: few})
					p := l.programOn(t, s, rowlock.Options{TTL: time.Hour, ReleaseWait: testserver.Patience(t)})
					ctx := patient(t)
					lease := p.lock(t, "k")
					full()
					if err := lease.Renew(ctx); err != nil {
						t.Fatalf("P26: a renewal, while the Store has connections that rest: %v", err)
					}
					must(t, lease.Release(ctx))
					if late := p.Stats().LateReleases; late > 0 {
						t.Error("a release was not answered, although the Store has connections that rest")
					}
					l.free(t, l.program(t, rowlock.Options{}), "k")
				})
			})
		}
	}
}
