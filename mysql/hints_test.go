package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Numbers of clients that leave hints; the requests of other tests have ownClient.
const clientB, clientC = 4712, driver.MaxClient

// hintRow is the row of a key, as far as hints are concerned.
type hintRow struct {
	there  bool
	wanted sql.Null[uint64]
}

func (l *lab) hintRow(key string) (r hintRow) {
	l.t.Helper()
	err := l.db.QueryRow(fmt.Sprintf("SELECT wanted FROM %s WHERE name=x'%x'", l.table(), key)).Scan(&r.wanted)
	if err != sql.ErrNoRows {
		must(l.t, err)
		r.there = true
	}
	return r
}

// hintBy is whose hint the row has, over or not.
func (l *lab) hintBy(key string) uint32 {
	l.t.Helper()
	return uint32(l.hintRow(key).wanted.V & driver.MaxClient)
}

// hintIs writes the hint of a row by hand: of a client, ending after so long.
func (l *lab) hintIs(key string, client uint32, left time.Duration) {
	l.t.Helper()
	l.hintIsNumber(key, fmt.Sprintf("(%s+%d<<21)+%d", row.NowMillis, left.Milliseconds(), client))
}

func (l *lab) hintIsNumber(key, number string) {
	l.t.Helper()
	exec(l.t, l.db, fmt.Sprintf("UPDATE %s SET wanted=%s WHERE name=x'%x'", l.table(), number, key))
}

// refuse has a client ask for a key that is held.
func (c client) refuse(key string, client uint32, wants bool) {
	c.t.Helper()
	q := request(key, time.Minute)
	q.Client, q.Wants = client, wants
	c.wants("a held key", c.acquire(q)[0].Status, driver.Held)
}

// wanted checks whose hint stands on a key.
func (c client) wanted(key string, client uint32) {
	c.t.Helper()
	c.hint("the hint on "+key, c.inspect(key).Wanted, client)
}

func (c client) hint(what string, h driver.Hint, client uint32) {
	c.t.Helper()
	if h.Client != client || client > 0 && (h.Left <= 0 || h.Left > driver.MaxHintTime) || client == 0 && h.Left != 0 {
		c.t.Fatalf("%s is %+v, want one of client %d", what, h, client)
	}
}

// leaves has a client refused that waits, and checks that its hint is there and begins now.
// It then stands for longer, so that a busy machine does not let it end.
func (c client) leaves(l *lab, key string, client uint32) {
	c.t.Helper()
	before := l.now()
	c.refuse(key, client, true)
	l.leftSince(key, client, before)
	l.hintIs(key, client, 9*time.Second)
	c.wanted(key, client)
}

// now is the server's time, in milliseconds since 1970.
func (l *lab) now() (ms int64) {
	l.t.Helper()
	must(l.t, l.db.QueryRow("SELECT "+row.NowMillis).Scan(&ms))
	return ms
}

// leftSince checks that a hint was left between a time and now.
func (l *lab) leftSince(key string, client uint32, before int64) {
	l.t.Helper()
	r, after := l.hintRow(key).wanted, l.now()
	begin := int64(r.V>>row.HintBits) - driver.HintTime.Milliseconds()
	if !r.Valid || uint32(r.V&driver.MaxClient) != client || begin < before || begin > after {
		l.t.Fatalf("the hint on %s is %d of %d, want one of %d that began between %d and %d", key, begin, r.V&driver.MaxClient, client, before, after)
	}
}

// hintsOfOne are the branches of statements on one key.
func hintsOfOne(t *testing.T, l *lab, c client) {
	const key = "hint"
	q := request(key, time.Minute)
	q.Wants = true
	h := c.grant(q)
	c.wanted(key, 0)
	c.refuse(key, clientB, false)
	if r := l.hintRow(key); r.wanted.Valid {
		t.Fatalf("who does not wait left the hint %d", r.wanted.V)
	}
	c.leaves(l, key, clientB)
	same := func(what string, ask uint32) {
		t.Helper()
		before := l.hintRow(key)
		c.refuse(key, ask, true)
		if after := l.hintRow(key); after != before {
			t.Fatalf("%s: the hint was %v, is %v", what, before, after)
		}
	}
	same("another's stands", clientC)
	same("its own is fresh, although a clock was set back a little", clientB)
	l.hintIs(key, clientB, -time.Millisecond)
	c.leaves(l, key, clientC) // another's is over
	l.hintIs(key, clientB, time.Hour)
	c.wanted(key, 0)
	c.leaves(l, key, clientC) // another's ends too late
	l.hintIs(key, clientC, driver.HintTime/2-time.Millisecond)
	c.leaves(l, key, clientC) // half of its own is gone
	for _, n := range []uint64{0, math.MaxInt64, math.MaxUint64} {
		l.hintIsNumber(key, fmt.Sprint(n))
		c.wanted(key, 0)
		c.leaves(l, key, clientB)
	}

	l.hintIsNumber(key, "NULL")
	c.wants("its own hold again", c.acquire(q)[0].Status, driver.Granted)
	c.wanted(key, 0)

	l.hintIs(key, clientB, 9*time.Second)
	c.renew(h)
	c.wanted(key, clientB)
	released := c.release(h)[0]
	c.wants("release", released.Status, driver.Released)
	c.hint("the hint of the release", released.Wanted, clientB)
	c.wanted(key, clientB)
	again := c.release(h)[0]
	c.wants("release again", again.Status, driver.Released)
	c.hint("the hint of a release that ended nothing", again.Wanted, 0)

	take := func(client uint32) driver.Hold {
		t.Helper()
		q := request(key, time.Minute)
		q.Client, q.Wants = client, true
		return c.grant(q)
	}
	h = take(clientC)
	c.wanted(key, clientB)
	c.hint("the hint of the release", c.release(h)[0].Wanted, clientB)
	h = take(clientB)
	if r := l.hintRow(key); r.wanted.Valid {
		t.Fatalf("its own hint %d is there after the grant", r.wanted.V)
	}
	for _, n := range []string{"NULL", fmt.Sprint(uint64(math.MaxUint64)), "(" + row.NowMillis + "<<21)+4712", "(" + row.NowMillis + "+60000<<21)+4712"} {
		l.hintIsNumber(key, n)
		c.hint("the hint of the release", c.release(h)[0].Wanted, 0)
		if r := l.hintRow(key); r.there != (l.strategy == VersionColumn) {
			t.Fatalf("the row is there: %v", r.there)
		}
		h = take(clientB)
	}
	c.release(h)
}

// hintsOfMany are those of statements on several keys, whose requests differ.
func hintsOfMany(t *testing.T, l *lab, c client) {
	key := func(i int) string { return fmt.Sprint("hints", i) }
	for name, wants := range map[string]func(i int) bool{
		"nobody waits":  func(i int) bool { return false },
		"all wait":      func(i int) bool { return true },
		"some wait":     func(i int) bool { return i%2 == 0 },
		"some, clients": func(i int) bool { return i%2 == 1 },
	} {
		// Of three that are held one has no hint, one that of another, one an old one; of
		// three that are free one has no row, one the asker's hint, one that of another.
		var held []driver.Hold
		for i := range 3 {
			held = append(held, c.granted(key(i), time.Minute))
		}
		l.hintIs(key(1), clientC, 9*time.Second)
		l.hintIs(key(2), clientC, -time.Second)
		for i := 4; i < 6; i++ {
			h := c.granted(key(i), time.Minute)
			l.hintIs(key(i), []uint32{clientB, clientC}[i-4], 9*time.Second)
			c.release(h)
		}
		var reqs []driver.Request
		for i := range 6 {
			q := request(key(i), time.Minute)
			q.Client, q.Wants = clientB, wants(i)
			if strings.Contains(name, "clients") && i%3 == 0 {
				q.Client = 0 // has none, whatever it wants
			}
			reqs = append(reqs, q)
		}
		before := l.now()
		for i, r := range c.acquire(reqs...) {
			switch {
			case i < 3 && r.Status != driver.Held, i >= 3 && r.Status != driver.Granted:
				t.Fatalf("%s: acquire %d: %+v", name, i, r)
			case i == 1 || i == 5:
				c.wanted(key(i), clientC)
			case i < 3 && row.LeavesHint(&reqs[i]):
				l.leftSince(key(i), clientB, before)
			default:
				c.wanted(key(i), 0)
			}
			if i >= 3 {
				c.hint("the hint of a grant", r.Wanted, map[int]uint32{5: clientC}[i])
				held = append(held, driver.Hold{Key: key(i), ID: reqs[i].ID, TTL: time.Minute, Asks: i != 5})
			}
		}
		l.hintIs(key(2), clientC, 0)
		l.hintIs(key(3), clientC, 9*time.Second)
		for i, r := range c.release(held...) {
			c.wants(fmt.Sprint(name, ": release ", i), r.Status, driver.Released)
			if i == 3 || i == 4 { // the others do not ask
				c.hint("the hint of a release", r.Wanted, map[int]uint32{3: clientC}[i])
			}
		}
		for i := 1; i < 6; i++ { // of 0 it may be over
			stands := i != 2 && i != 4
			if row := l.hintRow(key(i)); row.there != (stands || l.strategy == VersionColumn) {
				t.Fatalf("%s: row %d is there: %v, has a hint: %v", name, i, row.there, stands)
			}
		}
		exec(t, l.db, "DELETE FROM "+l.table())
	}
}

// least is the smallest of some counts: a Store may open a connection at any time.
func least(count func() uint64) uint64 {
	n := count()
	for range 3 {
		n = min(n, count())
	}
	return n
}

// TestHintsCost: what hints add to statements that are sent anyway is no statement and no
// write; a hint that is left is one write, a release of a key that is wanted costs
// UniqueInsert one statement more, a batch of releases one plain read where somebody asks.
func TestHintsCost(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.keepAfter = conn.KeepAfter
		s := l.store()
		c := client{t: t, Store: s}
		s.db.AssumeUsualAnswer(time.Minute) // a busy machine: nothing is ended by KILL that is only slow
		trips := func(f func()) uint64 {
			before := s.Statements()
			f()
			return s.Statements() - before
		}
		grant := func(key string, wants bool) driver.Hold {
			q := request(key, time.Minute)
			q.Wants = wants
			h := c.grant(q)
			h.Asks = true
			return h
		}
		cycle := func(wants bool) uint64 { return trips(func() { c.release(grant("a", wants)) }) }
		for range 4 {
			cycle(true)
		}
		for _, wants := range []bool{false, true} {
			for range 3 { // the first ones prepare
				cycle(wants)
			}
			if got := least(func() uint64 { return cycle(wants) }); got != l.cycleTrips() {
				t.Errorf("a cycle with a hint to leave (%v) is %d statements, want %d", wants, got, l.cycleTrips())
			}
		}

		// A refusal is one statement. It writes where it leaves a hint, and only there.
		h := grant("a", true)
		table := s.strategy.(*row.Table).Name
		must(t, s.db.Step(within(t, time.Minute), s.db.Acquires, func(one *conn.Conn) error {
			for i, r := range []struct {
				hint   string
				client uint32
				wants  bool
				writes int
			}{
				{"NULL", clientB, false, 0},
				{"NULL", clientB, true, 1},
				{"(" + row.NowMillis + "+9000<<21)+4712", clientB, true, 0},
				{"(" + row.NowMillis + "+9000<<21)+4712", clientC, true, 0},
				{"(" + row.NowMillis + "<<21)+4712", clientC, true, 1},
				{"(" + row.NowMillis + "<<21)+4712", clientC, false, 0},
			} {
				q := request("a", time.Minute)
				q.Client, q.Wants = r.client, r.wants
				for range 3 { // with literals, then prepared
					l.hintIsNumber("a", r.hint)
					writes := handlerCalls(t, one, "Handler_update", func() error {
						_, err := one.ExecOne(within(t, time.Minute), 0, row.Upsert(table, []driver.Request{q}))
						return err
					})
					if writes != r.writes {
						t.Errorf("refusal %d writes %d rows, want %d", i, writes, r.writes)
					}
				}
			}
			return nil
		}))

		want := uint64(1)
		if l.strategy == UniqueInsert {
			want = 2
		}
		if got := least(func() (n uint64) {
			for range 3 { // the first ones prepare
				l.hintIs("a", clientC, 9*time.Second)
				n = trips(func() { c.release(h) })
				h = grant("a", true)
			}
			return n
		}); got != want {
			t.Errorf("the release of a key that is wanted is %d statements, want %d", got, want)
		}

		for asks, want := range map[int]uint64{0: 1, 1: 2, 3: 2} {
			if l.strategy == UniqueInsert {
				want = 2 // the rows are read in any case
			}
			if got := least(func() uint64 {
				var holds []driver.Hold
				for i := range 3 {
					h := grant(fmt.Sprint("b", i), true)
					h.Asks = i < asks
					holds = append(holds, h)
				}
				return trips(func() { c.release(holds...) })
			}); got != want {
				t.Errorf("a release of three, of which %d ask, is %d statements, want %d", asks, got, want)
			}
		}
	})
}

// TestHintAfterALook: an attempt that looks before it asks leaves its hint too, unless
// it would have to wait for the row.
func TestHintAfterALook(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		c := client{t: t, Store: s}
		c.granted("k", time.Minute)
		for _, cannotKill := range []bool{false, true} {
			s.db.CannotKill.Store(cannotKill)
			refuse := func(client uint32) {
				t.Helper()
				q := request("k", time.Minute)
				q.Client, q.Wants, q.Pinned = client, true, !cannotKill
				c.wants("a held key", c.acquire(q)[0].Status, driver.Held)
			}
			before := l.now()
			refuse(clientB)
			l.leftSince("k", clientB, before)
			l.hintIsNumber("k", "NULL")
			tx, err := l.db.Begin()
			must(t, err)
			_, err = tx.Exec("SELECT 1 FROM " + l.table() + " FORCE INDEX (PRIMARY) WHERE name='k' FOR UPDATE")
			must(t, err)
			refuse(clientC)
			must(t, tx.Rollback())
			c.wanted("k", 0)
		}
	})
}

// TestHintBetweenReadAndDelete: a hint that comes while several rows are being deleted
// keeps its row, and all are released.
func TestHintBetweenReadAndDelete(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprint(kind, "/", n), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, kind, UniqueInsert)
				rec := &recorder{}
				c := client{t: t, Store: l.recorded(rec)}
				var holds []driver.Hold
				for i := range n {
					h := c.granted(fmt.Sprint("k", i), time.Minute)
					h.Asks = true
					holds = append(holds, h)
				}
				var once sync.Once
				rec.watch(func(context.Context) {
					rec.mu.Lock()
					last := rec.statements[len(rec.statements)-1]
					rec.mu.Unlock()
					if strings.HasPrefix(last, "DELETE") {
						once.Do(func() { l.hintIs("k0", clientB, 9*time.Second) })
					}
				})
				for i, r := range c.release(holds...) {
					c.wants(fmt.Sprint("release ", i), r.Status, driver.Released)
				}
				rec.watch(nil)
				for i := range n {
					if row := l.hintRow(fmt.Sprint("k", i)); row.there != (i == 0) {
						t.Errorf("row %d is there: %v", i, row.there)
					}
				}
				c.wanted("k0", clientB)
				c.granted("k0", time.Minute)
			})
		}
	}
}

// TestSlotReleaseTellsTheHint: the release of a slot that asks for it is answered with the
// hint of a program that was refused one.
func TestSlotReleaseTellsTheHint(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.grant(slotOf("k", 1, time.Minute))
		eventually(t, "the refused program's hint is there", func() bool {
			other := slotOf("k", 1, time.Minute)
			other.Client, other.Wants = clientB, true
			c.wants("the only slot", c.acquire(other)[0].Status, driver.Held)
			return c.inspect("k").Wanted.Client == clientB
		})
		l.hintIs("k", clientB, 9*time.Second)
		h.Asks = true
		r := c.release(h)[0]
		c.wants("release", r.Status, driver.Released)
		c.hint("the answer to the release of a wanted slot", r.Wanted, clientB)
	})
}
