package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP11_CommitsNobodyAcknowledges: while no replica acknowledges, the primary keeps the session of each commit that was
// given up, whatever KILL says. The programs leave a bounded number of them behind, say what they wait for, and have
// their keys when a replica acknowledges again.
func TestP11_CommitsNobodyAcknowledges(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := newClusterLab(t, testserver.MySQLSemiSync)
	root, err := sql.Open("mysql", l.MemberDSNs()[l.Primary()])
	must(t, err)
	defer root.Close()
	root.SetMaxOpenConns(1)

	type program struct {
		user    string
		clients []*rowlock.Client
	}
	var programs []program
	for _, user := range []string{"opens", "shares"} {
		exec(t, root, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
		exec(t, root, "GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO "+user+"@'%'")
		config, err := mysql.ParseDSN(l.DSN())
		must(t, err)
		config.User, config.Passwd = user, "pw"
		var s *Store
		if user == "opens" {
			s, err = Open(config.FormatDSN(), Options{})
		} else {
			pool := (&lab{t: t}).open(config)
			s, err = New(pool, Options{})
		}
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		p := program{user: user}
		for range 6 {
			p.clients = append(p.clients, (&lab{t: t}).programOn(t, s, rowlock.Options{TTL: time.Second}).Client)
		}
		programs = append(programs, p)
	}
	sessions := func(p program) (n int) {
		must(t, root.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER=?", p.user).Scan(&n))
		return n
	}
	connects := func() (n int) {
		var name string
		must(t, root.QueryRow("SHOW GLOBAL STATUS LIKE 'Connections'").Scan(&name, &n))
		return n
	}
	for _, p := range programs { // all is well
		lease, err := p.clients[0].Acquire(within(t, time.Minute), "k")
		must(t, err)
		must(t, lease.Release(within(t, time.Minute)))
	}

	var replicas []int
	for i := range l.MemberDSNs() {
		if i != l.Primary() {
			replicas = append(replicas, i)
		}
	}
	l.Pause(replicas...)
	ctx := within(t, 15*time.Second)
	var all sync.WaitGroup
	var told atomic.Int64
	for _, p := range programs {
		for i, c := range p.clients {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					key := fmt.Sprintf("%s %d %d", p.user, i, n) // the row of one that was tried before is locked
					wait, cancel := context.WithTimeout(ctx, 2*time.Second)
					_, err := c.Acquire(wait, key)
					cancel()
					if err == nil {
						t.Errorf("%q was granted while no replica acknowledges", key)
						return
					}
					if strings.Contains(err.Error(), "do not acknowledge") && told.Add(1) == 1 {
						t.Log(err)
					}
				}
			})
		}
	}
	most, before := make(map[string]int), connects()
	for ctx.Err() == nil {
		for _, p := range programs {
			most[p.user] = max(most[p.user], sessions(p))
		}
		time.Sleep(100 * time.Millisecond)
	}
	all.Wait()
	t.Logf("the most sessions: %v; %d errors say what to look at; %d connections were made", most, told.Load(), connects()-before)
	if told.Load() == 0 {
		t.Error("no error says what to look at")
	}
	// What the pools have, as many commits that were given up, and those that were under way when it became so many.
	const bound = 3*defaultConnections + defaultWakeupConns
	for user, n := range most {
		if n > bound {
			t.Errorf("P11: the program of %q has %d sessions, at most %d", user, n, bound)
		}
	}

	l.Resume(replicas...)
	for _, p := range programs {
		begin := time.Now()
		lease, err := p.clients[0].Acquire(within(t, time.Minute), "k")
		if err != nil {
			t.Errorf("P8: %q, after the replicas are back: %v", p.user, err)
			continue
		}
		t.Logf("%q after %v", p.user, time.Since(begin).Round(time.Millisecond))
		must(t, lease.Release(within(t, time.Minute)))
	}
}

// TestP11_AbandonedWaitsEnd: sessions that were given up and are not at a commit keep no connection away. When they have
// ended a connection costs what it did.
func TestP11_AbandonedWaitsEnd(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		opens := func() (statements uint64) {
			statements = math.MaxUint64
			for range 5 { // a slow answer makes some cost more
				c.db.Acquires.CloseIdle()
				before := c.Statements()
				c.release(c.granted("a", time.Minute))
				statements = min(statements, c.Statements()-before)
			}
			return statements
		}
		want := opens()
		server := c.db.Acquires.Idle()[0].Server
		ctx, end := context.WithCancel(within(t, time.Minute))
		defer end()
		var all sync.WaitGroup
		for range 3 * defaultConnections {
			session, err := l.db.Conn(ctx)
			must(t, err)
			var id uint64
			must(t, session.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id))
			c.db.Abandoned.Add(server, id)
			all.Go(func() {
				_, _ = session.ExecContext(ctx, "DO SLEEP(60)")
				_ = session.Close()
			})
			eventually(t, "it works on its statement", func() (works bool) {
				must(t, l.db.QueryRow("SELECT COMMAND<>'Sleep' FROM information_schema.PROCESSLIST WHERE ID=?", id).Scan(&works))
				return works
			})
		}
		if got := opens(); got != want+1 {
			t.Errorf("a cycle on a new connection beside sessions that were given up: %d statements, want %d", got, want+1)
		}
		end()
		all.Wait()
		rows, err := l.db.Query("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO='DO SLEEP(60)'")
		must(t, err)
		defer rows.Close()
		for rows.Next() { // the server does not look whether its client is there
			var id uint64
			must(t, rows.Scan(&id))
			_, _ = l.db.Exec(fmt.Sprint("KILL ", id))
		}
		must(t, rows.Err())
		eventually(t, "a new connection costs what it did", func() bool { return opens() == want })
	}, VersionColumn)
}
