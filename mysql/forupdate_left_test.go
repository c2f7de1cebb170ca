package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// SelectForUpdate: what an attempt or a wait leaves that ended early, and who ends it.

// TestP6_ForUpdateLockedAndCutOff: an attempt has the row locked, waits for a connection until its context ends, and its session cannot
// be reached. The answer does not say that nothing was done, and an undo ends the session.
func TestP6_ForUpdateLockedAndCutOff(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		other := client{t: t, Store: l.store()}
		w := l.firewall()
		c := client{t: t, Store: l.bare()}
		q := request("k", 5*time.Second)
		c.release(c.granted("k", q.TTL))
		warm(t, c.Store)
		var all []*conn.Conn
		for range c.db.Acquires.Max {
			x, err := c.db.Acquires.Get(patient(t))
			must(t, err)
			all = append(all, x)
		}
		var r driver.Result
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			results, err := c.Store.Acquire(ctx, []driver.Request{q})
			if err == nil {
				r = results[0]
			}
			done <- err
		}()
		eventually(t, "the row is locked", func() bool {
			_, err := l.db.Exec("SELECT * FROM rowlock_session_row WHERE name='k' FOR UPDATE NOWAIT")
			return err != nil
		})
		w.deaden()
		cancel()
		err := <-done
		for _, x := range all {
			x.Broken = true
			x.Put()
		}
		if driver.IsNotApplied(err) || driver.IsNotApplied(r.Err) || err == nil && r.Err == nil {
			t.Errorf("P6: an attempt that had locked the row: %+v, %v", r, err)
		}
		c.undone("cut off", other, q)
	})
}

// TestP6_ForUpdateGateOfTheTryBefore: the gate of an attempt stands, its session is killed, and the server refuses the second try. The
// answer does not say that nothing was done.
func TestP6_ForUpdateGateOfTheTryBefore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		var rec recorder
		c, other := client{t: t, Store: l.recorded(&rec)}, client{t: t, Store: l.bare()}
		for _, n := range []uint16{1290, conn.ErLockWait} {
			key := fmt.Sprint(n)
			h := other.grant(reader(key, time.Minute))
			c.wants("beside a reader", c.acquire(request(key, time.Minute))[0].Status, driver.Held) // now it knows of the phase
			resting := c.strategy.(*session.ForUpdate).Sessions.Idle()[0].ID
			var gated, killed atomic.Bool
			rec.stop(func(s string) error {
				switch {
				case strings.Contains(s, leavesGate) && gated.CompareAndSwap(false, true):
					other.release(h) // so that it passes the gate
				case strings.Contains(s, leavesGate) && killed.Load():
					return &mysql.MySQLError{Number: n, Message: "refused"}
				case strings.HasSuffix(s, "FOR UPDATE NOWAIT") && gated.Load() && killed.CompareAndSwap(false, true):
					exec(t, l.db, fmt.Sprint("KILL CONNECTION ", resting))
				}
				return nil
			})
			results, err := c.Store.Acquire(patient(t), []driver.Request{waiting(request(key, time.Minute))})
			rec.stop(nil)
			must(t, err)
			if !killed.Load() {
				t.Fatal("it did not go through the phase")
			}
			if r := results[0]; r.Status != driver.Granted && (driver.IsNotApplied(r.Err) || r.Err == nil && !r.Gated) {
				t.Errorf("P6: %d: a gate may stand: %+v", n, r)
			}
		}
	})
}

// TestP12_ForUpdateWaitsGivenUp: callers that give up a wait leave nothing to be undone, also where no session can be ended by KILL:
// Close does not wait for it.
func TestP12_ForUpdateWaitsGivenUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		other := client{t: t, Store: l.store()}
		round := 0
		for _, cannot := range []bool{false, true} {
			const keys = 12
			// What nobody ends stands for a slice of 5 s.
			best(t, fmt.Sprintf("P12: KILL refused %v: Close after waits that were given up", cannot), 4*time.Second, func() time.Duration {
				round++
				s := l.bare()
				p := l.programOn(t, s, rowlock.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, keys)
				for n := range keys {
					key := fmt.Sprint(round, " ", n)
					other.granted(key, time.Hour)
					go func() {
						_, err := p.Client.Acquire(ctx, key)
						ended <- err
					}()
				}
				eventually(t, "they stand in the queue", func() bool { return l.inQueue() >= keys })
				s.db.CannotKill.Store(cannot)
				cancel()
				for range keys {
					<-ended
				}
				start := time.Now()
				must(t, p.Client.Close(patient(t)))
				return time.Since(start)
			})
		}
	})
}

// TestP27_ForUpdateUndoElsewhere: undos of a session on the server before a failover do not close the connections to the new one.
func TestP27_ForUpdateUndoElsewhere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		f := c.strategy.(*session.ForUpdate)
		c.release(c.granted("k", time.Minute))
		q := request("k", time.Minute)
		a := f.Attempt(q)
		own, err := a.Begin(patient(t))
		must(t, err)
		own.Server, own.Broken = "another:3306", true
		own.Opened, own.Ready = own.Opened.Add(-time.Hour), own.Ready.Add(-time.Hour) // not beside the control connection
		own.Put()
		_ = a.Fail(true, errors.New("lost"))
		idle := func() int { return len(c.db.Acquires.Idle()) + len(c.db.Releases.Idle()) + len(c.db.Renewals.Idle()) }
		for try := range 3 {
			warm(t, c.Store)
			before := idle()
			c.release(driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Undo: true})
			if after := idle(); try > 0 && after < before-1 {
				t.Errorf("P27: undo %d left %d of %d idle connections", try, after, before)
			}
		}
	})
}
