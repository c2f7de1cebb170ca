package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/getlock"
)

// TestTurnsDecideNothing: the holder's session is ended, so that another's turn comes
// although the key is held: nobody gets the key, and nobody hurries.
func TestTurnsDecideNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, stores := waiters(t, l, 3, 2)
		lease := contended(t, clients, stores)
		others := []<-chan *rowlock.Lease{begin(t, clients[0], "k"), begin(t, clients[2], "k")}
		inLine(t, l, 1)
		turns, _ := turnsOf(stores[1])
		turns[0].Use(func(c *conn.Conn) { exec(t, l.db, fmt.Sprint("KILL ", c.ID)) })
		inLine(t, l, 0)
		before, start := stores[0].Statements()+stores[2].Statements(), time.Now()
		time.Sleep(2 * time.Second)
		n, most := stores[0].Statements()+stores[2].Statements()-before, 75*uint64(time.Since(start)/time.Second)
		if n > most {
			t.Errorf("%d statements after the end of the holder's session, want at most %d", n, most)
		}
		for _, got := range others {
			select {
			case <-got:
				t.Fatal("P1: granted while the key is held")
			default:
			}
		}
		must(t, lease.Err())
		must(t, lease.Release(t.Context()))
		must(t, later(others...).Release(t.Context()))
		must(t, later(others...).Release(t.Context()))
		for _, s := range stores {
			eventually(t, "no turn is left", func() bool { return hasTurns(s, 0) })
		}
	})
}

// passes sees that a waiter gets the key after its release.
func passes(t *testing.T, lease *rowlock.Lease, got <-chan *rowlock.Lease) {
	t.Helper()
	must(t, lease.Release(t.Context()))
	if lease = <-got; lease != nil {
		must(t, lease.Release(t.Context()))
	}
}

// TestTurnsSessionKilled: sessions that stand in line are ended; their waiters probe.
func TestTurnsSessionKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, stores := waiters(t, l, 2, 2)
		lease := contended(t, clients, stores)
		got := begin(t, clients[0], "k")
		inLine(t, l, 1)
		for _, id := range l.lines(t) {
			exec(t, l.db, fmt.Sprint("KILL ", id))
		}
		eventually(t, "no named locks for a while", func() bool {
			turn, err := stores[0].WaitTurn(patient(t), "another")
			if err == nil {
				turn()
			}
			return errors.Is(err, driver.ErrNoPlace)
		})
		passes(t, lease, got)
	})
}

// TestTurnsGiveUp: a waiter that gives up leaves the line, and its session is used again; a
// waiter that comes meanwhile is not kept.
func TestTurnsGiveUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, stores := waiters(t, l, 3, 1)
		lease := contended(t, clients, stores)
		session, fastest := 0, time.Hour
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			gave := make(chan error)
			go func() { _, err := clients[0].Acquire(ctx, "k"); gave <- err }()
			inLine(t, l, 1)
			id := l.lines(t)[0]
			cancel()
			if err := <-gave; !errors.Is(err, rowlock.ErrHeld) || !errors.Is(err, context.Canceled) {
				t.Fatalf("gave up with %v", err)
			}
			start := time.Now()
			eventually(t, "the session rests", func() bool { return rests(stores[0], 1) })
			fastest = min(fastest, time.Since(start))
			if session == 0 {
				session = id
			}
			if id != session {
				t.Errorf("session %d, want that of the waiter before, %d", id, session)
			}
		}
		if fastest > getlock.WaitSeconds*time.Second/2 {
			t.Errorf("each stood in line for %v and longer after it gave up", fastest)
		}
		got := begin(t, clients[2], "k")
		inLine(t, l, 1)
		passes(t, lease, got)
	})
}

// TestTurnsGiveUpAtOnce: who gives up at the moment at which it begins to stand in line leaves
// it too. The server may not show the statement yet when it is to be ended.
func TestTurnsGiveUpAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		_, stores := waiters(t, l, 2, 1)
		turn, err := stores[0].WaitTurn(patient(t), "k")
		must(t, err)
		defer turn()
		other, err := stores[1].WaitTurn(patient(t), "another") // opens the session
		must(t, err)
		other()
		for i := range 40 {
			eventually(t, "the session rests", func() bool { return rests(stores[1], 1) })
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*50*time.Microsecond, cancel)
			start := time.Now()
			if _, err := stores[1].WaitTurn(ctx, "k"); !errors.Is(err, context.Canceled) {
				t.Fatalf("gave up with %v", err)
			}
			if took := time.Since(start); took > getlock.WaitSeconds*time.Second/2 {
				t.Errorf("left the line after %v", took)
			}
		}
	})
}

// TestTurnsForceRelease: a key is freed by force. The next waiter finds it by looking, and
// the former holder's turn ends as soon as that learns of it.
func TestTurnsForceRelease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, stores := waiters(t, l, 2, 2)
		lease := contended(t, clients, stores)
		got := begin(t, clients[0], "k")
		inLine(t, l, 1)
		_, err := stores[0].ForceRelease(t.Context(), "k")
		must(t, err)
		next := <-got
		if err := lease.Renew(t.Context()); !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("renew: %v", err)
		}
		eventually(t, "the turn has ended", func() bool { return hasTurns(stores[1], 0) })
		must(t, next.Release(t.Context()))
	})
}

// TestTurnsOfAForgottenLease: a lease that is neither renewed nor released keeps its turn
// until it ends, and no longer.
func TestTurnsOfAForgottenLease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, stores := waiters(t, l, 2, 1)
		lease := contended(t, clients, stores, rowlock.NoRenew(), rowlock.TTL(time.Second))
		got := begin(t, clients[0], "k")
		inLine(t, l, 1)
		if err := lease.Err(); err == nil && !hasTurns(stores[1], 1) {
			t.Error("the turn ended before the lease")
		}
		next := <-got
		if next == nil {
			return
		}
		if !errors.Is(lease.Err(), rowlock.ErrLost) {
			t.Errorf("P2: granted to another while the lease is %v", lease.Err())
		}
		eventually(t, "the turn has ended", func() bool { return hasTurns(stores[1], 0) })
		must(t, next.Release(t.Context()))
	})
}

// TestTurnIsHeardOf: the server ends a session that is silent for long, and the turn with it;
// so the session of a turn that lasts is heard of, with one timer for each turn.
func TestTurnIsHeardOf(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		for every, want := range map[time.Duration]bool{200 * time.Millisecond: true, time.Hour: false} {
			_, stores := waiters(t, l, 1, 1)
			s := stores[0]
			s.locks.KeepAlive = every
			turn := func() (*getlock.Turn, func()) {
				given, err := s.WaitTurn(ctx, "k")
				must(t, err)
				turns, _ := turnsOf(s)
				return turns[0], given
			}
			for range 3 { // each leaves its timer
				session, end := turn()
				heard := func() (at time.Time) { session.Use(func(c *conn.Conn) { at = c.Heard }); return at }
				began := heard()
				eventually(t, "the session of the turn is heard of", func() bool { return !want || heard().After(began) })
				end()
				eventually(t, "the turn has ended", func() bool { return rests(s, 1) })
			}
			session, end := turn()
			session.Use(func(c *conn.Conn) {
				_, err := c.Exec(ctx, 0, "SET SESSION wait_timeout=3")
				must(t, err)
			})
			const long = 5 * time.Second
			before, start := s.Statements(), time.Now()
			time.Sleep(long)
			if got := l.used(t, "k"); got != want {
				t.Errorf("heard of every %v: the turn lasts: %v, want %v", every, got, want)
			}
			if n, most := s.Statements()-before, uint64(time.Since(start)/every)+1; n > most {
				t.Errorf("heard of every %v: %d statements in %v, want at most %d", every, n, long, most)
			}
			end()
			eventually(t, "the turn has ended", func() bool { return hasTurns(s, 0) && !l.used(t, "k") })
			eventually(t, "nothing is heard of after the end of the turn", func() bool {
				before = s.Statements()
				time.Sleep(time.Second)
				return s.Statements() == before
			})
		}
	})
}

// TestTurnsAfterASwitch: the address leads to another server since. Sessions of the former are
// not used again: there nobody stands in line.
func TestTurnsAfterASwitch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		_, stores := waiters(t, l, 1, 2)
		s := stores[0]
		turn := func(key string) func() {
			t.Helper()
			given, err := s.WaitTurn(patient(t), key)
			must(t, err)
			return given
		}
		before, after := turn("before"), turn("after")
		before()
		eventually(t, "a session rests", func() bool { return rests(s, 1) })
		s.db.Moved()
		if !rests(s, 0) {
			t.Error("a session of the former server rests")
		}
		after()
		eventually(t, "the turn has ended", func() bool { return hasTurns(s, 0) && !l.used(t, "after") })
		turn("since")()
		eventually(t, "a session rests", func() bool { return rests(s, 1) })
		if n := s.locks.Sessions; n.Open() != 1 {
			t.Errorf("%d sessions, want the new one", n.Open())
		}
	})
}

// TestTurnsClose: a store is closed with waiters in line and a turn held.
func TestTurnsClose(t *testing.T) {
	l := newLab(t, testserver.MySQL, VersionColumn)
	before, fastest := runtime.NumGoroutine(), time.Hour
	for range 3 {
		clients, stores := waiters(t, l, 3, 2)
		contended(t, clients, stores)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, c := range []*rowlock.Client{clients[0], clients[2]} {
			wg.Go(func() {
				if _, err := c.Acquire(ctx, "k"); err == nil {
					t.Error("granted")
				}
			})
		}
		inLine(t, l, 1)
		start := time.Now()
		must(t, clients[0].Close(ctx)) // ends its waiter
		for _, s := range stores {     // before their clients: that is not nice
			must(t, s.Close())
		}
		fastest = min(fastest, time.Since(start))
		inLine(t, l, 0)
		eventually(t, "no named lock is left", func() bool { return !l.used(t, "k") })
		cancel()
		wg.Wait()
		for _, c := range clients {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = c.Close(ctx)
			cancel()
		}
		exec(t, l.db, "DELETE FROM rowlock_version")
	}
	if fastest > getlock.WaitSeconds*time.Second/2 {
		t.Errorf("none was closed sooner than in %v", fastest)
	}
	eventually(t, "goroutines ended", func() bool { return runtime.NumGoroutine() <= before+2 })
}
