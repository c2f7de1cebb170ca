package mysqllock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// pin leaves a key whose hold has expired while a transaction of its holder is
// open.
func pin(l *lab, c client, key string) (h driver.Hold, unpin func()) {
	l.t.Helper()
	h = c.granted(key, time.Minute)
	unpin = l.guard(key)
	l.age(key, 2*time.Minute)
	return h, unpin
}

// lockRow locks the key's row as a stranger's transaction would.
func lockRow(l *lab, key string) (end func()) {
	l.t.Helper()
	tx, err := l.db.Begin()
	must(l.t, err)
	l.t.Cleanup(func() { _ = tx.Rollback() })
	var name string
	must(l.t, tx.QueryRow(fmt.Sprintf("SELECT name FROM %s WHERE name=x'%x' FOR UPDATE", l.table(), key)).Scan(&name))
	return func() { l.t.Helper(); must(l.t, tx.Rollback()) }
}

func TestPinned(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h, unpin := pin(l, c, "p")
		start := time.Now()
		c.wants("acquire", c.acquire(request("p", time.Minute))[0].Status, driver.Pinned)
		first := time.Since(start)
		if first < conn.Bounds[0] {
			t.Errorf("answered after %v: it did not wait at all", first)
		}
		q := request("p", time.Minute)
		q.Pinned = true
		c.wants("acquire that looks first", c.acquire(q)[0].Status, driver.Pinned)
		if info := c.inspect("p"); !info.Pinned || info.Held {
			t.Fatalf("inspect: %+v", info)
		}
		c.wants("the holder's renewal", c.renew(h)[0].Status, driver.Alive)
		if info := c.inspect("p"); info.Pinned || !info.Held {
			t.Fatalf("inspect: %+v", info)
		}
		l.age("p", 2*time.Minute)
		unpin()
		next := c.grant(q)
		if next.Token < h.Token+driver.TokenRange {
			t.Fatalf("token %d after %d", next.Token, h.Token)
		}
	})
}

// TestPinnedAmongMany: the others of the batch are granted in the same call.
func TestPinnedAmongMany(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for _, k := range []string{"k07", "k40"} {
			pin(l, c, k)
		}
		c.granted("k12", time.Minute)
		dead := c.granted("k13", time.Minute)
		l.age("k13", 2*time.Minute)
		var reqs []driver.Request
		for i := range 64 {
			reqs = append(reqs, request(fmt.Sprintf("k%02d", i), time.Minute))
		}
		start := time.Now()
		results := c.acquire(reqs...)
		t.Logf("%v", time.Since(start))
		for i, r := range results {
			want := driver.Granted
			switch reqs[i].Key {
			case "k07", "k40":
				want = driver.Pinned
			case "k12":
				want = driver.Held
			}
			c.wants(reqs[i].Key, r.Status, want)
			if reqs[i].Key == dead.Key && r.Token < dead.Token+driver.TokenRange {
				t.Fatalf("token %d after %d", r.Token, dead.Token)
			}
		}
	})
}

// TestPinnedDelaysNobody: while keys are pinned and waited for, other keys are
// acquired and renewed in time.
func TestPinnedDelaysNobody(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		var pinned []string
		for i := range 4 {
			k := fmt.Sprint("p", i)
			pin(l, c, k)
			pinned = append(pinned, k)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var wg sync.WaitGroup
		for i, k := range pinned {
			wg.Go(func() {
				q := request(k, time.Minute)
				for ctx.Err() == nil {
					r, err := c.Acquire(ctx, []driver.Request{q})
					if err == nil && r[0].Status != driver.Pinned && ctx.Err() == nil {
						t.Errorf("%s: %v %v", k, r[0].Status, r[0].Err)
					}
					q.ID, q.Pinned = newID(), i%2 == 0
				}
			})
		}
		var h driver.Hold
		n := 0
		best(t, "the slowest step of a free key", time.Second, func() (worst time.Duration) {
			for range 50 {
				start := time.Now()
				if n%2 == 0 {
					h = c.granted(fmt.Sprint("free", n), time.Minute)
				} else {
					c.wants("renew", c.renew(h)[0].Status, driver.Alive)
				}
				worst = max(worst, time.Since(start))
				n++
			}
			t.Logf("worst %v", worst)
			return worst
		})
		stop()
		wg.Wait()
	})
}

// TestBlockedRow: a stranger's transaction locks a row. It stops what is done to
// that key, and nothing else.
func TestBlockedRow(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		var holds []driver.Hold
		for i := range 20 {
			holds = append(holds, c.granted(fmt.Sprintf("k%02d", i), time.Minute))
		}
		unlock := lockRow(l, "k11")
		for i := range holds {
			holds[i].TTL = time.Hour
		}
		// check reports whether the others have the status that they should have. Of a
		// server that is slow nothing is known.
		check := func(what string, results []driver.Result, others driver.Status) bool {
			t.Helper()
			known := true
			for i, r := range results {
				if holds[i].Key != "k11" {
					if r.Status != driver.Unknown {
						c.wants(what+" "+holds[i].Key, r.Status, others)
					}
					known = known && r.Status == others
					continue
				}
				c.wants(what+" of the locked row", r.Status, driver.Unknown)
				if !driver.IsNotApplied(r.Err) || driver.IsLasting(r.Err) {
					t.Fatalf("%s of the locked row: %v", what, r.Err)
				}
			}
			return known
		}
		best(t, "a renewal of others than the locked row", 900*time.Millisecond, func() time.Duration {
			c.near()
			start := time.Now()
			if !check("renew", c.renew(holds...), driver.Alive) {
				return time.Hour
			}
			return time.Since(start)
		})
		c.calm()
		c.wants("renew it alone", c.renew(holds[11])[0].Status, driver.Unknown)
		c.wants("acquire, held", c.acquire(request("k11", time.Minute))[0].Status, driver.Held)
		if !c.inspect("k11").Held {
			t.Fatal("not held")
		}
		if !check("release", c.release(holds...), driver.Released) {
			t.Fatal("not all others are released")
		}
		unlock()
		c.wants("renew", c.renew(holds[11])[0].Status, driver.Alive)
		c.wants("release", c.release(holds[11])[0].Status, driver.Released)
		c.granted("k11", time.Minute)
	})
}

// TestInsertBehindAStranger: another transaction has inserted the key and is open.
func TestInsertBehindAStranger(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		tx, err := l.db.Begin()
		must(t, err)
		_, err = tx.Exec("INSERT INTO " + l.table() + " (name,hold,owner,token,acquired_at,expires_at) VALUES ('n',0,'',1,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6))")
		must(t, err)
		defer tx.Rollback() // or nobody could drop the database
		results, err := c.Store.Acquire(patient(t), []driver.Request{request("n", time.Minute)})
		must(t, err)
		c.wants("acquire", results[0].Status, driver.Unknown)
		must(t, tx.Rollback())
		c.granted("n", time.Minute)
	})
}

// TestReleaseInsideTheGuard: a holder that releases while its guarded transaction
// is open must not wait for it.
func TestReleaseInsideTheGuard(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("g", time.Minute)
		unpin := l.guard("g")
		h.Guarded = true
		c.wants("release", c.release(h)[0].Status, driver.Released)
		c.wants("acquire", c.acquire(request("g", time.Minute))[0].Status, driver.Pinned)
		unpin()
		next := c.granted("g", time.Minute)

		// A guard that the library was not told of: the release is not applied, says so
		// in time, and works afterwards.
		unpin = l.guard("g")
		r := c.release(next)[0]
		if l.strategy == UniqueInsert {
			c.wants("release", r.Status, driver.Unknown)
			unpin()
			r = c.release(next)[0]
		} else {
			unpin()
		}
		c.wants("release", r.Status, driver.Released)
	})
}

// TestForceReleaseOfABusyRow: somebody who is no guard keeps the row locked for longer
// than a guard is waited for, as the many clients of a hot key do together. A forced
// release goes on trying.
func TestForceReleaseOfABusyRow(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("f", time.Minute)
		if l.strategy == SelectForUpdate {
			c.release(h) // the row lock is not what is waited for
		}
		force := func() (locked time.Duration, err error) {
			unlock := l.lockRows("f")
			start := time.Now()
			forced := make(chan error, 1)
			go func() {
				_, err := c.ForceRelease(patient(t), "f")
				forced <- err
			}()
			conn.Sleep(t.Context(), 2*conn.LockWait)
			unlock()
			locked = time.Since(start)
			return locked, <-forced
		}
		locked, err := force()
		for err != nil && locked >= row.BusyPatience-2*conn.LockWait { // so slow is the machine
			locked, err = force()
		}
		if err != nil {
			t.Errorf("a forced release of a key whose row was locked for %v: %v", locked, err)
		}
	})
}

// TestForceReleaseBehindAGuard waits for the guarded transaction, and says so
// when that takes long.
func TestForceReleaseBehindAGuard(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("f", time.Minute)
		unpin := l.guard("f")
		_, err := c.ForceRelease(patient(t), "f")
		if err == nil || !strings.Contains(err.Error(), "open transaction") || !driver.IsNotApplied(err) || driver.IsLasting(err) {
			t.Fatalf("error %v", err)
		}
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)
		done := make(chan error, 1)
		go func() {
			_, err := c.ForceRelease(patient(t), "f")
			done <- err
		}()
		conn.Pause(context.Background(), 100*time.Millisecond)
		unpin()
		must(t, <-done)
		c.wants("renew", c.renew(h)[0].Status, driver.Forced)
	})
}

// TestWithoutKill: where KILL is refused the store looks before it leaps, and the
// server's own lock wait bounds what is left.
func TestWithoutKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		_, unpin := pin(l, c, "p")
		n := 0
		soon(t, "an acquire that looks first", conn.LockWait, func() {
			c.db.CannotKill.Store(true)
			n++
			got := c.acquire(request(fmt.Sprint("a", n), time.Minute), request("p", time.Minute), request(fmt.Sprint("z", n), time.Minute))
			c.wants("a", got[0].Status, driver.Granted)
			c.wants("p", got[1].Status, driver.Pinned)
			c.wants("z", got[2].Status, driver.Granted)
		})
		unpin()
		c.granted("p", time.Minute)
		h := c.granted("r", time.Minute)
		unlock := lockRow(l, "r")
		c.wants("renew", c.renew(h)[0].Status, driver.Unknown)
		unlock()
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)
	})
}

// TestKillComesLate fires KILL QUERY around the end of statements: an answer is
// never lost or wrong for it.
func TestKillComesLate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		ctx := patient(t)
		must(t, s.db.Step(ctx, s.db.Acquires, func(c *conn.Conn) error {
			var killed, answered int
			for i := range 300 {
				key := fmt.Sprint("k", i)
				q := request(key, time.Minute)
				_, err := c.Exec(ctx, time.Duration(1+i*10)*time.Microsecond, row.Upsert(s.strategy.(*share.Table).Name, []driver.Request{q, request(key+"b", time.Minute)}).Literal())
				rows, readErr := s.strategy.(*share.Table).Rows(ctx, c, 1, func(int) string { return key })
				if readErr != nil {
					return readErr
				}
				r, ok := rows[key]
				switch {
				case err == nil && ok && r.Mine(q.ID):
					answered++
				case err != nil && strings.Contains(err.Error(), conn.ErrBlocked.Error()) && !ok:
					killed++
				default:
					return fmt.Errorf("upsert %v, row %v %+v", err, ok, r)
				}
			}
			t.Logf("%d killed, %d answered", killed, answered)
			return nil
		}))
	})
}
