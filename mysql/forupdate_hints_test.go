package mysqllock

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/session"
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

// least is the smallest of some counts: a Store may open a connection at any time.
func least(count func() uint64) uint64 {
	n := count()
	for range 3 {
		n = min(n, count())
	}
	return n
}

// TestForUpdateHintsCost: a hint is a statement of its own, sent where it is due only.
func TestForUpdateHintsCost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s := l.store()
		c := client{t: t, Store: s}
		s.db.Usual.Store(int64(time.Minute)) // a busy machine: nothing is ended by KILL that is only slow
		wants := func(what string, want uint64, before, f func()) {
			t.Helper()
			if got := least(func() uint64 {
				before()
				n := s.Statements()
				f()
				return s.Statements() - n
			}); got != want {
				t.Errorf("%s: %d statements, want %d", what, got, want)
			}
		}
		nothing := func() {}
		var h driver.Hold
		grant := func() {
			q := request("k", time.Minute)
			q.Wants = true
			h = c.grant(q)
		}
		asking := func() { grant(); h.Asks = true }
		var r driver.Result
		release := func() { r = c.release(h)[0] }
		wants("a cycle", 4, nothing, func() { grant(); release() })
		wants("a release that asks", 2, asking, release)
		c.hint("the hint of the release", r.Wanted, 0)

		grant()
		const refusal = 3
		wants("a refusal", refusal, nothing, func() { c.refuse("k", clientB, false) })
		c.wanted("k", 0)
		over := func() { l.hintIs("k", clientB, 0) }
		wants("a refusal that leaves a hint", refusal+1, over, func() { c.refuse("k", clientB, true) })
		c.wanted("k", clientB)
		fresh := func() { l.hintIs("k", clientB, 9*time.Second) }
		wants("its hint is fresh", refusal, fresh, func() { c.refuse("k", clientB, true) })
		wants("another's stands", refusal, fresh, func() { c.refuse("k", clientC, true) })
		c.wanted("k", clientB)
		release()

		wants("a release that asks, and is told", 2, func() { over(); asking(); fresh() }, release)
		c.hint("the hint of the release", r.Wanted, clientB)
		wants("a release that knows", 1, func() { fresh(); asking() }, release)
		c.hint("the hint of the release", r.Wanted, clientB)
	})
}

// TestForUpdateHintsOfTheQueue: while somebody stands in the server's queue a hint stands.
// A grant out of it leaves that of the queue, if it had to be waited for.
func TestForUpdateHintsOfTheQueue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		a, b := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		wait := func() <-chan driver.Result {
			got := make(chan driver.Result, 1)
			go func() {
				q := request("k", time.Minute)
				q.Client, q.Wants = clientB, true
				r, err := b.AcquireWait(patient(t), q, func() {})
				if err != nil || r.Status != driver.Granted {
					t.Errorf("%+v, %v", r, err)
				}
				b.release(driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL})
				got <- r
			}()
			return got
		}
		h := a.granted("k", time.Minute)
		got := wait()
		for range 2 {
			eventually(t, "the hint of who waits", func() bool { return a.inspect("k").Wanted.Client == clientB })
			l.hintIsNumber("k", "NULL")
		}
		a.release(h)
		<-got
		if by := l.hintBy("k"); by != row.QueueClient {
			t.Errorf("the hint is that of %d, want that of the queue", by)
		}

		// Another's stays.
		h = a.granted("k", time.Minute)
		l.hintIs("k", clientC, 9*time.Second)
		got = wait()
		a.release(h)
		b.hint("the hint of the grant", (<-got).Wanted, clientC)

		// Who finds nobody there leaves nothing.
		l.hintIs("k", clientB, 9*time.Second)
		for _, n := range b.strategy.(*session.ForUpdate).Sessions.Idle() {
			n.Trip = &conn.Trip{Since: time.Now(), Least: [2]time.Duration{time.Minute}} // or a busy machine might look like somebody
		}
		b.hint("the hint of the grant", (<-wait()).Wanted, 0)
		b.wanted("k", 0)
		eventually(t, "no more hints are left", func() bool {
			before := b.Statements()
			time.Sleep(driver.HintTime)
			return b.Statements() == before
		})
	})
}

// TestP15_ALockedLeaseRow: a lease row that a stranger's transaction has locked keeps
// neither the refusals of its key waiting for long, nor the hints of other keys.
func TestP15_ALockedLeaseRow(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		other := client{t: t, Store: l.bare()}
		for _, k := range []string{"a", "b", "c"} {
			c.granted(k, time.Minute)
		}
		tx, err := l.db.Begin()
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		_, err = tx.Exec("SELECT 1 FROM rowlock_session FORCE INDEX (PRIMARY) WHERE name='b' FOR UPDATE")
		must(t, err)
		for _, cannotKill := range []bool{false, true} {
			other.db.CannotKill.Store(cannotKill)
			var reqs []driver.Request
			for _, k := range []string{"a", "b", "c"} {
				q := request(k, time.Minute)
				q.Client, q.Wants = clientB, true
				reqs = append(reqs, q)
				if k != "b" {
					l.hintIsNumber(k, "NULL")
				}
			}
			before := l.now()
			for i, r := range other.acquire(reqs...) {
				c.wants(reqs[i].Key, r.Status, driver.Held)
			}
			l.leftSince("a", clientB, before)
			l.leftSince("c", clientB, before)
			c.wanted("b", 0)
		}
	})
}

// TestSlotReleaseTellsTheHint: the release of a slot that asks for it is answered with the
// hint of a program that was refused one.
func TestSlotReleaseTellsTheHint(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
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
