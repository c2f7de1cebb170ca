package mysqllock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// roomForAll is how many connections there are: one group of keys can be held with them, two cannot.
const (
	roomForAll   = 30
	keysOfGroup  = 14
	roomOwnConns = 4 // Options.Connections
)

// roomPrograms are two programs whose connections are bounded together.
var roomPrograms = map[string]func(t *testing.T, kind string) [2]program{
	"server": func(t *testing.T, kind string) [2]program { // 1040
		l := newLabAt(t, kind, testserver.Start(t, kind, fmt.Sprintf("--max-connections=%d", roomForAll)).DSN(), SelectForUpdate)
		l.store() // makes the tables
		l.db.SetMaxOpenConns(1)
		return l.roomPrograms(t, l.dsn())
	},
	"account": func(t *testing.T, kind string) [2]program { // 1226
		l := newLab(t, kind, SelectForUpdate)
		l.store()
		user := "s" + strings.ToLower(rand.Text()[:12])
		exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw' WITH MAX_USER_CONNECTIONS "+fmt.Sprint(roomForAll))
		t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
		exec(t, l.db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+l.config.DBName+".* TO "+user+"@'%'")
		config := l.config.Clone()
		config.User, config.Passwd = user, "pw"
		return l.roomPrograms(t, config.FormatDSN())
	},
	"pool": func(t *testing.T, kind string) [2]program {
		l := newLab(t, kind, SelectForUpdate)
		l.store()
		pool := l.open(l.config)
		pool.SetMaxOpenConns(roomForAll)
		var both [2]program
		for i := range both {
			s, err := New(pool, Options{Strategy: SelectForUpdate, Connections: roomOwnConns})
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
			both[i] = l.programOn(t, s, rowlock.Options{})
		}
		return both
	},
}

func (l *lab) roomPrograms(t *testing.T, dsn string) (both [2]program) {
	for i := range both {
		both[i] = l.programOn(t, openWith(t, dsn, Options{Strategy: SelectForUpdate, Connections: roomOwnConns}), rowlock.Options{})
	}
	return both
}

// TestP22_NoRoomForBoth: two calls of AcquireAll for different keys, each of which there are connections for, but not for both:
// neither keeps some of the connections while it lacks others, so both get on.
func TestP22_NoRoomForBoth(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for name, programs := range roomPrograms {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				both := programs(t, kind)
				ctx := patient(t)
				for i, p := range both { // all but the sessions is there
					lease := p.lock(t, fmt.Sprint("warm", i))
					must(t, lease.Release(ctx))
				}
				for round := range 2 {
					var wg sync.WaitGroup
					start := make(chan struct{})
					for i, p := range both {
						var keys []string
						for n := range keysOfGroup {
							keys = append(keys, fmt.Sprintf("%d.%02d", i, n))
						}
						wg.Go(func() {
							<-start
							g, err := p.AcquireAll(ctx, rowlock.Keys(keys...))
							if err != nil {
								t.Errorf("round %d, program %d: %v", round, i, err)
								return
							}
							if err := g.Release(ctx); err != nil {
								t.Errorf("round %d, program %d: %v", round, i, err)
							}
						})
					}
					close(start)
					wg.Wait()
				}
			})
		}
	}
}

// TestNoRoomIsSaid: an attempt for which there is no connection says so to the engine, and why to a caller.
func TestNoRoomIsSaid(t *testing.T) {
	t.Parallel()
	for name, programs := range roomPrograms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := programs(t, testserver.MySQL)[0]
			ctx := patient(t)
			var full error
			for n := 0; full == nil && n <= roomForAll; n++ {
				r, err := p.Store.Acquire(ctx, []driver.Request{request(fmt.Sprint("k", n), time.Minute)})
				must(t, err)
				full = r[0].Err
			}
			if !driver.IsNoRoom(full) || !driver.IsNotApplied(full) || driver.IsLasting(full) {
				t.Errorf("%v: no room %v, not applied %v, lasting %v", full, driver.IsNoRoom(full), driver.IsNotApplied(full), driver.IsLasting(full))
			}
			if _, err := p.TryAcquire(ctx, "one more"); err == nil || errors.Is(err, rowlock.ErrHeld) {
				t.Errorf("TryAcquire: %v", err)
			}
		})
	}
}
