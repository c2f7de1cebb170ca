package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// sessionsOf are the connection ids of a user on the server.
func sessionsOf(t testing.TB, l *lab, user string) (ids []int) {
	t.Helper()
	rows, err := l.db.Query("SHOW PROCESSLIST") // id, user, and more that differs between servers
	must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	for rows.Next() {
		var id int
		var who string
		into := []any{&id, &who}
		for range columns[2:] {
			into = append(into, new(any))
		}
		must(t, rows.Scan(into...))
		if who == user {
			ids = append(ids, id)
		}
	}
	must(t, rows.Err())
	return ids
}

// asUser is a store of a user of its own, so that its connections can be told.
func asUser(t testing.TB, l *lab, o Options) (*Store, string) {
	t.Helper()
	user := "c" + l.config.DBName[2:]
	exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
	t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
	exec(t, l.db, "GRANT ALL ON "+l.config.DBName+".* TO "+user+"@'%'")
	config := l.config.Clone()
	config.User, config.Passwd = user, "pw"
	o.Strategy = l.strategy
	s, err := Open(config.FormatDSN(), o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	must(t, s.Migrate(patient(t)))
	return s, user
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		for _, most := range []int{4, 8} {
			s, user := asUser(t, l, Options{Connections: most})
			c := client{t: t, Store: s}
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					for n := range 5 {
						key := fmt.Sprint("k", i, "/", n)
						h := c.granted(key, time.Minute)
						c.inspect(key)
						c.renew(h)
						c.release(h)
					}
				})
			}
			wg.Wait()
			if n := len(sessionsOf(t, l, user)); n > most || n < 3 {
				t.Errorf("%d connections, want at most %d", n, most)
			}
			must(t, s.Close())
			eventually(t, "all connections closed", func() bool { return len(sessionsOf(t, l, user)) == 0 })
			exec(t, l.db, "DROP USER "+user+"@'%'")
		}
	})
}

// TestDeadConnections: the server has ended the store's idle connections, as
// wait_timeout or an operator does; no step fails for it.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s, user := asUser(t, l, Options{})
		c := client{t: t, Store: s}
		for i := range 10 {
			h := c.granted(fmt.Sprint("k", i), time.Minute)
			s.db.Background.Wait() // it opens connections too
			ids := sessionsOf(t, l, user)
			if len(ids) < 2 {
				t.Fatalf("%d connections", len(ids))
			}
			for _, id := range ids {
				if _, err := l.db.Exec(fmt.Sprint("KILL ", id)); err != nil && conn.Number(err) != conn.ErNoSuchThread {
					t.Fatal(err)
				}
			}
			eventually(t, "all connections ended", func() bool { return len(sessionsOf(t, l, user)) == 0 })
			// The server forgets a session a moment before it closes the socket, which is
			// what a look at a connection sees.
			eventually(t, "all sockets closed", func() bool { return s.restingAreDead() })
			switch i % 3 {
			case 0:
				c.wants("renew", c.renew(h)[0].Status, driver.Alive)
			case 1:
				c.wants("release", c.release(h)[0].Status, driver.Released)
			case 2:
				c.inspect("k0")
			}
		}
		if s.db.CannotKill.Load() {
			t.Error("the store thinks that it cannot KILL")
		}
		c.inspect("k0") // on the control connection: it is looked after every 100 ms only
		pin(l, c, "pinned")
		c.soon("an acquire that a KILL ends", 900*time.Millisecond, func() {
			c.wants("pinned", c.acquire(request("pinned", time.Minute))[0].Status, driver.Pinned)
		})
	})
}

// TestContextEndsWhileBlocked: the call returns at once, and the statement that is
// left on the server is ended too.
func TestContextEndsWhileBlocked(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s, user := asUser(t, l, Options{})
		c := client{t: t, Store: s}
		pin(l, c, "p")
		const forever = 10 * time.Hour // nothing else ends the statement
		s.db.Usual.Store(int64(forever))
		for _, one := range s.db.Acquires.Idle() {
			_, err := one.Exec(patient(t), 0, fmt.Sprintf("SET SESSION innodb_lock_wait_timeout=%d", conn.WholeSeconds(forever)/time.Second))
			must(t, err)
		}
		blocked := func() bool {
			var n int
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER='"+user+"' AND INFO LIKE 'INSERT%'").Scan(&n))
			return n > 0
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, []driver.Request{request("p", time.Minute)})
			done <- err
		}()
		eventually(t, "the statement waits", blocked)
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) || driver.IsNotApplied(err) || driver.IsLasting(err) {
				t.Fatalf("error %v", err)
			}
		case <-time.After(testserver.Patience(t)):
			t.Fatal("the call does not return")
		}
		eventually(t, "the statement ended", func() bool { return !blocked() })
		ended, stop := context.WithCancel(context.Background())
		stop()
		_, err := s.Acquire(ended, []driver.Request{request("q", time.Minute)})
		if !errors.Is(err, context.Canceled) || !driver.IsNotApplied(err) {
			t.Fatalf("error %v", err)
		}
	})
}

// TestServerFaults: a frozen server, a killed one, one that comes back.
func TestServerFaults(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind)
			for _, strategy := range []Strategy{VersionColumn, UniqueInsert} {
				l := newLabAt(t, kind, server.DSN(), strategy)
				s := l.store()
				c := client{t: t, Store: s}
				first := c.granted("a", time.Minute)
				c.renew(first)

				server.Pause()
				begin := time.Now()
				for _, step := range []struct {
					name string
					do   func(context.Context) error
				}{
					{"acquire", func(ctx context.Context) error {
						_, err := s.Acquire(ctx, []driver.Request{request("b", time.Minute)})
						return err
					}},
					{"renew", func(ctx context.Context) error { _, err := s.Renew(ctx, []driver.Hold{first}); return err }},
					{"release", func(ctx context.Context) error { _, err := s.Release(ctx, []driver.Hold{first}); return err }},
					{"inspect", func(ctx context.Context) error { _, err := s.Inspect(ctx, []string{"a"}); return err }},
				} {
					soon(t, step.name+" on a frozen server", time.Second, func() {
						ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
						defer cancel()
						if err := step.do(ctx); !errors.Is(err, context.DeadlineExceeded) || driver.IsLasting(err) {
							t.Errorf("%s on a frozen server: %v", step.name, err)
						}
					})
				}
				t.Logf("frozen for %v", time.Since(begin))
				server.Resume()
				c.granted("c", time.Minute)

				second := c.granted("d", time.Minute)
				server.Kill()
				_, err := s.Acquire(patient(t), []driver.Request{request("e", time.Minute)})
				refused(t, err, nil, false)
				if !driver.IsNotApplied(err) {
					t.Errorf("%v: nothing can have been sent", err)
				}
				server.Restart()
				c.wants("renew after the restart", c.renew(second)[0].Status, driver.Alive)
				r := c.acquire(request("d", time.Minute))[0]
				c.wants("another", r.Status, driver.Held)
				c.wants("release", c.release(second)[0].Status, driver.Released)
				if next := c.granted("d", time.Minute); next.Token < second.Token+driver.TokenRange {
					t.Errorf("token %d after %d", next.Token, second.Token)
				}
				must(t, s.Close())
			}
		})
	}
}

// TestKillOnlyOurOwn: a connection number is not used on another server or after a
// restart.
func TestKillOnlyOurOwn(t *testing.T) {
	t.Parallel()
	l := newLab(t, testserver.MySQL, VersionColumn)
	s := l.store()
	ctx := patient(t)
	must(t, s.db.Step(ctx, s.db.Acquires, func(c *conn.Conn) error {
		err := s.db.Kill(ctx, c, "QUERY", time.Now().Add(-time.Hour))
		if !errors.Is(err, conn.ErrCannotKill) || !strings.Contains(err.Error(), "younger") {
			t.Errorf("a session last heard of before the control connection was there: %v", err)
		}
		if s.db.CannotKill.Load() {
			t.Error("that says nothing of the next statement")
		}
		if err := s.db.Kill(ctx, c, "QUERY", time.Now()); !errors.Is(err, conn.ErrNotOurs) {
			t.Errorf("a session that runs nothing: %v", err)
		}
		if s.db.CannotKill.Load() {
			t.Error("that says nothing of the next statement either")
		}
		c.Server = "elsewhere"
		c.Opened = time.Now().Add(time.Hour)
		err = s.db.Kill(ctx, c, "QUERY", time.Now())
		if !errors.Is(err, conn.ErrOtherServer) || s.db.CannotKill.Load() {
			t.Errorf("another server, another time: %v", err)
		}
		c.Opened = time.Now()
		s.db.Control.Warm(ctx, conn.KillWait)
		c.Ready = time.Now()
		err = s.db.Kill(ctx, c, "QUERY", time.Now())
		if !errors.Is(err, conn.ErrCannotKill) || !s.db.CannotKill.Load() {
			t.Errorf("another server: %v", err)
		}
		return nil
	}))
}

func TestNothingIsSentAtFirst(t *testing.T) {
	t.Parallel()
	s, err := Open("u:p@tcp(127.0.0.1:1)/d", Options{})
	must(t, err)
	defer s.Close()
	if n := s.Statements(); n != 0 {
		t.Errorf("%d statements", n)
	}
	l := s.Limits()
	if l.Batch < 1 || l.MinTTL <= 0 || l.LockWait < conn.LockWait || l.Heartbeat {
		t.Errorf("limits %+v", l)
	}
}

// TestNoGoroutineIsLeft after Close.
func TestNoGoroutineIsLeft(t *testing.T) {
	l := newLab(t, testserver.MySQL, VersionColumn)
	before := runtime.NumGoroutine()
	for range 3 {
		s, err := Open(l.dsn(), Options{})
		must(t, err)
		must(t, s.Migrate(patient(t)))
		c := client{t: t, Store: s}
		h := c.granted("a", time.Minute)
		c.release(h)
		ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
		_, _ = s.Acquire(ctx, []driver.Request{request("b", time.Millisecond)})
		cancel()
		must(t, s.Close())
	}
	eventually(t, "goroutines ended", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// restingAreDead reports whether every connection at rest shows that the server has
// closed it.
func (s *Store) restingAreDead() bool {
	for _, l := range []*conn.Pool{s.db.Acquires, s.db.Renewals, s.db.Releases, s.db.Control} {
		for _, c := range l.Idle() {
			if c.Alive(context.Background()) {
				return false
			}
		}
	}
	return true
}
