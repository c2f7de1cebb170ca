package mysqllock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestP8_ConflictsForAWhile: a node of Galera answers 1213 to each change for as long as its cluster changes its members. A
// caller hears of it only when the time is over that he gives.
func TestP8_ConflictsForAWhile(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		conflicts := l.firewall().conflictsFor("\xff\x7a\x04#42S02") // a table that is missing
		p := l.programOn(t, l.bare(), rowlock.Options{})
		must(t, p.lock(t, "a").Release(patient(t)))

		away := func() { exec(t, l.db, "RENAME TABLE "+l.table()+" TO away") }
		back := func() { exec(t, l.db, "RENAME TABLE away TO "+l.table()) }
		away()
		answer := make(chan error, 1)
		go func() {
			lease, err := p.TryAcquire(patient(t), "a")
			if err == nil {
				err = lease.Release(patient(t))
			}
			answer <- err
		}()
		eventually(t, "30 conflicts", func() bool { return conflicts.Load() >= 30 || len(answer) > 0 })
		back()
		if err := <-answer; err != nil {
			t.Errorf("P8: the caller hears of %d conflicts: %v", conflicts.Load(), err)
		}

		away()
		short, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if _, err := p.TryAcquire(short, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("P8: conflicts without an end: %v, want the end of the caller's time", err)
		} else {
			t.Log(err)
		}
		back()
		must(t, p.lock(t, "b").Release(patient(t))) // at once, or after an undo
	})
}

// TestP26_QuestionOnABrokenConnection: a connection of the Store's that breaks while it asks something is followed by another.
// The caller's transaction, on its own connection, does not hear of it.
func TestP26_QuestionOnABrokenConnection(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		proxy := l.firewall()
		p := l.programOn(t, l.bare(), rowlock.Options{})
		ctx := patient(t)
		lease := p.lock(t, "a")
		for what, c := range map[string]struct {
			words []string
			call  func(Tx) error
		}{
			"LockTx":  {[]string{"SELECT name FROM", "rowlock_tx"}, func(tx Tx) error { return p.LockTx(ctx, tx, "k") }},
			"Guard":   {[]string{"SELECT", l.table(), "DATABASE()"}, func(tx Tx) error { return p.Guard(ctx, tx, lease) }},
			"Inspect": {[]string{"SELECT", l.table()}, func(Tx) error { _, err := p.Inspect(ctx, "a"); return err }},
		} {
			tx := l.begin()
			done := proxy.cut(c.words...)
			err := c.call(tx)
			if !done() {
				t.Fatalf("%s: nothing was cut", what)
			}
			if err != nil {
				t.Errorf("P26: %s: %v (the driver's: %v)", what, err, errors.Is(err, mysql.ErrInvalidConn))
			}
			must(t, tx.Rollback())
		}
	})
}

// TestP2_ConflictOnASession: a conflict undoes the transaction of the session that has a key, as where a node of Galera applies what
// another has committed. Nobody has the row locked then, whatever the next statement says.
func TestP2_ConflictOnASession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		l.store()
		proxy := l.firewall()
		s := l.bare()
		c := client{t: t, Store: s}
		f := s.strategy.(*session.ForUpdate)

		h := c.granted("a", time.Minute)
		done := proxy.conflictAt(l.table(), "SELECT hold FROM")
		if status := c.renew(h)[0].Status; status != driver.Removed {
			t.Errorf("P2: a hold whose session was undone is %v", status)
		}
		if !done() {
			t.Fatal("the heartbeat met no conflict")
		}

		x := f.Attempt(request("b", time.Minute))
		own, err := x.Begin(patient(t))
		must(t, err)
		done = proxy.conflictAt(l.table(), "SELECT hold,wanted,")
		r, err := x.Run(patient(t))
		if !done() {
			t.Fatal("step (4) met no conflict")
		}
		if r.Status == driver.Granted {
			t.Fatalf("P2: granted on a session that was undone: %v", err)
		}
		own.Put()
		c.granted("b", time.Minute)

		c.release(c.granted("c", time.Minute))
		done = proxy.conflictAt(l.table(), "FOR UPDATE")
		c.granted("c", time.Minute) // P8: it had nothing locked yet
		if !done() {
			t.Fatal("step (1) met no conflict")
		}
	})
}
