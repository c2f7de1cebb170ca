package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestForUpdateHintsCost: a hint is a statement of its own, sent where it is due only.
func TestForUpdateHintsCost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s := l.store()
		c := client{t: t, Store: s}
		s.db.AssumeUsualAnswer(time.Minute) // a busy machine: nothing is ended by KILL that is only slow
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
				r, err := b.AcquireWait(within(t, time.Minute), q, func() {})
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
			n.AssumeShortestAnswer(time.Minute) // or a busy machine might look like somebody
		}
		b.hint("the hint of the grant", (<-wait()).Wanted, 0)
		b.wanted("k", 0)
		eventually(t, "the hinter has ended", func() bool { return !b.strategy.(*session.ForUpdate).Hints() })
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
