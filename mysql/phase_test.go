package mysqllock

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// readerOrSlot runs f with a request of each mode that shares a key.
func readerOrSlot(f func(name string, ask func(key string) driver.Request)) {
	f("reader", func(key string) driver.Request { return reader(key, time.Minute) })
	f("slot", func(key string) driver.Request { return slotOf(key, 1, time.Minute) })
}

// TestN11_StatementsOfAPhase: the cycle of a reader, and of a slot that is free again, is two
// statements, one commit each, as that of an exclusive hold.
func TestN11_StatementsOfAPhase(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c := client{t: t, Store: l.recorded(rec)}
		cycle := func(q driver.Request) []string {
			c.release(c.grant(q)) // the connections are there, and the phase
			rec.take()
			c.release(c.grant(q))
			return rec.take()
		}
		sticky := slotOf("s", 1000, time.Minute)
		sticky.Slot = 17
		for name, q := range map[string]driver.Request{"reader": reader("r", time.Minute), "slot": sticky, "exclusive": request("e", time.Minute)} {
			q.ID = newID()
			want := 2
			if name == "exclusive" {
				want += map[Strategy]int{UniqueInsert: 1, SelectForUpdate: 2}[l.strategy] // it reads its token; its session confirms
			}
			var sent []string
			for range 20 { // on a slow server a statement is looked after, and maybe ended
				q.ID = newID()
				if sent = cycle(q); len(sent) <= want {
					break
				}
			}
			if len(sent) != want {
				t.Errorf("%s: %d statements, want %d:\n%s", name, len(sent), want, strings.Join(sent, "\n"))
			}
		}
	})
}

// TestP25_Exclusive: keys that were never shared are locked as if there were no phases,
// beside others that are.
func TestP25_Exclusive(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c := client{t: t, Store: l.recorded(rec)}
		c.grant(reader("b", time.Minute))
		var holds []driver.Hold
		for _, key := range []string{"a", "c"} {
			holds = append(holds, c.granted(key, time.Minute))
		}
		c.acquire(request("a", time.Minute))
		c.acquire(l.waits(request("c", time.Minute)))
		c.renew(holds...)
		c.inspect("a")
		if _, err := c.List(patient(t), "c", "", 10); err != nil {
			t.Error(err)
		}
		rec.take()
		c.acquire(request("a", time.Minute))
		c.acquire(l.waits(request("c", time.Minute)))
		c.renew(holds...)
		c.inspect("a")
		if _, err := c.List(patient(t), "c", "", 10); err != nil {
			t.Error(err)
		}
		c.release(holds[0])
		c.release(holds[1])
		for _, s := range rec.take() {
			if strings.Contains(s, l.shares()) || strings.Contains(s, "gate") || strings.Contains(s, "phase") {
				t.Errorf("sent for keys that were never shared: %s", s)
			}
		}
	})
}

// TestP16_ModesAmongMany: one call with keys in all states and modes.
func TestP16_ModesAmongMany(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.grant(reader("read", time.Minute))
		c.release(c.grant(reader("idle", time.Minute)))
		c.granted("held", time.Minute)
		gated := c.grant(reader("gated", time.Minute))
		if r := c.acquire(l.waits(request("gated", time.Minute)))[0]; !keepsOut(r) || !r.Shared || r.Left <= 0 {
			t.Fatalf("a waiting attempt beside a reader: %+v", r)
		}
		c.renew(gated)
		for name, want := range map[string]map[string]driver.Status{
			"exclusive": {"read": driver.Held, "idle": driver.Granted, "held": driver.Held, "gated": driver.Held, "new": driver.Granted},
			"reader":    {"read": driver.Granted, "idle": driver.Granted, "held": driver.Held, "gated": driver.Held, "new": driver.Granted},
			"slot":      {"read": driver.Granted, "idle": driver.Granted, "held": driver.Held, "gated": driver.Held, "new": driver.Granted},
		} {
			var reqs []driver.Request
			for key := range want {
				q := request(key, time.Minute)
				switch name {
				case "reader":
					q = reader(key, time.Minute)
				case "slot":
					q = slotOf(key, 3, time.Minute)
				}
				reqs = append(reqs, q)
			}
			var holds []driver.Hold
			for i, r := range c.acquire(reqs...) {
				q := reqs[i]
				for n := 0; r.Status == driver.Pinned && n < 50; n++ { // the server is slow
					q.Apart = r.Apart
					r = c.acquire(q)[0]
				}
				if r.Status != want[q.Key] {
					t.Errorf("%s of %q: %v, want %v", name, q.Key, r.Status, want[q.Key])
				}
				if r.Status == driver.Granted {
					holds = append(holds, driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, Mode: q.Mode, Slot: r.Slot, Phase: r.Phase, TTL: q.TTL})
				}
			}
			for i, r := range c.renew(holds...) {
				c.wants("renewal of "+holds[i].Key, r.Status, driver.Alive)
			}
			for i, r := range c.release(holds...) {
				c.wants("release of "+holds[i].Key, r.Status, driver.Released)
			}
		}
	})
}

// TestP16_Race: readers, slots and exclusive holders of a few keys, some of which are silent
// or late: nobody is beside whom he must not be.
func TestP16_Race(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		const keys = 2
		var mu sync.Mutex
		held := make(map[driver.HoldID]driver.Hold) // trusted by their holders
		enter := func(h driver.Hold) {
			mu.Lock()
			defer mu.Unlock()
			for _, o := range held {
				switch {
				case o.Key != h.Key:
				case o.Mode == driver.Exclusive, h.Mode == driver.Exclusive:
					t.Errorf("P16: %v (token %d) beside %v (token %d) of %q", h.Mode, h.Token, o.Mode, o.Token, h.Key)
				case o.Mode == driver.Slot && h.Mode == driver.Slot && o.Slot == h.Slot:
					t.Errorf("P17: slot %d of %q twice", h.Slot, h.Key)
				}
			}
			held[h.ID] = h
		}
		leave := func(h driver.Hold) {
			mu.Lock()
			defer mu.Unlock()
			delete(held, h.ID)
		}
		grants := make(map[driver.Mode]int)
		begin, bound := time.Now(), testserver.Patience(t)
		goesOn := func() bool { // on a busy machine until each mode was granted
			mu.Lock()
			defer mu.Unlock()
			took := time.Since(begin)
			return took < 4*time.Second || len(grants) < 3 && took < bound
		}
		var wg sync.WaitGroup
		for n := range 10 {
			c := client{t: t, Store: l.store()}
			wg.Go(func() {
				gate := driver.HoldID{}
				var stands driver.Request // of a caller that waits in a line, until it has the key
				for goesOn() {
					key := fmt.Sprint("k", rand.IntN(keys))
					q := request(key, time.Second)
					switch {
					case n < 4:
						q = reader(key, time.Second)
					case n < 7:
						q = slotOf(key, 3, time.Second)
					case n < 9 && stands.Key != "":
						q = stands
					case n < 9:
						q = l.waits(request("k0", time.Second))
						q.Gate, q.GateTime = gate, 300*time.Millisecond
						q.Claim, q.EntryTime = 300*time.Millisecond, 300*time.Millisecond
					}
					asked := time.Now()
					results, err := c.Acquire(patient(t), []driver.Request{q})
					if err != nil || results[0].Status != driver.Granted {
						if gate = (driver.HoldID{}); err == nil && results[0].Gated {
							gate = q.ID
						}
						if stands = (driver.Request{}); err == nil && results[0].Place > 0 {
							stands = q
						}
						time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
						continue
					}
					gate, stands = driver.HoldID{}, driver.Request{}
					r := results[0]
					h := driver.Hold{Key: key, ID: q.ID, Token: r.Token, Stored: r.Stored, Mode: q.Mode, Slot: r.Slot, Phase: r.Phase, TTL: q.TTL}
					h.Key = q.Key
					if r.Left > 0 { // it was passed the key some time ago
						asked = time.Now()
						if c.renew(h)[0].Status != driver.Alive {
							continue
						}
					}
					if time.Since(asked) > q.TTL/2 {
						c.release(h)
						continue
					}
					enter(h)
					mu.Lock()
					grants[h.Mode]++
					mu.Unlock()
					time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
					if rand.IntN(30) == 0 { // it is silent, and late
						time.Sleep(time.Until(asked.Add(q.TTL * 9 / 10)))
						leave(h)
						time.Sleep(q.TTL / 2)
						if r := c.renew(h)[0]; r.Status == driver.Alive {
							// Nobody has had the key meanwhile.
							time.Sleep(time.Millisecond)
						}
					} else {
						leave(h)
					}
					c.release(h)
				}
			})
		}
		wg.Wait()
		t.Logf("grants: %v", grants)
		for _, m := range []driver.Mode{driver.Exclusive, driver.Shared, driver.Slot} {
			if grants[m] == 0 {
				t.Errorf("no grant of mode %v", m)
			}
		}
	})
}

// TestP20_TokensAboveSlots: an exclusive grant and a forced release are above the tokens of
// slots, whatever the clock says now.
func TestP20_TokensAboveSlots(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		ahead := func(key string) (token int64) { // the clock was an hour ahead when the slot was granted
			h := c.grant(slotOf(key, 2, time.Minute))
			exec(t, l.db, fmt.Sprintf("UPDATE %s SET token=token+1024*3600000000 WHERE name='%s'", l.shares(), key))
			c.wants("release", c.release(h)[0].Status, driver.Released)
			must(t, l.db.QueryRow(fmt.Sprintf("SELECT token FROM %s WHERE name='%s'", l.shares(), key)).Scan(&token))
			return token
		}
		token := ahead("taken")
		if h := c.granted("taken", time.Minute); h.Stored < token+driver.TokenRange || h.Token < h.Stored {
			locktest.Breach(t, "P20", "an exclusive grant has token %d (%d) after a slot's %d", h.Token, h.Stored, token)
		}
		token = ahead("forced")
		if _, err := c.ForceRelease(patient(t), "forced"); err != nil {
			t.Fatal(err)
		}
		if i := c.inspect("forced"); i.Token < token+driver.TokenRange {
			locktest.Breach(t, "P20", "a forced release has token %d after a slot's %d", i.Token, token)
		}
	})
}

// TestP20_PhaseAfterAnExclusiveHold: the token of a phase is above that of the hold before,
// although its row may be gone.
func TestP20_PhaseAfterAnExclusiveHold(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		last := int64(0)
		for range 5 {
			w := c.granted("k", time.Minute)
			if w.Token < last+driver.TokenRange {
				locktest.Breach(t, "P20", "token %d after %d", w.Token, last)
			}
			c.release(w)
			a, b := c.grant(reader("k", time.Minute)), c.grant(reader("k", time.Minute))
			if a.Token < w.Token+driver.TokenRange || b.Token != a.Token || a.Phase != a.Token {
				t.Errorf("P20: readers have tokens %d and %d after %d", a.Token, b.Token, w.Token)
			}
			s := c.grant(slotOf("k", 4, time.Minute))
			last = s.Token
			c.release(a, b, s)
		}
	})
}

// TestP19_OldGate: a gate that is over is cleared before anybody joins, so that an attempt
// whose gate it was does not take the key beside him.
func TestP19_OldGate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			for _, over := range []string{"-INTERVAL 1 SECOND", "+INTERVAL 1 HOUR"} { // past, and left by a clock that was ahead
				key := name + over
				first := c.grant(reader(key, time.Minute))
				if r := c.acquire(waiting(request(key, time.Minute)))[0]; !r.Gated {
					t.Fatalf("%s: %+v", key, r)
				}
				c.wants(key, c.acquire(ask(key))[0].Status, driver.Held)
				exec(t, l.db, fmt.Sprintf("UPDATE %s SET gate_until=UTC_TIMESTAMP(6)%s WHERE name='%s'", l.table(), over, key))
				second := c.grant(ask(key))
				var gates int
				must(t, l.db.QueryRow(fmt.Sprintf("SELECT COUNT(gate) FROM %s WHERE name='%s'", l.table(), key)).Scan(&gates))
				if gates != 0 || second.Phase != first.Phase {
					t.Errorf("%s: %d gates, phases %d and %d", key, gates, first.Phase, second.Phase)
				}
			}
		})
	})
}

// TestP18_Buried: an exclusive attempt ends what has expired, and a late renewal does not
// bring it back.
func TestP18_Buried(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			for _, wants := range []bool{false, true} {
				key := fmt.Sprint(name, wants)
				h := c.grant(ask(key))
				l.ageShares(key, 2*time.Minute)
				if i := c.inspect(key); i.Held {
					t.Errorf("P18: %s has expired: %+v", key, i)
				}
				q := request(key, time.Minute)
				q.Wants = wants
				w := c.grant(q)
				c.wants("late renewal", c.renew(h)[0].Status, driver.Taken)
				c.wants("late release", c.release(h)[0].Status, driver.Taken)
				c.wants("renewal", c.renew(w)[0].Status, driver.Alive)
				c.release(w)
			}
			// Not ended yet: a renewal finds it.
			h := c.grant(ask(name))
			l.ageShares(name, 2*time.Minute)
			c.wants("renewal of one that has expired", c.renew(h)[0].Status, driver.Alive)
			c.wants("attempt", c.acquire(request(name, time.Minute))[0].Status, driver.Held)
		})
	})
}

// TestP18_ForcedByHand: where somebody ends a phase by the row of the key, as docs/operations.md
// says, its holds learn it at their next renewal.
func TestP18_ForcedByHand(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			h := c.grant(ask(name))
			kept := ""
			if l.strategy == SelectForUpdate {
				kept = ", kept_until=NULL"
			}
			exec(t, l.db, fmt.Sprintf("UPDATE %s SET token=token+1024, hold=REPEAT(CHAR(0),16), expires_at='1970-01-02', released_at=UTC_TIMESTAMP(6)%s WHERE name='%s'", l.table(), kept, name))
			c.wants("renewal", c.renew(h)[0].Status, driver.Forced)
			next := c.grant(reader(name, time.Minute))
			c.wants("renewal in the next phase", c.renew(h)[0].Status, driver.Forced)
			c.wants("the next", c.renew(next)[0].Status, driver.Alive)
			c.wants("release", c.release(h)[0].Status, driver.Released)
		})
	})
}

// TestP10_ReapPhases: rows that are over for long go, the slots' before their key's; what is
// in use stays, and no token goes back.
func TestP10_ReapPhases(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		count := func(table string) (n int) {
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&n))
			return n
		}
		reap := func() {
			t.Helper()
			_, err := c.Reap(patient(t), time.Hour)
			must(t, err)
		}
		live := []driver.Hold{c.grant(reader("live", time.Minute)), c.grant(slotOf("live", 2, time.Minute))}
		var last int64
		for _, key := range []string{"dead", "silent"} {
			c.grant(reader(key, time.Minute))
			h := c.grant(slotOf(key, 3, time.Minute))
			if last = h.Token; key == "dead" {
				c.release(h)
			}
		}
		rows := count(l.shares())
		reap()
		if n := count(l.shares()); n != rows {
			t.Fatalf("P10: %d rows of %d are left", n, rows)
		}
		for _, key := range []string{"dead", "silent"} {
			l.ageShares(key, 48*time.Hour)
			exec(t, l.db, fmt.Sprintf("UPDATE %s SET acquired_at=acquired_at-INTERVAL 48 HOUR WHERE name='%s'", l.table(), key))
		}
		reap()                                   // their tokens are of now
		if n := count(l.shares()); n != rows-2 { // a reader's is not its own
			t.Fatalf("P10: %d rows of %d are left, where the tokens of slots are not old", n, rows)
		}
		exec(t, l.db, fmt.Sprintf("UPDATE %s SET token=token-1024*48*3600000000 WHERE name<>'live' AND slot<1000", l.shares()))
		reap()
		if n := count(l.shares()); n != 2 {
			t.Errorf("P10: %d rows are left, want those of two live holds", n)
		}
		for _, h := range live {
			c.wants("live", c.renew(h)[0].Status, driver.Alive)
		}
		for _, key := range []string{"dead", "silent"} {
			i := c.inspect(key)
			if i.Held || i.Token < last {
				t.Errorf("P10: a phase that was ended: %+v, its last token was %d", i, last)
			}
			if h := c.granted(key, time.Minute); h.Token < last+driver.TokenRange {
				locktest.Breach(t, "P20", "token %d after %d", h.Token, last)
			}
		}
	})
}

// TestP15_ModesAmongBlocked: joins of a batch whose key or slot somebody has locked keep the
// others waiting for a moment only.
func TestP15_ModesAmongBlocked(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for _, key := range []string{"a", "b", "c"} {
			c.release(c.grant(reader(key, time.Minute)))
		}
		unlock := lockRow(l, "b")
		defer unlock()
		reqs := []driver.Request{reader("a", time.Minute), reader("b", time.Minute), slotOf("c", 2, time.Minute), request("d", time.Minute)}
		start := time.Now()
		for round := 0; ; round++ {
			var again []driver.Request
			for i, r := range c.acquire(reqs...) {
				switch {
				case r.Status == driver.Granted && reqs[i].Key != "b":
				case r.Status == driver.Pinned && (r.Apart && round == 0 || reqs[i].Key == "b"):
					if q := reqs[i]; r.Apart {
						q.Apart, q.Pinned, q.ID = true, true, newID()
						again = append(again, q)
					}
				default:
					t.Fatalf("round %d: %q: %+v", round, reqs[i].Key, r)
				}
			}
			if reqs = again; len(reqs) == 0 {
				break
			}
		}
		t.Logf("%v", time.Since(start))
	})
}

// TestP4_PinnedPhase: a take waits for guards of the phase, a bounded time.
func TestP4_PinnedPhase(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.grant(reader("k", time.Minute))
		unpin := l.guard("k")
		c.wants("another reader", c.acquire(reader("k", time.Minute))[0].Status, driver.Granted)
		c.wants("renewal", c.renew(h)[0].Status, driver.Alive)
		if r := c.acquire(l.waits(request("k", time.Minute)))[0]; r.Status != driver.Held || !keepsOut(r) {
			t.Errorf("one that waits beside a guard: %+v", r)
		}
		l.nobodyWaits()
		c.release(h)
		l.ageShares("k", 2*time.Minute)
		if i := c.inspect("k"); i.Held || !i.Pinned {
			t.Errorf("inspect: %+v", i)
		}
		q := l.waits(request("k", time.Minute))
		start := time.Now()
		c.wants("take", c.acquire(q)[0].Status, driver.Pinned)
		if took := time.Since(start); took < conn.Bounds[0] {
			t.Errorf("answered after %v: it did not wait at all", took)
		}
		next := l.waits(request("k", time.Minute))
		next.Gate, next.Pinned = q.ID, true
		if next.Stand {
			next.ID = q.ID
		}
		c.wants("take that looks first", c.acquire(next)[0].Status, driver.Pinned)
		want := driver.Held
		if next.Stand { // it takes the key for the one who stands
			want = driver.Pinned
		}
		c.wants("another's", c.acquire(request("k", time.Minute))[0].Status, want)
		unpin()
		q = l.waits(request("k", time.Minute))
		q.Gate, q.Pinned = next.ID, true
		if q.Stand {
			q.ID = next.ID
		}
		if w := c.grant(q); w.Token < h.Token+driver.TokenRange {
			t.Errorf("token %d after %d", w.Token, h.Token)
		}
	})
}

// TestP6_TryKeepsNobodyOut: an attempt that does not wait leaves nothing that keeps readers out.
func TestP6_TryKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.release(c.grant(reader("k", time.Minute)))
		unpin := l.guard("k")
		c.wants("try", c.acquire(request("k", time.Minute))[0].Status, driver.Pinned)
		c.wants("reader", c.acquire(reader("k", time.Minute))[0].Status, driver.Granted)
		unpin()
	})
}
