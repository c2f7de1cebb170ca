package mysqllock

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestLine_StandsBesideTurns: a reader or slot that is refused stands, though the key goes from hold to hold before each of its statements.
func TestLine_StandsBesideTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, writer := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		for _, q := range []driver.Request{readerStands("reader"), slotStands("slot", 2)} {
			held := request(q.Key, time.Minute)
			writer.grant(held)
			turns, going := 0, true
			var mu sync.Mutex // a statement of another connection may come at the same time
			rec.stop(func(string) error {
				mu.Lock()
				defer mu.Unlock()
				for range 2 {
					if !going { // somebody stands, so that the key is not to be had
						return nil
					}
					released, err := writer.Release(patient(t), []driver.Hold{holdOf(held)})
					held = request(q.Key, time.Minute)
					acquired, again := writer.Acquire(patient(t), []driver.Request{held})
					going = err == nil && again == nil && released[0].Status == driver.Released && acquired[0].Status == driver.Granted
					turns++
				}
				return nil
			})
			r := c.acquire(q)[0]
			rec.stop(nil)
			mu.Lock()
			going = false
			mu.Unlock()
			if r.Status != driver.Granted && (r.Status != driver.Held || r.Place != 1) {
				t.Errorf("%s: %v at place %d after %d turns of others, want that it stands", q.Key, r.Status, r.Place, turns)
			}
			if turns < 2 {
				t.Errorf("%s: %d turns", q.Key, turns)
			}
		}
	})
}

// TestLine_StandsAfterALock: a request that somebody's lock keeps waiting stands all the same when that is gone, though the key is held.
func TestLine_StandsAfterALock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, holder := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		holder.granted("k", time.Minute)
		c.stand(stands("k"), 1, 1) // its connections are open
		tx, err := l.db.Begin()
		must(t, err)
		var name []byte
		must(t, tx.QueryRow(fmt.Sprintf("SELECT name FROM %s WHERE name=x'%x' FOR UPDATE", l.table(), "k")).Scan(&name))
		t.Cleanup(func() { _ = tx.Rollback() })
		var looked atomic.Bool
		rec.stop(func(s string) error {
			if strings.HasPrefix(s, "SELECT name,hold") {
				looked.Store(true)
				_ = tx.Rollback()
			}
			return nil
		})
		q := stands("k")
		c.stand(q, 2, 2)
		rec.stop(nil)
		if !looked.Load() {
			t.Error("the lock was not in its way")
		}
	})
}

// TestLine_PassedMeanwhile: who is passed the key at the end of a phase, while it asks for it, is told so.
func TestLine_PassedMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		h := other.grant(reader("k", time.Minute))
		q := stands("k")
		c.stand(q, 1, 1)
		other.wants("release", other.release(h)[0].Status, driver.Released)
		var passed atomic.Bool
		rec.stop(func(s string) error {
			if strings.Contains(s, " SET token=LAST_INSERT_ID(") && passed.CompareAndSwap(false, true) { // the statement that takes it
				if _, err := other.Acquire(patient(t), []driver.Request{request("k", time.Minute)}); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		r := c.acquire(q)[0]
		rec.stop(nil)
		if !passed.Load() {
			t.Fatal("nothing was passed meanwhile")
		}
		if r.Status != driver.Granted || r.Left <= 0 || r.Left > claims {
			t.Errorf("%+v, want the hold that it was passed", r)
		}
		c.wants("release", c.release(c.mine(q))[0].Status, driver.Released)
	})
}
