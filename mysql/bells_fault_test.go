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
)

// TestBellsOnlyWake: the holder's session is ended, so that its bell rings although
// the key is held: nobody gets the key, and nobody hurries.
func TestBellsOnlyWake(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		clients, stores := ringers(t, l, 3, 2)
		lease := contended(t, clients, stores)
		others := []<-chan *rowlock.Lease{begin(t, clients[0], "k"), begin(t, clients[2], "k")}
		inLine(t, l, 2)
		exec(t, l.db, fmt.Sprint("KILL ", carrier(stores[1]).c.id))
		before := stores[0].Statements() + stores[2].Statements()
		time.Sleep(2 * time.Second)
		if n := stores[0].Statements() + stores[2].Statements() - before; n > 80 {
			t.Errorf("%d statements in 2 s after the alarm", n)
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
	})
}

// passes is how long after its release a waiter gets the key.
func passes(t *testing.T, lease *rowlock.Lease, got <-chan *rowlock.Lease) time.Duration {
	t.Helper()
	start := time.Now()
	must(t, lease.Release(t.Context()))
	lease = <-got
	took := time.Since(start)
	must(t, lease.Release(t.Context()))
	return took
}

// TestBellsSessionKilled: sessions that stand in line are ended; their waiters probe.
func TestBellsSessionKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		best(t, "granted after a release", time.Second, func() time.Duration {
			clients, stores := ringers(t, l, 2, 2)
			lease := contended(t, clients, stores)
			got := begin(t, clients[0], "k")
			inLine(t, l, 1)
			for _, id := range l.lines(t) {
				exec(t, l.db, fmt.Sprint("KILL ", id))
			}
			eventually(t, "no bell for a while", func() bool {
				b := stores[0].keep.(*leases).bells
				b.mu.Lock()
				defer b.mu.Unlock()
				return time.Now().Before(b.rest)
			})
			return passes(t, lease, got)
		})
	})
}

// TestBellsGiveUp: a waiter that gives up leaves the line, and its session is used
// again; a waiter that comes meanwhile is not kept.
func TestBellsGiveUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		best(t, "granted after a release", time.Second, func() time.Duration {
			clients, stores := ringers(t, l, 3, 1)
			lease := contended(t, clients, stores)
			best(t, "the line is left after", 500*time.Millisecond, func() time.Duration {
				least := patience
				for range 10 {
					ctx, cancel := context.WithCancel(t.Context())
					gave := make(chan error)
					go func() { _, err := clients[0].Acquire(ctx, "k"); gave <- err }()
					inLine(t, l, 1)
					cancel()
					if err := <-gave; !errors.Is(err, rowlock.ErrHeld) || !errors.Is(err, context.Canceled) {
						t.Fatalf("gave up with %v", err)
					}
					start := time.Now()
					eventually(t, "the session rests", func() bool { return resting(stores[0]) == 1 })
					least = min(least, time.Since(start))
				}
				return least
			})
			got := begin(t, clients[2], "k")
			inLine(t, l, 1)
			return passes(t, lease, got)
		})
	})
}

// TestBellsOfALostLease: a key is freed by force. The next waiter finds it by
// looking, and the former holder's bell is free as soon as that learns of it.
func TestBellsOfALostLease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		best(t, "granted after the force", 4*time.Second, func() time.Duration {
			clients, stores := ringers(t, l, 2, 2)
			lease := contended(t, clients, stores)
			got := begin(t, clients[0], "k")
			inLine(t, l, 1)
			start := time.Now()
			_, err := stores[0].ForceRelease(t.Context(), "k")
			must(t, err)
			next := <-got
			took := time.Since(start)
			if err := lease.Renew(t.Context()); !errors.Is(err, rowlock.ErrLost) {
				t.Errorf("renew: %v", err)
			}
			eventually(t, "the bell is let go", func() bool { return carrier(stores[1]) == nil })
			must(t, next.Release(t.Context()))
			return took
		})
	})
}

// TestBellsClose: a store is closed with waiters in line and a bell held.
func TestBellsClose(t *testing.T) {
	l := newLab(t, testserver.MySQL, VersionColumn)
	before := runtime.NumGoroutine()
	closing := func() time.Duration {
		clients, stores := ringers(t, l, 3, 2)
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
		inLine(t, l, 2)
		start := time.Now()
		must(t, clients[0].Close(ctx)) // ends its waiter
		for _, s := range stores {     // before their clients: that is not nice
			must(t, s.Close())
		}
		took := time.Since(start)
		inLine(t, l, 0)
		cancel()
		wg.Wait()
		for _, c := range clients {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = c.Close(ctx)
			cancel()
		}
		exec(t, l.db, "DELETE FROM rowlock_version")
		return took
	}
	for range 3 {
		best(t, "closed after", 2*time.Second, closing)
	}
	eventually(t, "goroutines ended", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// TestBellsLeftBehind: a hold that its client neither renews nor releases any more
// keeps no session from the waiters, and the session of one that is renewed is not
// silent for so long that the server would end it.
func TestBellsLeftBehind(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.bells = 1
		c := client{t: t, Store: l.store()}
		b := c.keep.(*leases).bells
		q := request("k", time.Minute)
		r, err := c.AcquireWait(t.Context(), q, func() {})
		must(t, err)
		c.wants("acquire", r.Status, driver.Granted)
		h := driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL}
		e := carrier(c.Store)
		heard := func() time.Time { e.mu.Lock(); defer e.mu.Unlock(); return e.c.heard }
		for _, quiet := range []time.Duration{bellQuiet / 2, bellQuiet} {
			e.mu.Lock()
			e.c.heard = time.Now().Add(-quiet)
			e.mu.Unlock()
			c.wants("renew", c.renew(h)[0].Status, driver.Alive)
			if quiet == bellQuiet {
				eventually(t, "it was heard of", func() bool { return time.Since(heard()) < quiet/2 })
			} else if time.Since(heard()) < quiet {
				t.Error("heard of without need")
			}
		}
		if _, err := c.AcquireWait(t.Context(), request("other", time.Minute), func() {}); !errors.Is(err, driver.ErrNoPlace) || !driver.IsNotApplied(err) {
			t.Errorf("one bell for two keys: %v", err)
		}
		b.mu.Lock()
		e.until = time.Now()
		b.mu.Unlock()
		eventually(t, "a place", func() bool {
			r, err := c.AcquireWait(t.Context(), request("other", time.Minute), func() {})
			return err == nil && r.Status == driver.Granted
		})
	})
}
