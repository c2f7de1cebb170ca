package mysqllock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// leavesGate is in the statement that leaves a gate, and in no other of a request.
const leavesGate = "gate_until="

// TestP19_RowLockInAPhase: the writer whose gate stands gets the key after the last reader,
// whatever others that want it exclusively are doing: they do not have its row locked while
// they go through the phase, in which they cannot get it.
func TestP19_RowLockInAPhase(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a := client{t: t, Store: l.store()}
		b, at := l.beforeFirst(leavesGate)
		for key, ask := range map[string]func(driver.Request) driver.Result{
			"refused before": func(q driver.Request) driver.Result { return b.acquire(q)[0] },
			"out of the queue": func(q driver.Request) driver.Result {
				r, err := b.AcquireWait(patient(t), q, func() {})
				must(t, err)
				return r
			},
		} {
			h := a.grant(reader(key, time.Minute))
			w := waiting(request(key, time.Minute))
			if r := a.acquire(w)[0]; !r.Gated {
				t.Fatalf("P19: a writer beside a reader: %+v", r)
			}
			b.wants("first attempt", b.acquire(waiting(request(key, time.Minute)))[0].Status, driver.Held)
			a.release(h)
			next := waiting(request(key, time.Minute))
			next.Gate = w.ID
			asked := false
			at(func() {
				asked = true
				if r := a.acquire(next)[0]; r.Status != driver.Granted {
					t.Errorf("P19: %s: the writer whose gate stands, while another goes through the phase: %+v", key, r)
				}
			})
			if r := ask(waiting(request(key, time.Minute))); r.Status != driver.Held {
				t.Errorf("P16: %s: a writer beside another: %+v", key, r)
			}
			if !asked {
				t.Errorf("%s: the attempt did not go through the phase", key)
			}
		}
	})
}

// TestP19_RowLockOfThoseWhoWait: a program that waits behind the gate of another locks the row
// in its first attempt, and in none after that.
func TestP19_RowLockOfThoseWhoWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a := client{t: t, Store: l.store()}
		rec := new(recorder)
		b := l.programOn(t, l.recorded(rec), rowlock.Options{})
		a.grant(reader("k", time.Minute))
		if r := a.acquire(waiting(request("k", time.Minute)))[0]; !r.Gated {
			t.Fatalf("P19: a writer beside a reader: %+v", r)
		}
		ctx, cancel := context.WithCancel(patient(t))
		left := make(chan struct{})
		go func() {
			defer close(left)
			if _, err := b.Client.Acquire(ctx, "k"); err == nil {
				t.Error("P16: a writer beside a reader")
			}
		}()
		attempts, locks := 0, 0
		eventually(t, "it has tried three times", func() bool {
			for _, s := range rec.take() {
				if strings.Contains(s, leavesGate) {
					attempts++
				}
				if strings.Contains(s, " FOR UPDATE") {
					locks++
				}
			}
			return attempts >= 3
		})
		cancel()
		<-left
		if locks > 1 {
			t.Errorf("P19: %d attempts behind another's gate locked the row %d times", attempts, locks)
		}
	})
}

// TestP19_GateOfASessionThatLivesOn: the undo of an attempt clears its gate also where it cannot
// end the attempt's session, and cannot know whose the row is.
func TestP19_GateOfASessionThatLivesOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		other := client{t: t, Store: l.store()}
		c, q := l.cutOffBehindItsGate(t)
		tx, err := l.db.Begin()
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.Exec("SELECT name FROM rowlock_session_row WHERE name='k' FOR UPDATE")
		must(t, err)
		c.db.CannotKill.Store(true)
		undone := c.release(driver.Hold{Key: "k", ID: q.ID, TTL: q.TTL, Undo: true})[0]
		t.Logf("the undo: %+v", undone) // final where the server has noticed by now that the session is gone
		if r := other.acquire(reader("k", time.Minute))[0]; r.Status != driver.Granted {
			t.Errorf("P19: a reader after the undo: %+v", r)
		}
	})
}

// TestN11_ExclusiveAfterReaders: what an exclusive cycle costs after readers: of a key that the
// Store saw in a phase it begins with the gate.
func TestN11_ExclusiveAfterReaders(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c, other := client{t: t, Store: l.recorded(rec)}, client{t: t, Store: l.store()}
		c.release(c.granted("other", time.Minute)) // the connections are there
		for _, tc := range []struct {
			name    string
			readers client
			wants   bool
			want    int
		}{
			{"of another program", other, true, 7},
			{"of this one", c, true, 5},
			{"of this one, without waiting", c, false, 6},
		} {
			n := 0
			for range 20 { // on a slow server a statement is looked after, and maybe ended
				tc.readers.release(tc.readers.grant(reader(tc.name, time.Minute)))
				q := request(tc.name, time.Minute)
				q.Wants = tc.wants
				rec.take()
				c.release(c.grant(q))
				if n = len(rec.take()); n == tc.want {
					break
				}
			}
			if n != tc.want {
				t.Errorf("after readers %s: %d statements, want %d", tc.name, n, tc.want)
			}
		}
	})
}

// TestP6_GateInABusyRow: the undo of an attempt meets a server that is slow for a moment, or a stranger in the row. The gate goes all the
// same.
func TestP6_GateInABusyRow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.grant(reader("k", time.Minute))
		q := waiting(request("k", time.Minute))
		if r := c.acquire(q)[0]; !r.Gated {
			t.Fatalf("a writer beside a reader: %+v", r)
		}
		tx, err := l.db.Begin()
		must(t, err)
		_, err = tx.Exec("SELECT token FROM rowlock_session WHERE name='k' FOR UPDATE")
		must(t, err)
		ended := c.db.Blocked.Load()
		go func() {
			defer tx.Rollback()
			eventually(t, "the undo was kept waiting", func() bool { return c.db.Blocked.Load() > ended })
		}()
		c.release(driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Undo: true})
		if r := c.acquire(reader("k", time.Minute))[0]; r.Status != driver.Granted {
			t.Errorf("P6: a reader after the undo: %+v", r)
		}
	})
}
