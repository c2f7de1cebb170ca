package mysqllock

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
)

// What is told of an acquire whose statement was executed, and whose later step fails, or is late.

// TestP1_ClaimEndsBeforeItIsRead: a request that was passed the key comes again, and its claim ends before the row is read. It is no grant of a
// whole TTL.
func TestP1_ClaimEndsBeforeItIsRead(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		h := other.granted("k", time.Minute)
		q := stands("k")
		q.Claim = time.Second
		c.stand(q, 1, 1)
		other.wants("release", other.release(h)[0].Status, driver.Released) // passes it on, for a second
		var waited atomic.Bool
		rec.stop(func(s string) error {
			if strings.HasPrefix(s, "SELECT name,hold") && waited.CompareAndSwap(false, true) {
				for other.look(q).Mine {
					time.Sleep(20 * time.Millisecond)
				}
			}
			return nil
		})
		r := c.acquire(q)[0]
		rec.stop(nil)
		r2 := other.acquire(request("k", time.Minute))[0]
		if !waited.Load() {
			t.Fatal("the row was not read")
		}
		if r.Status == driver.Granted && r.Left == 0 && r2.Status == driver.Granted {
			locktest.Breach(t, "P1", "two holders: %+v, %+v", r, r2)
		}
	})
}

// lockAt locks the tables when a statement with that beginning is about to be sent.
func lockAt(t *testing.T, l *lab, rec *recorder, beginning string) (locked *atomic.Bool, end func()) {
	locked = new(atomic.Bool)
	conn, err := l.db.Conn(context.Background())
	must(t, err)
	share := map[Strategy]string{VersionColumn: "rowlock_share", UniqueInsert: "rowlock_share_unique"}[l.strategy]
	rec.stop(func(s string) error {
		if strings.HasPrefix(s, beginning) && locked.CompareAndSwap(false, true) {
			if _, err := conn.ExecContext(context.Background(), "LOCK TABLES "+l.table()+" WRITE, "+share+" WRITE"); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	return locked, func() {
		_, _ = conn.ExecContext(context.Background(), "UNLOCK TABLES")
		_ = conn.Close()
		rec.stop(nil)
	}
}

// leftBehind reports whether an answer to requests says that nothing of them was applied.
func leftBehind(results []driver.Result, err error) (notApplied bool) {
	notApplied = driver.IsNotApplied(err)
	for _, r := range results {
		notApplied = notApplied || driver.IsNotApplied(r.Err) || r.Err == nil && r.Status == driver.Pinned
	}
	return notApplied
}

// TestP6_TableLockAfterTheGrant: the key is granted, and a lock on the table keeps the read after it waiting. The answer does not say that
// nothing was done.
func TestP6_TableLockAfterTheGrant(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		c.granted("warm", time.Minute)
		begin, reqs := "SELECT name,hold", []driver.Request{request("a", time.Minute), request("b", time.Minute)}
		if l.strategy == UniqueInsert {
			begin, reqs = "SELECT GREATEST(token", []driver.Request{request("a", time.Minute)}
		}
		locked, end := lockAt(t, l, &rec, begin)
		res, err := c.Acquire(patient(t), reqs)
		end()
		for _, q := range reqs {
			if i := other.inspect(q.Key); !locked.Load() || i.Hold != q.ID || leftBehind(res, err) {
				t.Errorf("P6: locked %v: %+v, %v, and the key: %+v", locked.Load(), res, err, i)
			}
		}
	})
}

// TestP6_TableLockAfterTheJoin: the same of readers.
func TestP6_TableLockAfterTheJoin(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		c.grant(reader("a", time.Minute))
		c.grant(reader("b", time.Minute))
		reqs := []driver.Request{reader("a", time.Minute), reader("b", time.Minute)}
		locked, end := lockAt(t, l, &rec, "SELECT s.name,s.hold")
		res, err := c.Acquire(patient(t), reqs)
		end()
		for _, q := range reqs {
			if i := other.inspect(q.Key); !locked.Load() || i.Readers != 2 || leftBehind(res, err) {
				t.Errorf("P6: locked %v: %+v, %v, and the key: %+v", locked.Load(), res, err, i)
			}
		}
	})
}

// TestP6_TableLockAfterTheTake: a phase was taken, and a lock on the table keeps the read of the token waiting. The key is not told to be
// pinned.
func TestP6_TableLockAfterTheTake(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		if l.strategy != UniqueInsert {
			return // the others read no token after it
		}
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		c.release(c.grant(reader("a", time.Minute)))
		reqs := []driver.Request{request("a", time.Minute)}
		locked, unlock := lockAt(t, l, &rec, "SELECT GREATEST(token")
		end := func() {}
		go func() {
			for !locked.Load() {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(1500 * time.Millisecond)
			unlock()
		}()
		res, err := c.Acquire(patient(t), reqs)
		end()
		if i := other.inspect("a"); !locked.Load() || i.Hold != reqs[0].ID || leftBehind(res, err) {
			t.Errorf("P6: locked %v: %+v, %v, and the key: %+v", locked.Load(), res, err, i)
		}
	})
}

// standsUnsure asks for q, which is added to its line before a later step fails. The answer does not say that nothing was done.
func (c client) standsUnsure(q driver.Request, rec *recorder) {
	c.t.Helper()
	res, err := c.Acquire(patient(c.t), []driver.Request{q})
	rec.stop(nil)
	if v := c.look(q); v.Place == 0 || leftBehind(res, err) {
		c.t.Errorf("P29: %+v, %v, and it stands at %d of %d", res, err, v.Place, v.Standing)
	}
}

// TestP29_PlaceBeforeAFailedCheck: a request was added to the line of a pinned key, and the question after it fails.
func TestP29_PlaceBeforeAFailedCheck(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c := client{t: t, Store: l.recorded(&rec)}
		c.granted("k", time.Minute)
		end := l.guard("k")
		defer end()
		l.age("k", 2*time.Minute)
		q := stands("k")
		rec.stop(func(s string) error {
			if strings.HasPrefix(s, "SELECT 1 FROM") {
				return mysql.ErrInvalidConn
			}
			return nil
		})
		c.standsUnsure(q, &rec)
	})
}

// TestP29_PlaceBeforeAFailedPass: a request was added to the line, and the statement that passes the key on is refused.
func TestP29_PlaceBeforeAFailedPass(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.store()}
		c.granted("k", time.Minute)
		first := stands("k")
		other.stand(first, 1, 1)
		l.age("k", 2*time.Minute)
		q := stands("k")
		rec.stop(func(s string) error {
			if strings.Contains(s, " SET token=LAST_INSERT_ID(") {
				return &mysql.MySQLError{Number: 1290, Message: "read-only"}
			}
			return nil
		})
		c.standsUnsure(q, &rec)
	})
}

// TestP29_PlaceInABusyRow: a request that stands first is told so where a stranger locks the row of its key, which is free.
func TestP29_PlaceInABusyRow(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		c, other := client{t: t, Store: l.store()}, client{t: t, Store: l.store()}
		c.granted("k", time.Minute)
		q, second := stands("k"), stands("k")
		c.stand(q, 1, 1)
		other.stand(second, 2, 2)
		l.age("k", 2*time.Minute)
		tx, err := l.db.Begin()
		must(t, err)
		defer tx.Rollback()
		var name []byte
		must(t, tx.QueryRow("SELECT name FROM "+l.table()+" WHERE name='k' FOR UPDATE").Scan(&name))
		res, err := c.Acquire(patient(t), []driver.Request{q})
		if err != nil || res[0].Status != driver.Pinned || res[0].Place != 1 || res[0].Standing != 2 {
			t.Errorf("P29: %+v, %v: want pinned, place 1 of 2", res, err)
		}
	})
}
