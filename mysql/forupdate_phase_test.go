package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestP16_ReaderJoinsAndWriterWaits: the shortest way through a phase: a reader, another beside
// it, a writer that waits and keeps new ones out, and has the key after both.
func TestP16_ReaderJoinsAndWriterWaits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		a, b := c.grant(reader("k", time.Minute)), c.grant(reader("k", time.Minute))
		if a.Token != b.Token {
			t.Errorf("P20: two readers have tokens %d and %d", a.Token, b.Token)
		}
		w := l.waits(request("k", time.Minute))
		if r := c.acquire(w)[0]; r.Status != driver.Held || !r.Shared || !keepsOut(r) {
			t.Fatalf("P16: a writer beside readers: %+v", r)
		}
		if r := c.acquire(reader("k", time.Minute))[0]; r.Status != driver.Held || !r.Shared {
			t.Errorf("P19: a reader behind a writer: %+v", r)
		}
		c.wants("renewal", c.renew(a)[0].Status, driver.Alive)
		for _, h := range []driver.Hold{a, b} {
			c.wants("release", c.release(h)[0].Status, driver.Released)
		}
		next := l.waits(request("k", time.Minute))
		if next.Gate = w.ID; next.Stand {
			next.ID = w.ID
		}
		h := c.grant(next)
		if h.Token < a.Token+driver.TokenRange {
			locktest.Breach(t, "P20", "a writer has token %d after readers with %d", h.Token, a.Token)
		}
		if r := c.acquire(reader("k", time.Minute))[0]; r.Status != driver.Held || r.Shared {
			t.Errorf("P16: a reader beside a writer: %+v", r)
		}
		c.wants("release", c.release(h)[0].Status, driver.Released)
		c.release(c.grant(reader("k", time.Minute)))
	})
}

// beforeFirst makes a client, and runs what is given to at before its next statement that has the words in it.
func (l *lab) beforeFirst(words string) (c client, at func(f func())) {
	rec := new(recorder)
	c = client{t: l.t, Store: l.recorded(rec)}
	return c, func(f func()) { rec.before(words, f) }
}

// beginsPhase is in the statement that begins a phase, and in no other.
const beginsPhase = ",owner='',"

// TestP16_LateBeginning: a phase that would begin after an exclusive attempt got the row lock,
// and one that would after its grant, does not.
func TestP16_LateBeginning(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a, at := l.beforeFirst(beginsPhase)
		b := client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			b.release(b.granted(name, time.Minute))
			var w driver.Hold
			at(func() { w = b.granted(name, time.Minute) })
			if r := a.acquire(ask(name))[0]; r.Status != driver.Held {
				t.Errorf("P16: a %s was granted while an exclusive hold began: %+v", name, r)
			}
			b.wants("renewal", b.renew(w)[0].Status, driver.Alive)
			b.release(w)
			a.release(a.grant(ask(name)))
		})
	})
}

// TestP16_BeginningBeforeAWrite: an exclusive attempt that has locked the row, and finds when it
// writes that a phase began meanwhile, does not get the key beside its readers.
func TestP16_BeginningBeforeAWrite(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		b := client{t: t, Store: l.store()}
		f := b.strategy.(*session.ForUpdate)
		a, at := l.beforeFirst(beginsPhase)
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			for _, dies := range []bool{false, true} {
				key := fmt.Sprint(name, dies)
				b.release(b.granted(key, time.Minute))
				ctx := patient(t)
				x := f.Attempt(request(key, time.Minute))
				own, err := x.Begin(ctx)
				must(t, err)
				locked := false
				at(func() {
					locked = true
					if r, err := x.Lock(ctx); r.Status != driver.Unknown || err != nil {
						t.Errorf("lock: %+v, %v", r, err)
					}
					if dies {
						exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", own.ID))
					}
				})
				h := a.grant(ask(key)) // its look at the row came before the lock
				if !locked {
					t.Fatal("no phase began")
				}
				r, err := x.Write(ctx)
				if !dies && (err != nil || r.Status != driver.Held || !r.Shared) || r.Status == driver.Unknown && err == nil {
					t.Errorf("P16: the write of an exclusive attempt, its session killed: %v, after a %s joined: %+v, %v", dies, name, r, err)
				}
				own.Broken = true
				own.Put()
				a.wants("renewal", a.renew(h)[0].Status, driver.Alive)
				if r := b.acquire(request(key, time.Minute))[0]; r.Status != driver.Held || !r.Shared {
					t.Errorf("P16: another attempt: %+v", r)
				}
			}
		})
	})
}

// TestP16_PhaseAfterADeadSession: what a session held whose end the server knows is free for
// readers at once; its holder learns it, and changes nothing of theirs.
func TestP16_PhaseAfterADeadSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			w := a.granted(name, time.Minute)
			if r := b.acquire(ask(name))[0]; r.Status != driver.Held || r.Shared || r.Left <= 0 || r.Owner != "test:1" {
				t.Errorf("P16: beside an exclusive hold: %+v", r)
			}
			exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", a.strategy.(*session.ForUpdate).SessionOf(w).ID))
			var h driver.Hold
			eventually(t, "the row is free", func() bool {
				q := ask(name)
				r := b.acquire(q)[0]
				h = driver.Hold{Key: name, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Mode: q.Mode, Slot: r.Slot, Phase: r.Phase}
				return r.Status == driver.Granted
			})
			if h.Token < w.Token+driver.TokenRange {
				locktest.Breach(t, "P20", "token %d after %d", h.Token, w.Token)
			}
			a.wants("renewal", a.renew(w)[0].Status, driver.Taken)
			a.wants("release", a.release(w)[0].Status, driver.Taken)
			b.wants("renewal", b.renew(h)[0].Status, driver.Alive)
		})
	})
}

// TestP16_MinHoldBeforeAPhase: MinHold of an exclusive hold keeps the key from readers too, and
// a phase does not look like MinHold.
func TestP16_MinHoldBeforeAPhase(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			q := request(name, time.Minute)
			q.Keep = time.Hour
			c.release(c.grant(q))
			if r := c.acquire(ask(name))[0]; r.Status != driver.Held || r.Left < 50*time.Minute || r.Left > time.Hour {
				t.Errorf("MinHold, a %s: %+v", name, r)
			}
			exec(t, l.db, fmt.Sprintf("UPDATE rowlock_session SET kept_until=UTC_TIMESTAMP(6) WHERE name='%s'", name))
			h := c.grant(ask(name))
			if i := c.inspect(name); i.Kept || !i.InPhase() || i.Left > time.Minute {
				t.Errorf("a phase: %+v", i)
			}
			c.release(h)
			if i := c.inspect(name); i.Held || i.Kept || i.Left > 0 || i.Pinned {
				t.Errorf("a phase that nobody is in: %+v", i)
			}
		})
	})
}

// cutOffBehindItsGate is a client whose attempt for "k" has left a gate, and may have been applied.
func (l *lab) cutOffBehindItsGate(t *testing.T) (c client, q driver.Request) {
	t.Helper()
	c, at := l.beforeFirst("NOT EXISTS")
	c.release(c.grant(reader("k", time.Minute)))
	ctx, cancel := context.WithCancel(patient(t))
	at(cancel)
	q = waiting(request("k", time.Minute))
	results, err := c.Acquire(ctx, []driver.Request{q})
	if err == nil {
		err = results[0].Err
	}
	if err == nil || driver.IsNotApplied(err) {
		t.Fatalf("an attempt that was cut off behind its gate: %+v, %v, want one that may have been applied", results, err)
	}
	return c, q
}

// TestP7_GateOfAFailedAttempt: the undo of an attempt that failed behind its gate clears it.
func TestP7_GateOfAFailedAttempt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		other := client{t: t, Store: l.store()}
		c, q := l.cutOffBehindItsGate(t)
		other.wants("reader", other.acquire(reader("k", time.Minute))[0].Status, driver.Held)
		undo := driver.Hold{Key: "k", ID: q.ID, TTL: q.TTL, Undo: true}
		eventually(t, "the undo is final", func() bool {
			results, err := c.Release(patient(t), []driver.Hold{undo})
			return err == nil && results[0].Final
		})
		other.release(other.grant(reader("k", time.Minute)))
		other.release(other.granted("k", time.Minute))
	})
}

// TestP11_SharesNeedNoSession: any number of readers and slots has the connections of the
// Store; only exclusive holds, and who waits behind one, have one more each.
func TestP11_SharesNeedNoSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, user := l.storeOfUser(t)
		must(t, l.store().Migrate(patient(t)))
		c := client{t: t, Store: s}
		var holds []driver.Hold
		for n := range 50 {
			holds = append(holds, c.grant(reader(fmt.Sprint("r", n%25), time.Minute)), c.grant(slotOf("s", 100, time.Minute)))
		}
		c.renew(holds...)
		if n := len(sessionsOf(t, l, user)); n > defaultConnections {
			t.Errorf("P11: %d connections for %d readers and slots, want at most %d", n, len(holds), defaultConnections)
		}
		for _, r := range c.release(holds...) {
			c.wants("release", r.Status, driver.Released)
		}
	})
}

// TestP11_ReadersWithoutRoom: where the program's pool has no room for a session, readers wait
// without one.
func TestP11_ReadersWithoutRoom(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		other := l.program(t, rowlock.Options{})
		lease := other.lock(t, "k")
		_, s, _ := l.sharedPool(t, defaultConnections+spareConnections+1, Options{})
		mine := l.programOn(t, s, rowlock.Options{})
		own := mine.lock(t, "own") // the only session there is room for
		_, err := s.AcquireWait(patient(t), reader("k", time.Minute), func() {})
		if !errors.Is(err, driver.ErrNoPlace) || !strings.Contains(err.Error(), "the pool allows") {
			t.Fatalf("a wait without room: %v, want ErrNoPlace that says why", err)
		}
		got := make(chan *rowlock.Lease)
		go func() {
			l, err := mine.Client.Acquire(patient(t), "k", rowlock.Shared())
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		eventually(t, "it waits", func() bool { return mine.Client.Stats().Waiting == 1 })
		must(t, lease.Release(patient(t)))
		if l := <-got; l != nil {
			must(t, l.Release(patient(t)))
		}
		must(t, own.Err())
		g, err := mine.AcquireAll(patient(t), []rowlock.Want{{Key: "a", Options: []rowlock.Option{rowlock.Shared()}}, {Key: "b", Options: []rowlock.Option{rowlock.Slots(2)}}, {Key: "c", Options: []rowlock.Option{rowlock.Shared()}}})
		must(t, err)
		must(t, g.Release(patient(t)))
	})
}

// TestP19_ReaderInTheQueue: a reader behind an exclusive hold has the key when that ends, and
// begins a phase that no gate is left in at first.
func TestP19_ReaderInTheQueue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a := client{t: t, Store: l.store()}
		b, at := l.beforeFirst("`r WHERE name=")
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			w := a.granted(name, time.Minute)
			asks := make(chan struct{})
			at(func() { close(asks) })
			q := ask(name)
			q.Wants, q.Waited = true, true
			got := make(chan driver.Result, 1)
			go func() {
				r, err := b.AcquireWait(patient(t), q, func() {})
				if err != nil {
					t.Error(err)
				}
				got <- r
			}()
			<-asks
			a.release(w)
			r := <-got
			if r.Status != driver.Granted || r.Phase < w.Token+driver.TokenRange {
				t.Fatalf("P19: a %s in the queue: %+v", name, r)
			}
			var after sql.NullString
			must(t, l.db.QueryRow(fmt.Sprintf("SELECT gate_after FROM rowlock_session WHERE name='%s'", name)).Scan(&after))
			if !after.Valid {
				t.Errorf("P19: a phase that a waiting %s began has no gate_after", name)
			}
			// The session has let the row go.
			h := driver.Hold{Key: name, ID: q.ID, Mode: q.Mode, Slot: r.Slot, TTL: q.TTL}
			b.wants("release", b.release(h)[0].Status, driver.Released)
			a.release(freeSoon(t, a, name)) // no gate is left in the phase at first
		})
	})
}

// TestP19_QueueInAPhase: who waits in the queue for a key that readers have is told so.
func TestP19_QueueInAPhase(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.grant(reader("k", time.Minute))
		q := waiting(request("k", time.Minute))
		r, err := c.AcquireWait(patient(t), q, func() {})
		if err != nil || r.Status != driver.Held || !r.Shared || !r.Gated {
			t.Errorf("a writer in the queue, beside a reader: %+v, %v", r, err)
		}
		r, err = c.AcquireWait(patient(t), reader("k", time.Minute), func() {})
		if err != nil || r.Status != driver.Held || !r.Shared {
			t.Errorf("a reader in the queue, behind a gate: %+v, %v", r, err)
		}
		c.release(h)
		next := waiting(request("k", time.Minute))
		next.Gate = q.ID
		if r, err = c.AcquireWait(patient(t), next, func() {}); err != nil || r.Status != driver.Granted {
			t.Errorf("a writer in the queue, after the last reader: %+v, %v", r, err)
		}
	})
}

// TestP16_TakeConfirmed: a key that an attempt takes at the end of a phase is its own only if
// its session still has the row.
func TestP16_TakeConfirmed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.store()}
		a.release(a.grant(reader("k", time.Minute)))
		f := a.strategy.(*session.ForUpdate)
		ctx := patient(t)
		x := f.Attempt(waiting(request("k", time.Minute)))
		own, err := x.Begin(ctx)
		must(t, err)
		if r, err := x.Lock(ctx); r.Status != driver.Unknown || err != nil {
			t.Fatalf("lock: %+v, %v", r, err)
		}
		if r, err := x.Write(ctx); r.Status != driver.Unknown || err != nil {
			t.Fatalf("write in a phase that nobody is in: %+v, %v", r, err)
		}
		exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", own.ID))
		next := freeSoon(t, b, "k")
		if mine, err := x.Confirm(ctx); err == nil && mine {
			t.Error("P1: an attempt whose session was killed is confirmed")
		}
		own.Broken = true
		own.Put()
		b.wants("renewal", b.renew(next)[0].Status, driver.Alive)
	})
}
