package mysqllock

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// TestP8_LockedTable: nothing can be written to the lock tables for longer than a statement waits, as while a backup has
// them locked or a primary is about to be replaced. Not even what skips locked rows is answered. Who asks for a free key is
// told that the table is locked: neither of the lock wait, nor that somebody has the key, for a job would be skipped then.
func TestP8_LockedTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			c.granted(key, time.Millisecond)
		}
		held := c.granted("held", time.Minute)
		eventually(t, "the holds are over", func() bool { return !c.inspect("c").Held })
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		_, err = own.ExecContext(t.Context(), "LOCK TABLES "+l.table()+" READ, "+l.shares()+" READ")
		must(t, err)
		defer func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }()
		for _, hinted := range []bool{false, true} {
			reqs := []driver.Request{request("a", time.Minute), request("held", time.Minute), request("b", time.Minute), request("c", time.Minute)}
			for i := range reqs {
				reqs[i].Pinned = hinted
			}
			results, err := c.Acquire(patient(t), reqs)
			must(t, err)
			for i, r := range results {
				if reqs[i].Key == held.Key {
					c.wants("P8: "+reqs[i].Key, r.Status, driver.Held)
				} else {
					saysLocked(t, r)
				}
			}
			for _, one := range []driver.Request{request("b", time.Minute), reader("b", time.Minute)} {
				one.Pinned = hinted
				results, err = c.Acquire(patient(t), []driver.Request{one})
				must(t, err)
				saysLocked(t, results[0])
			}
		}
	})
}

// TestP8_RenewalInALockedTable: whose lease is not renewed because nothing can be written to the table is told so, and not of a lock
// wait.
func TestP8_RenewalInALockedTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		held := []driver.Hold{c.granted("a", time.Minute), c.granted("b", time.Minute)}
		shared := c.grant(reader("shared", time.Minute))
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		_, err = own.ExecContext(t.Context(), "LOCK TABLES "+l.table()+" READ, "+l.shares()+" READ")
		must(t, err)
		defer func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }()
		for _, holds := range [][]driver.Hold{held, held[:1], {shared}} {
			results, err := c.Renew(patient(t), holds)
			if err != nil {
				results = []driver.Result{{Err: err}}
			}
			for _, r := range results {
				saysLocked(t, r)
			}
		}
		_, err = own.ExecContext(t.Context(), "UNLOCK TABLES")
		must(t, err)
		results, err := c.Renew(patient(t), append(held, shared))
		must(t, err)
		for _, r := range results {
			c.wants("a renewal after it", r.Status, driver.Alive)
		}
	})
}

// TestP8_LockedTableOfSessions is the same for SelectForUpdate, whose question for the row is refused at once on one server and
// after a second on the other, as if somebody had the key. No key is held: its transaction would keep LOCK TABLES waiting.
func TestP8_LockedTableOfSessions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.release(c.granted("k", time.Minute))
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		defer func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }()
		for _, tables := range [][]string{{l.table(), l.table() + "_row", l.shares()}, {l.table()}, {l.table() + "_row"}} {
			_, err := own.ExecContext(patient(t), "LOCK TABLES "+strings.Join(tables, " READ, ")+" READ") // and unlocks those before
			must(t, err)
			rs := []driver.Request{request("k", time.Minute), request("without a row", time.Minute), reader("k", time.Minute), reader("without a row", time.Minute)}
			if tables[0] != l.table() {
				rs = rs[:2] // readers only read there
			}
			for _, r := range rs {
				results, err := c.Acquire(patient(t), []driver.Request{r})
				if err != nil {
					results = []driver.Result{{Err: err}}
				}
				t.Logf("%v %s, locked are %s: %+v", r.Mode, r.Key, tables, results[0])
				saysLocked(t, results[0])
			}
		}
	})
}

// A lock on the table that ends in the moment in which the Store asks for it was no holder of the key either.
func TestP8_TableLockThatEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.release(c.granted("k", time.Minute))
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		w := l.firewall()
		c.Store = l.bare()
		c.release(c.granted("k", time.Minute))
		_, err = own.ExecContext(patient(t), "LOCK TABLES "+l.table()+"_row READ")
		must(t, err)
		var unlock sync.Once
		w.shows(nil, func(sent []byte) {
			if bytes.Contains(sent, []byte("LIMIT 1 FOR UPDATE SKIP LOCKED")) { // the question
				unlock.Do(func() { _, err = own.ExecContext(patient(t), "UNLOCK TABLES") })
			}
		})
		q := request("k", time.Minute)
		results, failed := c.Acquire(patient(t), []driver.Request{q})
		if failed != nil {
			results = []driver.Result{{Err: failed}}
		}
		unlock.Do(func() { _, err = own.ExecContext(patient(t), "UNLOCK TABLES") })
		must(t, err)
		t.Logf("%+v", results[0])
		switch r := results[0]; {
		case r.Status == driver.Granted:
			c.release(driver.Hold{Key: q.Key, ID: q.ID})
		case r.Status != driver.Unknown || !driver.IsNotApplied(r.Err):
			t.Errorf("P8: nobody has the key: %+v", r)
		}
	})
}

func saysLocked(t *testing.T, r driver.Result) {
	t.Helper()
	if r.Status != driver.Unknown || r.Err == nil || !strings.Contains(r.Err.Error(), "LOCK TABLES") || strings.Contains(r.Err.Error(), "1205") {
		t.Errorf("P8: a key in a table that is locked: %+v", r)
	}
}

// TestP8_QuestionsOfALockedTable: a plain question waits for a lock on the table for as long as its caller does. That the server
// answers 1205 each second is no business of the caller's.
func TestP8_QuestionsOfALockedTable(t *testing.T) {
	t.Parallel()
	questions := func(t *testing.T, l *lab) {
		s := l.store()
		c := client{t: t, Store: s}
		c.release(c.granted("a", time.Minute))
		c.release(c.granted("b", time.Minute))
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		defer func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }()
		for what, question := range map[string]func(context.Context) (int, error){
			"Inspect": func(ctx context.Context) (int, error) {
				infos, err := s.Inspect(ctx, []string{"a", "b"})
				return len(infos), err
			},
			"List": func(ctx context.Context) (int, error) {
				infos, err := s.List(ctx, "", "", 10)
				return len(infos), err
			},
		} {
			want, err := question(patient(t))
			must(t, err)
			_, err = own.ExecContext(patient(t), "LOCK TABLES "+l.table()+" WRITE")
			must(t, err)
			ends := func(err error) bool {
				said := what != "Inspect" || err != nil && strings.Contains(err.Error(), "LOCK TABLES") // List leaves when its caller does
				return errors.Is(err, context.DeadlineExceeded) && said
			}
			err = inMoreTime(t, conn.LockWait*5/2, func(ctx context.Context) error { _, err := question(ctx); return err }, ends)
			if !ends(err) || strings.Contains(err.Error(), "1205") {
				t.Errorf("P8: %s of a table that stays locked: %v", what, err)
			}
			before, answered := s.db.Blocked.Load(), make(chan error, 1)
			var n int
			go func() {
				var err error
				n, err = question(patient(t))
				answered <- err
			}()
			eventually(t, "a question was kept waiting for all of its time", func() bool { return s.db.Blocked.Load() > before })
			_, err = own.ExecContext(patient(t), "UNLOCK TABLES")
			must(t, err)
			if err := <-answered; err != nil || n != want {
				t.Errorf("P8: %s of a table that was locked for a while: %d of %d keys, %v", what, n, want, err)
			}
		}
	}
	each(t, questions)
	onBoth(t, questions)
}

// TestP8_FirstUseOfALockedTable: the first question of a Store looks at the tables, and waits for a lock on them as the later ones do.
func TestP8_FirstUseOfALockedTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		_, err = own.ExecContext(patient(t), "LOCK TABLES "+l.table()+" WRITE")
		must(t, err)
		defer func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }()
		s := l.bare()
		answered := make(chan error, 1)
		go func() {
			_, err := s.Inspect(patient(t), []string{"a"})
			answered <- err
		}()
		eventually(t, "the check was kept waiting for all of its time", func() bool { return s.db.Blocked.Load() >= 3 || len(answered) > 0 })
		_, err = own.ExecContext(patient(t), "UNLOCK TABLES")
		must(t, err)
		if err := <-answered; err != nil {
			t.Errorf("P8: Inspect of a table that was locked for a while, as a Store's first use: %v", err)
		}
	})
}

// TestP8_GuardOfALockedTable: an ALTER TABLE waits for the caller's transaction, and the Store's question of a second guard behind the
// ALTER TABLE. The caller is told to roll back, long before its lease ends. Behind LOCK TABLES the answer is the same.
func TestP8_GuardOfALockedTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		p := l.program(t, rowlock.Options{})
		a, b := p.lock(t, "a"), p.lock(t, "b")
		tx := l.beginAt(t, sql.LevelDefault)
		must(t, p.Guard(patient(t), tx, a))
		altered := make(chan error, 1)
		before := p.db.Blocked.Load()
		go func() {
			_, err := l.db.ExecContext(patient(t), "ALTER TABLE "+l.table()+" COMMENT='altered'")
			altered <- err
		}()
		eventually(t, "ALTER TABLE waits", func() bool {
			var n int
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE 'ALTER TABLE%' AND state LIKE 'Waiting for table%'").Scan(&n))
			return n == 1
		})
		conflict := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, rowlock.ErrConflict) || !strings.Contains(err.Error(), "roll back") {
				t.Errorf("P8: %s: %v, want ErrConflict", what, err)
			}
		}
		conflict("a guard behind an ALTER TABLE that waits for its transaction", p.Guard(patient(t), tx, b))
		if p.db.Blocked.Load() == before {
			t.Error("nothing was kept waiting")
		}
		must(t, tx.Rollback())
		must(t, <-altered)

		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		_, err = own.ExecContext(patient(t), "LOCK TABLES "+l.table()+" WRITE")
		must(t, err)
		defer func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }()
		tx = l.beginAt(t, sql.LevelDefault)
		conflict("a guard of a locked table", p.Guard(patient(t), tx, b))
		conflict("a mark of a locked table", p.MarkRun(patient(t), tx, b, "run"))
		must(t, tx.Rollback())
	})
}
