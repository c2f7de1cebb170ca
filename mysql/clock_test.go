package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// TestP1_OnlyTheServersClock: whatever this machine's clock says, a hold lasts for its
// TTL by the server's. Here the server's clock stands still, long ago or far ahead.
func TestP1_OnlyTheServersClock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		for name, at := range map[string]int{"long ago": 1_000_000_000, "far ahead": 2_100_000_000} {
			t.Run(name, func(t *testing.T) {
				l := *l
				l.t = t
				then := func(seconds int) client {
					return client{t: t, Store: storeAt(t, l.config, l.options(), int64(at+seconds))}
				}
				c := then(0)
				h := c.granted(name, time.Minute)
				r := then(59).acquire(request(name, time.Minute))[0]
				c.wants("P1: an acquire within the TTL", r.Status, driver.Held)
				h.TTL = time.Hour
				c.wants("renew", c.renew(h)[0].Status, driver.Alive)
				if left := then(0).inspect(name).Left; left <= 59*time.Minute || left > time.Hour {
					t.Errorf("P1: %v left after a renewal by an hour", left)
				}
				r = then(3599).acquire(request(name, time.Minute))[0]
				c.wants("P1: an acquire within the renewed hour", r.Status, driver.Held)
				r = then(3601).acquire(request(name, time.Minute))[0]
				c.wants("an acquire after it", r.Status, driver.Granted)
			})
		}
	})
}

// TestP3_TokenOfAGrantThatWaited: a statement reads the clock when it starts. An acquire
// that started before another hold was granted, and waited until that was over, gets
// the larger token all the same.
func TestP3_TokenOfAGrantThatWaited(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.db.Usual.Store(int64(time.Second)) // the acquire may wait for as long as one ever does
		granted := 0
		for round, end := 0, time.Now().Add(testserver.Patience(t)); round < 10 || granted == 0 && time.Now().Before(end); round++ {
			key := fmt.Sprint("key", round)
			tx, err := l.db.Begin()
			must(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec(fmt.Sprintf("INSERT INTO %s (name,hold,owner,token,acquired_at,expires_at) VALUES ('%s',x'%032x','',1,%[4]s,%[4]s+INTERVAL 1 HOUR)", l.table(), key, round+1, row.Now))
			must(t, err)
			result := make(chan driver.Result)
			go func() {
				results, err := c.Acquire(patient(t), []driver.Request{request(key, time.Minute)})
				if err != nil {
					results = []driver.Result{{Err: err}}
				}
				result <- results[0]
			}()
			time.Sleep(30 * time.Millisecond) // it waits for the row
			var last int64
			must(t, tx.QueryRow("SELECT "+row.NewToken).Scan(&last))
			if l.strategy == UniqueInsert {
				_, err = tx.Exec(fmt.Sprintf("DELETE FROM %s WHERE name='%s'", l.table(), key))
			} else {
				_, err = tx.Exec(fmt.Sprintf("UPDATE %s SET token=%d,expires_at=%s,released_at=%s WHERE name='%s'", l.table(), last, row.Epoch, row.Now, key))
			}
			must(t, err)
			must(t, tx.Commit())
			r := <-result
			if r.Status != driver.Granted {
				t.Logf("%v: is the machine so slow that the wait was ended? %v", r.Status, r.Err)
				continue
			}
			granted++
			if r.Token <= last {
				locktest.Breach(t, "P3", "token %d after %d, round %d", r.Token, last, round)
				t.FailNow()
			}
		}
		if granted == 0 {
			t.Error("no acquire was granted")
		}
	})
}
