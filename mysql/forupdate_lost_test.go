package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// SelectForUpdate: what is told, and what an undo does, where a session is lost and its answer with it.

// loses lets the next statement with that text reach the server and cuts its connection off from the Store, but not from the server:
// no KILL CONNECTION gets through until the end of f.
func (c *cutter) loses(t *testing.T, text string, f func()) {
	t.Helper()
	c.unkilled.Store(true)
	defer c.unkilled.Store(false)
	x := c.onCommit(cut{at: text, deliver: true, stay: true})
	f()
	select {
	case <-x.reached:
	default:
		t.Errorf("%q was not sent", text)
	}
}

// undone undoes a request, and sees to it that others get the key.
func (c client) undone(what string, other client, q driver.Request) {
	c.t.Helper()
	eventually(c.t, what+": the undo is final", func() bool { // at the latest by wait_timeout
		r, err := c.Store.Release(patient(c.t), []driver.Hold{{Key: q.Key, ID: q.ID, TTL: q.TTL, Mode: q.Mode, Undo: true}})
		must(c.t, err)
		return r[0].Final
	})
	other.release(other.granted(q.Key, time.Minute))
}

// TestP6_ForUpdateLostAnswer: the session locks the row, and its answer is lost. The key is not told to be held by another, and an undo
// ends the session.
func TestP6_ForUpdateLostAnswer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, proxy := l.cutStore(t, true)
		c, other := client{t: t, Store: s}, client{t: t, Store: l.bare()}
		for what, ask := range map[string]func(driver.Request) (driver.Result, error){
			"acquire": func(q driver.Request) (driver.Result, error) {
				r, err := s.Acquire(patient(t), []driver.Request{q})
				if err != nil {
					return driver.Result{}, err
				}
				return r[0], nil
			},
			"wait": func(q driver.Request) (driver.Result, error) {
				return s.AcquireWait(patient(t), q, func() {})
			},
			"reader's wait": func(q driver.Request) (driver.Result, error) {
				return s.AcquireWait(patient(t), q, func() {})
			},
		} {
			q, text := request(what, 3*time.Second), "FOR UPDATE"
			if what == "reader's wait" {
				q, text = reader(what, 3*time.Second), "session_row"
			}
			c.release(c.granted(what, time.Minute))
			var r driver.Result
			var err error
			proxy.loses(t, text, func() { r, err = ask(q) })
			if r.Status == driver.Held || driver.IsNotApplied(err) || driver.IsNotApplied(r.Err) {
				t.Errorf("P6: %s: %+v, %v", what, r, err)
			}
			c.undone(what, other, q)
		}
	})
}

// TestP6_ForUpdateGateOfALostSession: the gate of an attempt stands, and its session is killed. Where the attempt cannot go on, the
// answer does not say that nothing was done.
func TestP6_ForUpdateGateOfALostSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.bare()}
		for _, ended := range []bool{false, true} { // its context, or no other session can be opened
			key := fmt.Sprint("ended ", ended)
			h := other.grant(reader(key, time.Minute))
			c.wants("beside a reader", c.acquire(request(key, time.Minute))[0].Status, driver.Held) // now it knows of the phase
			resting := c.strategy.(*session.ForUpdate).Sessions.Idle()[0].ID
			ctx, cancel := context.WithCancel(patient(t))
			var gated, killed atomic.Bool
			rec.stop(func(s string) error {
				switch {
				case strings.Contains(s, leavesGate) && gated.CompareAndSwap(false, true):
					other.release(h) // so that it passes the gate
				case strings.HasSuffix(s, "FOR UPDATE NOWAIT") && gated.Load() && killed.CompareAndSwap(false, true):
					exec(t, l.db, fmt.Sprint("KILL CONNECTION ", resting))
					if ended {
						cancel()
					}
				case killed.Load() && strings.HasPrefix(s, "SET"):
					return errors.New("refused")
				}
				return nil
			})
			q := waiting(request(key, time.Minute))
			results, err := c.Store.Acquire(ctx, []driver.Request{q})
			rec.stop(nil)
			cancel()
			if !gated.Load() || !killed.Load() {
				t.Fatalf("gated %v, killed %v", gated.Load(), killed.Load())
			}
			if driver.IsNotApplied(err) || len(results) > 0 && driver.IsNotApplied(results[0].Err) {
				t.Errorf("P6: a gate may stand: %+v, %v", results, err)
			}
		}
	})
}

// TestP18_ForUpdateLostAnswerToARelease: ROLLBACK is executed, and its answer lost. The release is no loss, whoever has the key then.
func TestP18_ForUpdateLostAnswerToARelease(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, proxy := l.cutStore(t, true)
		c, other := client{t: t, Store: s}, client{t: t, Store: l.bare()}
		for _, taken := range []bool{false, true} {
			h := c.granted("k", time.Minute)
			next := make(chan driver.Hold, 1)
			x := proxy.onCommit(cut{at: "\x03ROLLBACK", deliver: true, hang: true, then: func() {
				if taken {
					next <- other.granted("k", time.Minute)
				}
			}})
			r := c.release(h)[0]
			<-x.reached
			if r.Status != driver.Released {
				t.Errorf("P18: taken by another then %v: the answer to the release: %+v", taken, r)
			}
			if taken {
				other.release(<-next)
			}
		}
	})
}

// TestP6_ForUpdateUnansweredWrite: the session is lost while (3) is unanswered. What (3) wrote looks to another run of the server like a
// hold that may be trusted: the undo takes it back.
func TestP6_ForUpdateUnansweredWrite(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, proxy := l.cutStore(t, true)
		c := client{t: t, Store: s}
		f := s.strategy.(*session.ForUpdate)
		c.release(c.granted("k", time.Minute))
		q := request("k", time.Minute)
		x, ctx := f.Attempt(q), patient(t)
		own, err := x.Begin(ctx)
		must(t, err)
		if r, err := x.Lock(ctx); err != nil || r.Status != driver.Unknown {
			t.Fatalf("lock: %+v, %v", r, err)
		}
		reached := proxy.onCommit(cut{at: fmt.Sprintf("%x", q.ID[:]), deliver: true}).reached
		if _, err = x.Write(ctx); err == nil {
			t.Fatal("the answer was not lost")
		}
		<-reached
		own.Broken = true
		own.Put()
		if err := x.Fail(true, err); driver.IsNotApplied(err) {
			t.Fatal(err)
		}
		if r := c.release(driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Undo: true})[0]; r.Status != driver.Released {
			t.Errorf("undo: %+v", r)
		}
		var live bool
		must(t, l.db.QueryRow("SELECT released_at IS NULL AND expires_at>NOW(6) FROM rowlock_session WHERE name='k'").Scan(&live))
		if live {
			t.Error("P6: the lease row of an attempt that was undone looks live")
		}
	})
}

// TestP4_ForUpdateLossWithEndedContext: a hold is found over by a call whose context ends in that moment. Its session, which has
// the row locked, is ended all the same.
func TestP4_ForUpdateLossWithEndedContext(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		var rec recorder
		s := l.recorded(&rec)
		c := client{t: t, Store: s}
		f := s.strategy.(*session.ForUpdate)
		var holds []driver.Hold
		for i := range 12 {
			holds = append(holds, c.granted(fmt.Sprint("k", i), time.Minute))
		}
		exec(t, l.db, "UPDATE rowlock_session SET hold=REPEAT('x',16),token=token+1")
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		f.RowsDue()
		beats := int64(0)
		rec.stop(func(s string) error {
			if strings.HasPrefix(s, "UPDATE") {
				eventually(t, "all heartbeats are answered", func() bool { return atomic.LoadInt64(&beats) >= int64(len(holds)) })
				time.Sleep(100 * time.Millisecond)
				cancel()
			} else {
				atomic.AddInt64(&beats, 1)
			}
			return nil
		})
		_, _ = s.Renew(ctx, holds)
		rec.stop(nil)
		if ctx.Err() == nil {
			t.Fatal("no lease row was renewed")
		}
		eventually(t, "no session has a hold any more", func() bool {
			for _, h := range holds {
				if f.SessionOf(h) != nil {
					return false
				}
			}
			return true
		})
	})
}

// TestP19_ForUpdateWaitLeavesNoTransaction: a wait that fails leaves its session at rest without a transaction, which would keep the
// tables from being altered.
func TestP19_ForUpdateWaitLeavesNoTransaction(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c, other := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		for _, q := range []driver.Request{request("k", time.Minute), reader("k", time.Minute)} {
			h := other.granted("k", time.Minute)
			answered := make(chan driver.Result, 1)
			go func() {
				r, err := c.AcquireWait(patient(t), q, func() {})
				if err != nil {
					r.Err = err
				}
				answered <- r
			}()
			var r driver.Result
			eventually(t, "the wait was ended by KILL QUERY", func() bool {
				var id int64
				if l.db.QueryRow("SELECT id FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE '%session_row%' AND id<>CONNECTION_ID()").Scan(&id) == nil {
					_, _ = l.db.Exec(fmt.Sprint("KILL QUERY ", id))
				}
				select {
				case r = <-answered:
					return true
				default:
					return false
				}
			})
			t.Logf("%+v", r)
			other.release(h)
			var open int
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id=x.trx_mysql_thread_id WHERE p.db=DATABASE()").Scan(&open))
			tx, err := l.db.Conn(context.Background())
			must(t, err)
			if _, err := tx.ExecContext(context.Background(), "SET SESSION lock_wait_timeout=2"); err != nil {
				t.Fatal(err)
			}
			_, cannot := tx.ExecContext(context.Background(), "ALTER TABLE rowlock_session_row COMMENT='altered'")
			_ = tx.Close()
			if cannot != nil {
				t.Errorf("the table cannot be altered: %v; %d transactions are open", cannot, open)
			}
		}
	})
}
