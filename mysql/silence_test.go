package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// firewall is a switcher before the lab's server, which the lab's later stores use.
func (l *lab) firewall() *switcher {
	l.t.Helper()
	w := newSwitcher(l.t, l.config.Addr)
	l.config = l.config.Clone()
	l.config.Addr = w.listener.Addr().String()
	return w
}

// warm makes all connections for acquires and releases work at once, so that they
// are open, and leaves them at rest.
func warm(t *testing.T, s *Store) {
	t.Helper()
	for _, l := range []*conn.Pool{s.db.Acquires, s.db.Releases, s.db.Renewals, s.db.Control} {
		var all []*conn.Conn
		for range l.Max {
			c, err := l.Get(patient(t))
			must(t, err)
			all = append(all, c)
		}
		for _, c := range all {
			_, err := c.Exec(patient(t), 0, "DO 1")
			must(t, err)
			c.Put()
		}
	}
}

// deadIdle lets all connections that are open now die without a word. A lease lives
// on for some renewals, and a free key can be had before a TTL is over.
func deadIdle(t *testing.T, w *switcher, p program, lease *rowlock.Lease, ttl time.Duration, more uint64) (err error) {
	t.Helper()
	dead, renewals, start := w.deaden(), p.Stats().Renewals, time.Now()
	if more == 0 { // one that is asked for
		renewed := make(chan error, 1)
		go func() { renewed <- lease.Renew(within(t, ttl)) }()
		defer func() { err = errors.Join(err, <-renewed, lease.Release(patient(t))) }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	free, err := p.TryAcquire(ctx, "free"+ttl.String())
	if err != nil {
		return fmt.Errorf("TryAcquire of a free key, %d idle connections being dead, failed after %v: %w", dead, time.Since(start), err)
	}
	t.Logf("a free key, %d idle connections being dead: %v", dead, time.Since(start))
	must(t, free.Release(patient(t)))
	for p.Stats().Renewals < renewals+more {
		select {
		case <-lease.Done():
			return fmt.Errorf("lost after %v: %w", time.Since(start), lease.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return lease.Err()
}

// All idle connections of a Store die without a word. The server is well, and so are
// new connections: no lease is lost, and a free key can be had long before a TTL is over.
func TestP26_DeadIdleConnections(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		for ttl, more := range map[time.Duration]uint64{6 * time.Second: 2, 30 * time.Second: 0} {
			t.Run(fmt.Sprint(ttl), func(t *testing.T) {
				t.Parallel()
				l := *l
				l.t = t
				busy := premise(t, &l)
				w := l.firewall()
				s := l.bare()
				p := l.programOn(t, s, rowlock.Options{TTL: ttl})
				lease := p.lock(t, "held"+ttl.String())
				warm(t, s)
				p26(t, deadIdle(t, w, p, lease, ttl, more), ttl, busy())
			})
		}
	})
}

// The same on a pool of the program's, where the Store's next connections are dead too.
func TestP26_DeadIdleConnectionsOfASharedPool(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		busy := premise(t, l)
		w := l.firewall()
		const most, idle, ttl = 20, 16, 30 * time.Second
		pool := l.open(l.config)
		pool.SetMaxOpenConns(most)
		pool.SetMaxIdleConns(most)
		s, err := New(pool, Options{Strategy: l.strategy, Connections: minConnections})
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		p := l.programOn(t, s, rowlock.Options{TTL: ttl})
		lease := p.lock(t, "held")
		var others []*sql.Conn
		for len(others) < idle {
			c, err := pool.Conn(patient(t))
			must(t, err)
			others = append(others, c)
		}
		for _, c := range others {
			must(t, c.Close())
		}
		if n := pool.Stats().Idle; n < idle {
			t.Fatalf("%d connections are idle", n)
		}
		p26(t, deadIdle(t, w, p, lease, ttl, 0), ttl, busy())
	})
}

// Each step of the Store gets over a dead connection by itself, or says that it was silent.
func TestP26_EachStepOnADeadConnection(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		w := l.firewall()
		s := l.bare()
		c := client{t: t, Store: s}
		held, q := c.granted("held", time.Minute), request("k", time.Minute)
		one := func(want driver.Status, results []driver.Result, err error) error {
			if err == nil && results[0].Status != want {
				err = fmt.Errorf("%v: %w", results[0].Status, results[0].Err)
			}
			return err
		}
		for _, step := range []struct {
			what string
			do   func(context.Context) error
		}{
			{"acquire", func(ctx context.Context) error {
				q = request("k", time.Minute) // the one before did not arrive
				r, err := s.Acquire(ctx, []driver.Request{q})
				return one(driver.Granted, r, err)
			}},
			{"renew", func(ctx context.Context) error {
				r, err := s.Renew(ctx, []driver.Hold{held})
				if driver.IsSilent(err) {
					t.Errorf("P26: a renewal is not repeated: %v", err)
				}
				return one(driver.Alive, r, err)
			}},
			{"inspect", func(ctx context.Context) error {
				_, err := s.Inspect(ctx, []string{"k"})
				if driver.IsSilent(err) {
					t.Errorf("P26: a question is not repeated: %v", err)
				}
				return err
			}},
			{"release", func(ctx context.Context) error {
				r, err := s.Release(ctx, []driver.Hold{held})
				return one(driver.Released, r, err)
			}},
			{"undo", func(ctx context.Context) error {
				r, err := s.Release(ctx, []driver.Hold{{Key: q.Key, ID: q.ID, Undo: true}})
				return one(driver.Released, r, err)
			}},
		} {
			warm(t, s)
			w.deaden()
			ctx := patient(t)
			start := time.Now()
			err := step.do(ctx)
			for driver.IsSilent(err) && errors.Is(err, conn.ErrSilent) {
				err = step.do(ctx)
			}
			if err != nil {
				t.Errorf("P26: %s, after %v: %v", step.what, time.Since(start), err)
			}
			t.Logf("%s on a dead connection: %v", step.what, time.Since(start))
		}
	})
}

// InTx begins on a connection that rested and died without a word. The caller's context has no end.
func TestTransactionOnADeadConnection(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, kind, VersionColumn)
			l.store()
			w := l.firewall()
			s := l.bare()
			p := l.programOn(t, s, rowlock.Options{TTL: time.Minute})
			lease := p.lock(t, "key")
			nothing := func(context.Context, *sql.Tx) error { return nil }
			must(t, s.InTx(patient(t), lease, nothing))
			conn.Sleep(t.Context(), conn.SilentFor*3/2)
			start, dead := time.Now(), w.deaden()
			err := make(chan error, 1)
			go func() { err <- s.InTx(context.Background(), lease, nothing) }()
			select {
			case err := <-err:
				must(t, err)
				t.Logf("%d connections being dead: %v", dead, time.Since(start))
			case <-time.After(time.Minute):
				t.Error("InTx waits for a connection that is dead, and the lease that it would wait for is renewed for ever")
				must(t, s.Close())
			}
		})
	}
}

// A statement that the server is at work on is waited for, however long it takes.
func TestSlowIsNotSilent(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, kind, VersionColumn)
			s := l.store()
			c, err := s.db.Acquires.Get(patient(t))
			must(t, err)
			defer c.Put()
			before := s.Statements()
			_, err = c.Exec(patient(t), 0, "DO SLEEP(4)")
			must(t, err)
			if c.Broken {
				t.Error("the connection was given up")
			}
			if s.Statements() < before+2 {
				t.Error("the server was not asked about it")
			}
		})
	}
}

// A server that answers on no connection is waited for.
func TestASilentServerIsNotADeadConnection(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind)
			l := newLabAt(t, kind, server.DSN(), VersionColumn)
			s := l.store()
			c := client{t: t, Store: s}
			c.granted("a", time.Minute)
			before := s.Statements()
			server.Pause()
			done := make(chan error, 1)
			go func() {
				r, err := s.Acquire(patient(t), []driver.Request{request("b", time.Minute)})
				if err == nil && r[0].Status != driver.Granted {
					err = fmt.Errorf("%v: %w", r[0].Status, r[0].Err)
				}
				done <- err
			}()
			select {
			case err := <-done:
				server.Resume()
				t.Fatalf("after %d statements: %v", s.Statements()-before, err)
			case <-time.After(2*conn.SilentFor + conn.AskWait):
			}
			server.Resume()
			must(t, <-done)
		})
	}
}
