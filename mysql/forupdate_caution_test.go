package mysqllock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// lockRows locks the lease rows of n keys as a stranger's transaction would.
func lockRows(l *lab, c client, n int) (reqs []driver.Request, end func()) {
	l.t.Helper()
	for i := range n {
		reqs = append(reqs, request(fmt.Sprintf("blocked%03d", i), time.Minute))
	}
	for i, r := range c.acquire(reqs...) {
		c.wants(reqs[i].Key, r.Status, driver.Granted)
		c.release(driver.Hold{Key: reqs[i].Key, ID: reqs[i].ID, Token: r.Token, Stored: r.Stored, TTL: time.Minute})
		reqs[i].ID = newID()
	}
	tx, err := l.db.Begin()
	must(l.t, err)
	l.t.Cleanup(func() { _ = tx.Rollback() })
	for _, r := range reqs { // a list may be looked up by a scan, which locks every row and gap
		var name string
		must(l.t, tx.QueryRow(fmt.Sprintf("SELECT name FROM %s WHERE name=x'%x' FOR UPDATE", l.table(), r.Key)).Scan(&name))
	}
	return reqs, func() { l.t.Helper(); must(l.t, tx.Rollback()) }
}

// No more steps (3) wait for a stranger's row locks than there were connections before
// the first was known to: the others look.
func TestP15_BlockedRowsAreLookedAt(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		rec := &recorder{}
		c := client{t: t, Store: l.recorded(rec)}
		reqs, unlock := lockRows(l, c, 100)
		c.strategy.(*session.ForUpdate).LookFirstFor(time.Hour) // whatever was slow until now
		pinned := func() (waited int) {
			t.Helper()
			rec.take()
			for i, r := range c.acquire(reqs...) {
				c.wants(reqs[i].Key, r.Status, driver.Pinned)
			}
			for _, s := range rec.take() {
				if strings.HasPrefix(s, "UPDATE "+c.names.session) {
					waited++
				}
			}
			return waited
		}
		if waited, most := pinned(), c.db.Acquires.Max; waited == 0 || waited > most {
			t.Errorf("%d steps waited for the row locks, want 1 to %d", waited, most)
		}
		for i := range reqs {
			reqs[i].Pinned = true
		}
		if waited := pinned(); waited > 0 {
			t.Errorf("%d steps of keys that were said to be pinned waited for the row locks", waited)
		}
		unlock()
		for i, r := range c.acquire(reqs...) {
			c.wants(reqs[i].Key, r.Status, driver.Granted)
		}
	})
}

// A hundred keys said to be pinned use no more than the one connection for what may be
// slow: while it is not to be had other keys are taken, renewed and released.
func TestP15_BlockedRowsShareOneConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		f := c.strategy.(*session.ForUpdate)
		reqs, _ := lockRows(l, c, 100)
		for i := range reqs {
			reqs[i].Pinned = true
		}
		must(t, c.db.TakeSlow(t.Context()))
		answered := make(chan []driver.Result, 1)
		go func() {
			results, err := c.Acquire(patient(t), reqs)
			if err != nil {
				t.Error(err)
			}
			answered <- results
		}()
		eventually(t, "they look", f.Looks)
		for i := range 2 * session.MaxAttempts {
			h := c.granted(fmt.Sprint("other", i), time.Minute)
			c.wants("renew", c.renew(h)[0].Status, driver.Alive)
			c.wants("release", c.release(h)[0].Status, driver.Released)
		}
		select {
		case <-answered:
			t.Error("answered without the connection")
		default:
		}
		c.db.GiveSlow()
		for i, r := range <-answered {
			c.wants(reqs[i].Key, r.Status, driver.Pinned)
		}
	})
}
