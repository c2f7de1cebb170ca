package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// kills is how many KILLs the server was sent.
func kills(t testing.TB, db *sql.DB) (n int) {
	t.Helper()
	var name string
	must(t, db.QueryRow("SHOW GLOBAL STATUS LIKE 'Com_kill'").Scan(&name, &n))
	return n
}

// cycle is what an acquire and a release cost a store that has what it needs.
func (c client) cycle() (statements uint64) {
	c.t.Helper()
	statements = math.MaxUint64
	for range 10 { // a slow answer makes some cost more
		before := c.Statements()
		c.release(c.granted("quiet", time.Minute))
		statements = min(statements, c.Statements()-before)
	}
	return statements
}

// TestP15_KillAfterAFailover: the address leads to a second server, and the first
// one's host goes silent. The control connection is on the second before all others
// are, which says nothing of a proxy: blocked statements are ended as before.
func TestP15_KillAfterAFailover(t *testing.T) {
	testserver.Long(t)
	onTwins(t, func(t *testing.T, w *twins) {
		l := &lab{t: t, kind: w.kind, config: w.config, strategy: VersionColumn}
		c := client{t: t, Store: l.bare()}
		c.release(c.granted("a", time.Minute))
		h := c.granted("b", time.Minute) // connections of all lanes rest on the first
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)

		w.to(t, 1)
		w.both[0].Pause()
		defer w.both[0].Resume()
		// What each lane sends there is not answered, and cannot be ended. Some of it
		// finds a connection to the second server.
		_, _ = c.Acquire(within(t, time.Second), []driver.Request{request("c", time.Minute)})
		_, _ = c.Renew(within(t, time.Second), []driver.Hold{h})
		_, _ = c.Release(within(t, time.Second), []driver.Hold{h})

		fresh := client{t: t, Store: l.bare()}
		if got, want := c.cycle(), fresh.cycle(); got != want {
			t.Errorf("after the failover a quiet cycle costs %d statements, a fresh store's %d", got, want)
		}
		c.granted("locked", time.Millisecond)
		eventually(t, "the hold is over", func() bool { return !c.inspect("locked").Held })
		before := kills(t, w.both[1].db)
		there := *l
		there.db = w.both[1].db
		unlock := lockRow(&there, "locked")
		eventually(t, "a blocked statement is ended by KILL after the failover", func() bool {
			c.near()
			c.wants("a key whose row a stranger has locked", c.acquire(request("locked", time.Minute))[0].Status, driver.Pinned)
			return kills(t, w.both[1].db) > before
		})
		unlock()
	})
}

// TestP15_ControlConnectionComesFirst: a control connection that was ended is there again
// with the next statement, before one has to be ended. One that is opened when a statement
// waits is younger than the last answer of its session, so nothing shows whose that is.
func TestP15_ControlConnectionComesFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for range 5 { // a statement that takes long on a busy machine opens one to look at its session
			c.release(c.granted("quiet", time.Minute))
			c.db.Control.CloseIdle()
			time.Sleep(conn.WarmEvery)
			h := c.granted("quiet", time.Minute)
			eventually(t, "the control connection is there again", func() bool { return len(c.db.Control.Idle()) > 0 })
			c.release(h)
		}
	})
}

// TestP14_KillBehindASharedConnection: a proxy that shares the server's connections
// among its clients may lead a statement to another session than the one whose number
// was read. What a stranger runs there is not ended; the lock wait is the bound, and
// the next acquire looks before it leaps.
func TestP14_KillBehindASharedConnection(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.release(c.granted("a", time.Minute))
		c.granted("b", time.Millisecond)
		eventually(t, "the hold is over", func() bool { return !c.inspect("b").Held })

		stranger, err := l.db.Conn(patient(t))
		must(t, err)
		defer stranger.Close()
		var id uint64
		must(t, stranger.QueryRowContext(patient(t), "SELECT CONNECTION_ID()").Scan(&id))
		ended := make(chan error, 1)
		go func() {
			var interrupted bool
			err := stranger.QueryRowContext(patient(t), "SELECT SLEEP(3600)").Scan(&interrupted)
			if err == nil && interrupted {
				err = errors.New("interrupted")
			}
			ended <- err
		}()
		eventually(t, "the stranger's statement runs", func() (runs bool) {
			must(t, l.db.QueryRow(fmt.Sprintf("SELECT COUNT(*)>0 FROM information_schema.processlist WHERE id=%d AND info LIKE '%%SLEEP%%'", id)).Scan(&runs))
			return runs
		})
		unlock := lockRow(l, "b")
		eventually(t, "it is concluded that no KILL reaches a statement which the lock wait ended while the session with its number did something else", func() bool {
			c.near()
			for _, one := range c.db.Acquires.Idle() {
				one.ID = id
			}
			c.wants("a key whose row a stranger has locked", c.acquire(request("b", time.Minute))[0].Status, driver.Pinned)
			return c.db.CannotKill.Load()
		})
		unlock()
		select {
		case err := <-ended:
			t.Errorf("the stranger's statement was ended: %v", err)
		default:
			exec(t, l.db, fmt.Sprintf("KILL QUERY %d", id))
			<-ended
		}

		// It is forgotten: the next one that is blocked tries again.
		then := time.Now().Add(-conn.ForgetAfter)
		c.db.CannotKill.At(then)
		c.db.Acquires.CloseIdle()
		c.granted("a", time.Minute)
		before := kills(t, l.db)
		unlock = lockRow(l, "b")
		eventually(t, "a KILL is sent to a session of our own", func() bool {
			c.near()
			c.wants("a key whose row a stranger has locked", c.acquire(request("b", time.Minute))[0].Status, driver.Pinned)
			return kills(t, l.db) > before && !c.db.CannotKill.Load()
		})
		unlock()
	})
}

// TestP15_ControlConnectionIsNotIdle: while the Store is used the server's
// wait_timeout does not end the connection from which KILL is sent.
func TestP15_ControlConnectionIsNotIdle(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLabAt(t, kind, testserver.Start(t, kind).DSN(), VersionColumn)
			const idle = 3 * conn.SpeakEvery
			exec(t, l.db, fmt.Sprintf("SET GLOBAL wait_timeout=%d", conn.WholeSeconds(idle)/time.Second))
			c := client{t: t, Store: l.store()}
			number := func() uint64 {
				ctl, err := c.db.Control.Get(patient(t))
				must(t, err)
				defer ctl.Put()
				return ctl.ID
			}
			c.cycle()
			before := number()
			// Not by statements: one that takes long has its session looked at, which is a
			// use of the control connection too.
			for start := time.Now(); time.Since(start) < idle+conn.SpeakEvery; conn.Pause(context.Background(), conn.WarmEvery) {
				c.db.Control.Warm(patient(t), conn.KillWait) // as each statement does before it is sent
			}
			if after := number(); after != before {
				t.Errorf("the control connection was session %d and is %d: the server ended it by wait_timeout, although the Store was in use", before, after)
			}
		})
	}
}
