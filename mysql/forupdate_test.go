package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// endSession ends the session of a hold as the server, or an operator, might.
func endSession(t testing.TB, l *lab, s *Store, h driver.Hold) {
	t.Helper()
	id := sessionOf(t, s, h).ID
	exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", id))
	eventually(t, "the session is gone", func() bool {
		var n int
		must(t, l.db.QueryRow(fmt.Sprintf("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID=%d", id)).Scan(&n))
		return n == 0
	})
}

func sessionOf(t testing.TB, s *Store, h driver.Hold) *conn.Conn {
	t.Helper()
	own := s.strategy.(*session.ForUpdate).SessionOf(h)
	if own == nil {
		t.Fatalf("the store has no hold of %q", h.Key)
	}
	return own
}

func freeSoon(t testing.TB, c client, key string) driver.Hold {
	t.Helper()
	var h driver.Hold
	eventually(t, fmt.Sprintf("%q is granted", key), func() bool {
		q := request(key, time.Minute)
		r := c.acquire(q)[0]
		h = driver.Hold{Key: key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL}
		return r.Status == driver.Granted
	})
	return h
}

func TestForUpdateGrantAndRefusal(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		h := a.granted("a", time.Minute)
		for _, c := range []client{a, b} {
			c.wants("a second acquire", c.acquire(request("a", time.Minute))[0].Status, driver.Held)
			info := c.inspect("a")
			if !info.Held || info.Kept || info.Pinned || info.Owner != "test:1" || info.Token != h.Stored || info.Left < 50*time.Second {
				t.Fatalf("inspect: %+v", info)
			}
			if age := time.Since(info.Since); age < -time.Minute || age > time.Minute || info.Since.Location() != time.UTC {
				t.Fatalf("since %v", info.Since)
			}
		}
		r := a.acquire(driver.Request{Key: "a", ID: h.ID, TTL: time.Hour})[0]
		if r.Status != driver.Granted || r.Token != h.Token {
			t.Fatalf("its own hold again: %+v, want token %d", r, h.Token)
		}
		a.wants("renew", a.renew(h)[0].Status, driver.Alive)
		a.wants("release", a.release(h)[0].Status, driver.Released)
		for range 2 {
			if info := b.inspect("a"); info.Held || info.Left != 0 || info.Token != h.Stored {
				t.Fatalf("inspect after the release: %+v", info)
			}
		}
		a.wants("release again", a.release(h)[0].Status, driver.Removed)
		a.wants("renew a released one", a.renew(h)[0].Status, driver.Removed)
		next := b.granted("a", time.Minute)
		if next.Token < h.Token+driver.TokenRange {
			t.Fatalf("token %d after %d", next.Token, h.Token)
		}
		a.wants("release of the old one", a.release(h)[0].Status, driver.Taken)
		a.wants("renew of the old one", a.renew(h)[0].Status, driver.Taken)
		b.wants("renew", b.renew(next)[0].Status, driver.Alive)
		b.wants("renew from another store", a.renew(next)[0].Status, driver.Unknown)
		if !a.inspect("a").Held {
			t.Fatal("a stale step freed the key")
		}
	})
}

// A session that serves one key after the other is opened once.
func TestForUpdateReleaseReusesTheSession(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("a", time.Minute)
		id := sessionOf(t, c.Store, h).ID
		c.release(h)
		h = c.granted("b", 2*time.Minute)
		n := sessionOf(t, c.Store, h)
		if n.ID != id || n.Silence != 2*time.Minute {
			t.Fatalf("session %d with wait_timeout %v, want %d with 120", n.ID, n.Silence, id)
		}
		if c.inspect("a").Held || !c.inspect("b").Held {
			t.Fatalf("a: %+v, b: %+v", c.inspect("a"), c.inspect("b"))
		}
	})
}

func TestForUpdateKilledSession(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		// The heartbeat notices, and says what the lease row says.
		h := a.granted("a", time.Minute)
		endSession(t, l, a.Store, h)
		a.wants("renew without a session", a.renew(h)[0].Status, driver.Removed)
		a.wants("and again", a.renew(h)[0].Status, driver.Removed)
		next := freeSoon(t, b, "a")
		a.wants("renew", a.renew(h)[0].Status, driver.Taken)

		// Another takes the key before the holder notices.
		endSession(t, l, b.Store, next)
		last := freeSoon(t, a, "a")
		if !(h.Token < next.Token && next.Token < last.Token) {
			t.Fatalf("tokens %d, %d, %d", h.Token, next.Token, last.Token)
		}
		b.wants("renew", b.renew(next)[0].Status, driver.Taken)
		b.wants("release", b.release(next)[0].Status, driver.Taken)

		// A release of a dead session says that the hold was lost.
		endSession(t, l, a.Store, last)
		a.wants("release without a session", a.release(last)[0].Status, driver.Removed)

		// A session that dies at rest is no acquire's failure.
		h = freeSoon(t, a, "a")
		n := sessionOf(t, a.Store, h)
		a.release(h)
		exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", n.ID))
		a.release(a.granted("a", time.Minute))
	})
}

func TestForUpdateTokensOverRestart(t *testing.T) {
	testserver.Long(t)
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind)
			l := newLabAt(t, kind, server.DSN(), SelectForUpdate)
			a := client{t: t, Store: l.store()}
			h := a.granted("a", time.Minute)
			server.Kill()
			server.Restart()
			eventually(t, "the holder learns of it", func() bool {
				results, err := a.Renew(patient(t), []driver.Hold{h})
				return err == nil && results[0].Status == driver.Removed
			})
			var next driver.Hold
			eventually(t, "the key is granted after the restart", func() bool {
				q := request("a", time.Minute)
				results, err := a.Acquire(patient(t), []driver.Request{q})
				if err != nil || results[0].Status != driver.Granted {
					return false
				}
				next = driver.Hold{Key: "a", ID: q.ID, Token: results[0].Token}
				return true
			})
			if next.Token < h.Token+driver.TokenRange {
				t.Fatalf("token %d after %d", next.Token, h.Token)
			}
			a.wants("release", a.release(next)[0].Status, driver.Released)
		})
	}
}

func TestForUpdateMinHold(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		keep := func(key string, d time.Duration) driver.Hold {
			q := request(key, time.Minute)
			q.Keep = d
			return a.grant(q)
		}
		kept := func(key string) {
			t.Helper()
			r := b.acquire(request(key, time.Minute))[0]
			b.wants("acquire of a kept key", r.Status, driver.Held)
			if r.Left <= 0 || r.Left > time.Hour {
				t.Fatalf("left %v of an hour", r.Left)
			}
			if i := b.inspect(key); !i.Held || !i.Kept || i.Left <= 50*time.Minute || i.Left > time.Hour {
				t.Fatalf("inspect: %+v", i)
			}
		}
		// After a release.
		h := keep("released", time.Hour)
		a.wants("release", a.release(h)[0].Status, driver.Released)
		kept("released")
		// After a crash.
		h = keep("crashed", time.Hour)
		endSession(t, l, a.Store, h)
		eventually(t, "the row is free", func() bool { return b.inspect("crashed").Kept })
		kept("crashed")
		a.wants("renew after the crash", a.renew(h)[0].Status, driver.Removed)
		kept("crashed")
		// Not after an undo, nor after a forced release.
		h = keep("undone", time.Hour)
		h.Undo = true
		if r := a.release(h)[0]; r.Status != driver.Released || !r.Final {
			t.Fatalf("undo: %+v", r)
		}
		b.granted("undone", time.Minute)
		if info, err := b.ForceRelease(patient(t), "released"); err != nil || !info.Kept {
			t.Fatalf("force: %+v, %v", info, err)
		}
		b.granted("released", time.Minute)
	})
}

func TestForUpdatePinned(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		h := a.granted("a", time.Minute)
		unpin := l.guard("a")
		a.wants("renew under a guard", a.renew(h)[0].Status, driver.Alive)
		a.wants("release under a guard", a.release(h)[0].Status, driver.Released)
		start := time.Now()
		b.wants("takeover", b.acquire(request("a", time.Minute))[0].Status, driver.Pinned)
		t.Logf("pinned after %v", time.Since(start))
		if i := b.inspect("a"); i.Held || !i.Pinned {
			t.Fatalf("inspect: %+v", i)
		}
		q := request("a", time.Minute)
		q.Pinned = true
		start = time.Now()
		b.wants("takeover of a pinned key", b.acquire(q)[0].Status, driver.Pinned)
		t.Logf("known to be pinned: after %v", time.Since(start))
		before := a.inspect("a").Token
		if info, err := a.ForceRelease(patient(t), "a"); err == nil {
			t.Fatalf("force past an open guard: %+v", info)
		}
		if after := a.inspect("a").Token; after != before {
			t.Fatalf("token %d, was %d", after, before)
		}
		unpin()
		q = request("a", time.Minute)
		q.Pinned = true
		if next := b.grant(q); next.Token < h.Token+driver.TokenRange {
			t.Fatalf("token %d after %d", next.Token, h.Token)
		}
	})
}

func TestForUpdateForce(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		// A holder that is alive frees the row at its next heartbeat.
		h := a.granted("alive", time.Minute)
		id := sessionOf(t, a.Store, h).ID
		done := make(chan error, 1)
		go func() {
			info, err := b.ForceRelease(patient(t), "alive")
			if err == nil && (!info.Held || info.Token != h.Stored) {
				err = fmt.Errorf("%+v", info)
			}
			done <- err
		}()
		eventually(t, "the holder learns of it", func() bool { return a.renew(h)[0].Status == driver.Forced })
		must(t, <-done)
		next := b.granted("alive", time.Minute)
		if next.Token < h.Token+2*driver.TokenRange {
			t.Fatalf("token %d after a forced release of %d", next.Token, h.Token)
		}
		if other := a.granted("other", time.Minute); sessionOf(t, a.Store, other).ID != id {
			t.Fatal("the session of a living holder was ended")
		}
		// One that is silent loses its session.
		h = a.granted("silent", time.Hour)
		start := time.Now()
		_, err := b.ForceRelease(patient(t), "silent")
		must(t, err)
		t.Logf("a silent holder's key is free after %v", time.Since(start))
		b.granted("silent", time.Minute)
		a.wants("renew", a.renew(h)[0].Status, driver.Taken)
		// The session is gone, and another transaction has the row: another client's attempt.
		h = a.granted("gone", time.Hour)
		exec(t, l.db, fmt.Sprint("KILL ", sessionOf(t, a.Store, h).ID))
		tx, err := l.db.Begin()
		must(t, err)
		defer tx.Rollback()
		var name string
		eventually(t, "the row is free", func() bool {
			return tx.QueryRow("SELECT name FROM rowlock_session_row WHERE name='gone' FOR UPDATE").Scan(&name) == nil
		})
		_, err = b.ForceRelease(patient(t), "gone")
		must(t, err)
		must(t, tx.Rollback())
		b.granted("gone", time.Minute)
		// Nothing to end is no error.
		info, err := b.ForceRelease(patient(t), "nothing")
		if err != nil || info != (driver.Info{Key: "nothing"}) {
			t.Fatalf("%+v, %v", info, err)
		}
	})
}
