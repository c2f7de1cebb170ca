package mysqllock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// keepAlive takes n keys with a client c of its own; lost says how many of the leases
// have ended since.
func keepAlive(t testing.TB, s *Store, n int, key func(int) string, ttl time.Duration) (c *rowlock.Client, lost func() int) {
	t.Helper()
	c, err := rowlock.New(s, rowlock.Options{TTL: ttl})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testserver.Patience(t))
		defer cancel()
		_ = c.Close(ctx)
	})
	leases := make([]*rowlock.Lease, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { leases[i], errs[i] = c.Acquire(patient(t), key(i)) })
	}
	wg.Wait()
	for _, err := range errs {
		must(t, err)
	}
	return c, func() (lost int) {
		var first error
		for _, l := range leases {
			if err := l.Err(); err != nil {
				lost++
				if first == nil {
					first = err
				}
			}
		}
		if first != nil {
			t.Log("the first: ", first)
		}
		return lost
	}
}

// lockRows keeps the rows of the keys locked, as a stranger's transaction may, until
// the test is over or the returned function is called.
func (l *lab) lockRows(keys ...string) (end func()) {
	l.t.Helper()
	tx, err := l.db.Begin()
	must(l.t, err)
	l.t.Cleanup(func() { _ = tx.Rollback() })
	for _, k := range keys { // one by one: many at once are a scan, which locks all rows
		var name string
		must(l.t, tx.QueryRow(fmt.Sprintf("SELECT name FROM %s FORCE INDEX (PRIMARY) WHERE name=x'%x' FOR UPDATE", l.table(), k)).Scan(&name))
	}
	return func() { l.t.Helper(); must(l.t, tx.Rollback()) }
}

// TestP26_BlockedReleases: releases of keys whose rows a stranger has locked have
// all connections for releases at any time, and hundreds wait for them; the leases of
// other keys live.
func TestP26_BlockedReleases(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		c := client{t: t, Store: s}
		const ttl, stuck = 3 * time.Second, 300
		keys := make([]string, stuck)
		holds := make([]driver.Hold, stuck)
		reqs := make([]driver.Request, stuck)
		for i := range keys {
			keys[i] = fmt.Sprint("stuck", i)
			reqs[i] = request(keys[i], time.Minute)
		}
		for i, r := range c.acquire(reqs...) {
			holds[i] = driver.Hold{Key: keys[i], ID: reqs[i].ID, Token: r.Token, Stored: r.Stored, TTL: time.Minute, Guarded: true}
		}
		busy := premise(t, l)
		_, lost := keepAlive(t, s, 20, func(i int) string { return fmt.Sprint("kept", i) }, ttl)
		end := l.lockRows(keys...)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for _, h := range holds {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.Release(ctx, []driver.Hold{h})
				}
			})
		}
		conn.Sleep(ctx, 4*ttl)
		noneLost(t, lost(), 20, ttl, busy())
		cancel()
		wg.Wait()
		end()
	})
}
