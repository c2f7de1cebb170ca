package mysqllock

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

func TestForUpdateConnectionsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		s, user := asUser(t, l, Options{})
		c := client{t: t, Store: s}
		own := s.strategy.(*session.ForUpdate).Sessions
		own.IdleFor = 2 * time.Second
		const held = 30
		var holds []driver.Hold
		for i := range held {
			holds = append(holds, c.granted(fmt.Sprint("held", i), time.Minute))
		}
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				for n := range 3 {
					key := fmt.Sprint("k", i, "/", n)
					h := c.granted(key, time.Minute)
					c.inspect(key)
					c.renew(h)
					c.release(h)
				}
			})
		}
		most := 0
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(10 * time.Millisecond):
			}
			most = max(most, len(sessionsOf(t, l, user)))
		}
		// Sixty workers hold a key each in turn, beside the thirty.
		if bound := defaultConnections + session.MaxAttempts + held + 60; most > bound {
			t.Errorf("%d connections, want at most %d", most, bound)
		}
		eventually(t, "sessions that are not needed are closed", func() bool {
			return len(sessionsOf(t, l, user)) <= defaultConnections+session.MaxAttempts+held
		})
		for _, r := range c.release(holds...) {
			c.wants("release", r.Status, driver.Released)
		}
		eventually(t, "sessions are closed that hold nothing, although nothing is done", func() bool {
			return own.Open() <= session.MaxAttempts
		})
		c.granted("left", time.Minute)
		must(t, s.Close())
		eventually(t, "all connections closed", func() bool { return len(sessionsOf(t, l, user)) == 0 })
		exec(t, l.db, "DROP USER "+user+"@'%'")
		other := client{t: t, Store: l.bare()}
		freeSoon(t, other, "left") // Close ended its session
	})
}

// Workers that hold as many keys as they did a moment ago open no session for it.
func TestForUpdateSessionsAreKeptForTheNextRound(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		own := c.strategy.(*session.ForUpdate).Sessions
		own.IdleFor = time.Minute // however slow the machine is
		ids := func() map[uint64]bool {
			seen := make(map[uint64]bool)
			var holds []driver.Hold
			for i := range 2 * session.MaxAttempts {
				h := c.granted(fmt.Sprint("k", i), time.Minute)
				seen[sessionOf(t, c.Store, h).ID] = true
				holds = append(holds, h)
			}
			c.release(holds...)
			return seen
		}
		first := ids()
		for id := range ids() {
			if !first[id] {
				t.Errorf("session %d was opened in the second round", id)
			}
		}
	})
}

// A pool of the caller's bounds the keys that can be held; its connections come
// back as they were.
func TestForUpdateOnACallersPool(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		l.store()
		const room = 3
		db := l.open(l.config)
		db.SetMaxOpenConns(minConnections + spareConnections)
		if _, err := New(db, Options{Strategy: SelectForUpdate, Connections: minConnections}); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(minConnections+spareConnections+1)) {
			t.Fatalf("a pool without room for a session: %v", err)
		}
		db.SetMaxOpenConns(minConnections + spareConnections + room)
		s, err := New(db, Options{Strategy: SelectForUpdate, Connections: minConnections})
		must(t, err)
		defer s.Close()
		c := client{t: t, Store: s}
		var holds []driver.Hold
		for i := range room {
			holds = append(holds, c.granted(fmt.Sprint("k", i), time.Minute))
		}
		results, err := s.Acquire(patient(t), []driver.Request{request("more", time.Minute)})
		must(t, err)
		if r := results[0]; r.Status != driver.Unknown || !driver.IsNotApplied(r.Err) || driver.IsLasting(r.Err) || !strings.Contains(r.Err.Error(), "SetMaxOpenConns") {
			t.Fatalf("one key too many: %+v", r)
		}
		for _, r := range c.renew(holds...) {
			c.wants("renew", r.Status, driver.Alive)
		}
		c.release(holds[0])
		h := c.granted("more", time.Minute)
		c.release(append(holds[1:], h)...)
		must(t, s.Close())
		for range minConnections + spareConnections + room {
			var autocommit bool
			var wait int
			must(t, db.QueryRow("SELECT @@autocommit,@@wait_timeout").Scan(&autocommit, &wait))
			if !autocommit || wait == 60 {
				t.Fatalf("a connection of the pool has autocommit %v, wait_timeout %d", autocommit, wait)
			}
		}
	})
}

// A session that does not answer delays nobody's renewal, and is not given up
// before its lease is.
func TestForUpdateHungSession(t *testing.T) {
	testserver.Long(t)
	onBoth(t, func(t *testing.T, l *lab) {
		const ttl = time.Minute
		c := client{t: t, Store: l.store()}
		hung := c.granted("hung", ttl)
		holds := []driver.Hold{hung, c.granted("a", ttl), c.granted("b", ttl)}
		answer := c.strategy.(*session.ForUpdate).Occupy(hung) // as a statement without an answer
		for range 2 {
			best(t, "renewed after", session.Heartbeats(ttl)+time.Second, func() time.Duration {
				start := time.Now()
				results := c.renew(holds...)
				took := time.Since(start)
				c.wants("renew the hung one", results[0].Status, driver.Unknown)
				for _, r := range results[1:] {
					if r.Status == driver.Unknown { // so slow is the machine
						return time.Hour
					}
					c.wants("renew", r.Status, driver.Alive)
				}
				return took
			})
		}
		answer()
		eventually(t, "the hold is alive", func() bool { return c.renew(hung)[0].Status == driver.Alive })
		for _, r := range c.release(holds...) {
			c.wants("release", r.Status, driver.Released)
		}
	})
}

// The lease is good until the earlier of heartbeat and lease row: when the lease
// row cannot be written, a living session does not extend it.
func TestForUpdateLeaseRowIsNotRenewed(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		const ttl = 5 * time.Second
		h := c.granted("a", ttl)
		tx, err := l.db.Begin()
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		var token uint64
		must(t, tx.QueryRow("SELECT token FROM rowlock_session WHERE name='a' FOR UPDATE").Scan(&token))
		last := ttl
		for end := time.Now().Add(testserver.Patience(t)); ; time.Sleep(100 * time.Millisecond) {
			r := c.renew(h)[0]
			if r.Status == driver.Unknown && !errors.Is(r.Err, session.ErrUnanswered) {
				break
			}
			if r.Status != driver.Unknown {
				c.wants("renew", r.Status, driver.Alive)
				if r.Left <= 0 || r.Left > last {
					t.Fatalf("left %v after %v", r.Left, last)
				}
				last = r.Left
			}
			if time.Now().After(end) {
				t.Fatal("renewed although the lease row was not")
			}
		}
		if last > ttl/2 {
			t.Fatalf("not renewed with %v left", last)
		}
		must(t, tx.Rollback())
		var left time.Duration
		eventually(t, "the lease row is renewed", func() bool {
			left = c.alive("renew", h).Left
			return left > ttl*2/3
		})
		c.wants("release", c.release(h)[0].Status, driver.Released)
	})
}

func TestForUpdateNoGoroutineIsLeft(t *testing.T) {
	l := newLab(t, testserver.MySQL, SelectForUpdate)
	before := runtime.NumGoroutine()
	for range 3 {
		s, err := Open(l.dsn(), Options{Strategy: SelectForUpdate})
		must(t, err)
		must(t, s.Migrate(patient(t)))
		c := client{t: t, Store: s}
		h := c.granted("a", time.Minute)
		c.renew(h)
		c.release(h)
		c.granted("left", time.Minute)
		must(t, s.Close())
	}
	eventually(t, "goroutines ended", func() bool { return runtime.NumGoroutine() <= before+2 })
}
