package mysqllock

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
)

// guardHold is Guard of holds that no lease stands for.
func (c client) guardHold(l *lab, level sql.IsolationLevel, holds ...driver.Hold) (*sql.Tx, bool) {
	c.t.Helper()
	tx := l.beginAt(c.t, level)
	hs := guards.Holds{First: holds[0], All: holds}
	st, err := c.guarded.ReadHolds(patient(c.t), hs, "")
	must(c.t, err)
	if st.Lost != nil {
		return tx, false
	}
	in, err := callertx.TablePrefix(patient(c.t), tx, st.Database)
	must(c.t, err)
	locked, err := c.guarded.Lock(patient(c.t), tx, in, hs, "")
	must(c.t, err)
	return tx, locked.All
}

// TestP21_GuardsOfAPhase: guards of readers and slots stop the next exclusive grant, and the
// next hold of a slot; neither each other nor joins, renewals, releases and those who wait.
func TestP21_GuardsOfAPhase(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			c := client{t: t, Store: l.store()}
			key := level.String()
			slots := func() driver.Request { return slotOf(key, 3, time.Hour) }
			r1, r2 := c.gets(reader(key, time.Hour)), c.gets(reader(key, time.Hour))
			s1 := c.gets(slots())
			var open []*sql.Tx
			for _, h := range []driver.Hold{r1, r2, s1} {
				tx, locked := c.guardHold(l, level, h)
				if !locked {
					t.Fatalf("P21: %v: a guard of a live %v does not lock", level, h.Mode)
				}
				open = append(open, tx)
			}
			// None of these waits for the guards, which are open all the time.
			more := []driver.Hold{c.gets(reader(key, time.Hour)), c.gets(slots()), c.gets(slots())}
			lives := append(slices.Clone(more), r1, r2, s1)
			for i, r := range c.renew(lives...) {
				if r.Status == driver.Unknown {
					r = c.alive("renewal", lives[i])
				}
				c.wants("renewal", r.Status, driver.Alive)
			}
			// Other keys, whose entries stand beside these.
			for _, other := range []string{key + "+", "A" + key} {
				c.ends("release of another key", driver.Released,
					c.gets(request(other, time.Hour)), c.gets(reader(other+"r", time.Hour)), c.gets(slotOf(other+"s", 1, time.Hour)))
			}
			w := l.waits(request(key, time.Hour))
			if r := c.asks("an exclusive attempt beside guards", w, driver.Held); !keepsOut(r) {
				t.Errorf("P21: %v: one that waits beside guards: %+v", level, r)
			}
			undone := driver.Taken
			if w.Stand { // its place is
				undone = driver.Released
			}
			c.ends("undo", undone, driver.Hold{Key: key, ID: w.ID, Undo: true})
			c.ends("release", driver.Released, more...)
			// The slot's next hold waits; another slot is chosen.
			c.ends("release of the guarded slot", driver.Released, s1)
			same := slots()
			same.Slot = s1.Slot
			next := c.gets(same)
			if next.Slot == s1.Slot {
				t.Errorf("P21: %v: slot %d was granted while its last holder's transaction is open", level, s1.Slot)
			}
			only := c.gets(slots())
			c.asks("the last slot", slots(), driver.Pinned)
			c.ends("release", driver.Released, next, only, r1, r2)
			// So does an exclusive grant, until all have ended.
			for _, tx := range open {
				c.asks("take", l.waits(request(key, time.Hour)), driver.Pinned)
				l.nobodyWaits()
				must(t, tx.Commit())
			}
			e := c.gets(request(key, time.Hour))
			if e.Token < only.Token+driver.TokenRange {
				locktest.Breach(t, "P20", "token %d after %d", e.Token, only.Token)
			}
			for _, h := range []driver.Hold{r1, s1, only} {
				if tx, locked := c.guardHold(l, level, h); locked {
					t.Errorf("P21: %v: a %v that is over is guarded", level, h.Mode)
				} else if locked, err := c.guarded.Lock(patient(t), tx, "", guards.Holds{First: h, All: []driver.Hold{h}}, ""); err != nil || locked.All {
					t.Errorf("P21: %v: a %v that is over is locked: %v", level, h.Mode, err)
				}
			}
			for _, tx := range open {
				_ = tx.Rollback()
			}
		}
	})
}

// TestP21_GuardOutlivesTheHold: a reader whose hold has expired commits only if no exclusive
// hold came.
func TestP21_GuardOutlivesTheHold(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			h := c.grant(ask(name))
			tx, locked := c.guardHold(l, sql.LevelReadCommitted, h)
			if !locked {
				t.Fatal("not locked")
			}
			l.ageShares(name, 2*time.Minute)
			c.wants("take", c.acquire(request(name, time.Minute))[0].Status, driver.Pinned)
			must(t, tx.Commit())
			c.granted(name, time.Minute)
			if _, locked := c.guardHold(l, sql.LevelReadCommitted, h); locked {
				t.Errorf("P21: a %v is guarded after a newer exclusive grant", name)
			}
		})
	})
}

// TestP21_GuardOverSeveralModes: one statement guards a reader, a slot and an exclusive hold, of
// one key or of several; each of them keeps out what it excludes, and each that is over is seen.
func TestP21_GuardOverSeveralModes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			c := client{t: t, Store: l.store()}
			a, b, e := level.String()+" a", level.String()+" b", level.String()+" e"
			slot := func(key string) driver.Request { return slotOf(key, 1, time.Minute) }
			holds := []driver.Hold{c.grant(reader(a, time.Minute)), c.grant(slot(a)), c.grant(slot(b)), c.granted(e, time.Minute)}
			tx, locked := c.guardHold(l, level, holds...)
			if !locked {
				t.Fatalf("P21: %v: a guard of live holds does not lock", level)
			}
			c.release(c.grant(reader(a, time.Minute)), c.grant(reader(b, time.Minute))) // beside them
			for i := range holds {
				holds[i].Guarded = true // or the release would wait for the transaction
			}
			for _, r := range c.release(holds...) {
				c.wants("release", r.Status, driver.Released)
			}
			for _, q := range []driver.Request{request(a, time.Minute), slot(a), request(b, time.Minute), slot(b), request(e, time.Minute), reader(e, time.Minute)} {
				if q.Mode == driver.Exclusive {
					q = l.waits(q)
				}
				if r := c.acquire(q)[0]; r.Status != driver.Pinned {
					t.Errorf("P21: %v: %q, mode %v, beside a guard over several: %v", level, q.Key, q.Mode, r.Status)
				}
				l.nobodyWaits()
			}
			must(t, tx.Commit())
			next := []driver.Hold{c.grant(reader(a, time.Minute)), c.grant(slot(a)), c.grant(slot(b)), c.granted(e, time.Minute)}
			for i := range next {
				mixed := append([]driver.Hold(nil), next...)
				mixed[i] = holds[i]
				tx, locked := c.guardHold(l, level, mixed...)
				if locked {
					t.Errorf("P21: %v: a guard over hold %d of before, which is over, and newer ones", level, i)
				}
				_ = tx.Rollback()
			}
		}
	})
}
