package mysqllock

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestKeepAfterAClockWasSetBack: a hold whose grant lies ahead keeps its key, or its slot, for MinHold at most.
func TestKeepAfterAClockWasSetBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		requests := map[string]driver.Request{"slot": slotOf("slot", 1, time.Minute)}
		if l.strategy != SelectForUpdate { // which writes the end of MinHold at the grant
			requests["alone"] = request("alone", time.Minute)
		}
		for key, q := range requests {
			q.Keep = time.Minute
			h := c.gets(q)
			exec(t, l.db, "UPDATE "+l.table()+" SET acquired_at=acquired_at+INTERVAL 1 HOUR")
			exec(t, l.db, "UPDATE "+l.shares()+" SET acquired_at=acquired_at+INTERVAL 1 HOUR")
			c.ends("release in MinHold", driver.Released, h)
			if i := c.inspect(key); !i.Held || i.Left > time.Minute {
				t.Errorf("released in a MinHold of %v: %+v", q.Keep, i)
			}
		}
	})
}

// TestRowOfASilentSession: while a heartbeat is not answered the lease row is not renewed, for its end is what another
// waits for where the session is on a server that is the primary no more.
func TestRowOfASilentSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		f := c.strategy.(*session.ForUpdate)
		h := c.gets(request("k", 5*time.Minute))
		end := func() (at string) {
			must(t, l.db.QueryRow("SELECT expires_at FROM "+l.table()).Scan(&at))
			return at
		}
		answers := f.Occupy(h)
		c.wants("a renewal without an answer", c.renew(h)[0].Status, driver.Unknown) // takes as long as until a session is silent
		before := end()
		f.RowsDue()
		c.wants("a renewal without an answer", c.renew(h)[0].Status, driver.Unknown)
		if after := end(); after != before {
			t.Errorf("P27: the lease row of a session that does not answer was renewed, from %s to %s", before, after)
		}
		answers()
		eventually(t, "the lease row is renewed when the session answers", func() bool {
			c.renew(h)
			return end() > before
		})
		c.ends("release", driver.Released, h)
	})
}

// TestP6_UndoOfAWriteOnItsWay: the undo of an attempt is not final while the write of its MinHold may still come, and it is
// where that was answered.
func TestP6_UndoOfAWriteOnItsWay(t *testing.T) {
	t.Parallel()
	lost := func(rec *recorder, is func(string) bool) (statement func() string) {
		var mu sync.Mutex
		var text string
		rec.stop(func(s string) error {
			if !is(s) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			text = s
			return io.ErrUnexpectedEOF
		})
		return func() string {
			mu.Lock()
			defer mu.Unlock()
			rec.stop(nil)
			return text
		}
	}
	begin := func(t *testing.T, l *lab, is func(string) bool) (c client, undo driver.Hold, statement string) {
		var rec recorder
		c = client{t: t, Store: l.recorded(&rec)}
		c.ends("release", driver.Released, c.gets(request("k", time.Minute)))
		q := request("k", time.Minute)
		q.Keep = time.Hour
		text := lost(&rec, is)
		results, err := c.Acquire(patient(t), []driver.Request{q})
		if err == nil && results[0].Status != driver.Unknown {
			t.Fatalf("an acquire whose statement was lost: %+v", results[0])
		}
		if statement = text(); statement == "" {
			t.Fatal("the statement was not sent")
		}
		return c, driver.Hold{Key: "k", ID: q.ID, TTL: q.TTL, Keep: q.Keep, Undo: true}, statement
	}
	undone := func(t *testing.T, c client, undo driver.Hold) (r driver.Result) {
		eventually(t, "an answer to the undo", func() bool {
			results, err := c.Release(patient(t), []driver.Hold{undo})
			if err == nil {
				r = results[0]
			}
			return r.Status != driver.Unknown
		})
		return r
	}
	onBoth(t, func(t *testing.T, l *lab) {
		c, undo, late := begin(t, l, func(s string) bool { return strings.Contains(s, "kept_until=") && strings.HasPrefix(s, "UPDATE") })
		if r := undone(t, c, undo); r.Status != driver.Removed || r.Final {
			t.Errorf("P6: an undo before the write of the attempt: %+v, want that it is not final", r)
		}
		exec(t, l.db, late)
		if i := c.inspect("k"); !i.Held {
			t.Fatalf("the write that came late does not keep the key: %+v", i)
		}
		if r := undone(t, c, undo); !r.Final {
			t.Errorf("P6: an undo after the write of the attempt: %+v, want that it is final", r)
		}
		c.ends("release", driver.Released, c.gets(request("k", time.Minute)))

		c, undo, _ = begin(t, l, func(s string) bool { return strings.HasPrefix(s, "SELECT hold,wanted,") })
		_, err := c.ForceRelease(patient(t), "k") // takes back what the undo looks for
		must(t, err)
		if r := undone(t, c, undo); !r.Final {
			t.Errorf("P6: an undo of a write that was answered: %+v, want that it is final", r)
		}
	})
}

// TestP6_UndoBesideAnotherEnd: where more rows are gone than an undo has deleted it is not known which, so it is not final.
func TestP6_UndoBesideAnotherEnd(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, l *lab) {
		var rec recorder
		c := client{t: t, Store: l.recorded(&rec)}
		c.calm()
		var undos []driver.Hold
		for _, key := range []string{"a", "b"} {
			h := c.gets(request(key, time.Minute))
			h.Undo = true
			undos = append(undos, h)
		}
		var once sync.Once
		rec.stop(func(s string) error {
			if strings.HasPrefix(s, "DELETE") {
				once.Do(func() { exec(t, l.db, "DELETE FROM "+l.table()+" WHERE name='b'") })
			}
			return nil
		})
		for i, r := range c.release(undos...) {
			if r.Status != driver.Released || r.Final {
				t.Errorf("P6: undo %d of two of which another ended one in the same moment: %+v, want released, not final", i, r)
			}
		}
	}, UniqueInsert)
}

// TestKillOfAWaitIsAwaited: who leaves a queue of the server goes on when its KILL has been answered, which would hit the
// next statement of the session.
func TestKillOfAWaitIsAwaited(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.wakeups = 1
		var rec recorder
		s, other := l.recorded(&rec), l.store()
		ctx := patient(t)
		key := "k"
		first, err := other.WaitTurn(ctx, key)
		must(t, err)
		waits := func() (n int) {
			must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE state='User lock' AND db=DATABASE()").Scan(&n))
			return n
		}
		killing, kill := make(chan struct{}), make(chan struct{})
		var once sync.Once
		rec.stop(func(s string) error {
			if strings.HasPrefix(s, "KILL QUERY") {
				once.Do(func() { close(killing); <-kill })
			}
			return nil
		})
		leaves, leave := context.WithCancel(ctx)
		left := make(chan struct{})
		go func() {
			defer close(left)
			if turn, err := s.WaitTurn(leaves, key); err == nil {
				turn()
			}
		}()
		eventually(t, "the second stands in the queue", func() bool { return waits() == 1 })
		leave()
		for _, c := range []<-chan struct{}{killing} {
			select {
			case <-c:
			case <-ctx.Done():
				t.Fatal("the wait is not ended by KILL")
			}
		}
		first()
		eventually(t, "the wait has its answer", func() bool { return waits() == 0 })
		select {
		case <-left:
			t.Error("the session was used again before its KILL was answered")
		case <-time.After(200 * time.Millisecond):
		}
		close(kill)
		select {
		case <-left:
		case <-ctx.Done():
			t.Error("it never leaves")
		}
	})
}

// TestForceReleaseEndsNoLaterHold: a reader that comes while a forced release is under way is not ended by it.
func TestForceReleaseEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		var rec recorder
		s, c := l.recorded(&rec), client{t: t, Store: l.store()}
		before := c.gets(reader("k", time.Hour))
		later := reader("k", time.Hour)
		var came driver.Result
		var once sync.Once
		rec.stop(func(s string) error {
			if strings.HasPrefix(strings.ReplaceAll(s, "`", ""), "UPDATE "+l.shares()+" ") { // the second of its statements
				once.Do(func() {
					if results, err := c.Acquire(patient(t), []driver.Request{later}); err == nil {
						came = results[0]
					}
				})
			}
			return nil
		})
		_, err := s.ForceRelease(patient(t), "k")
		must(t, err)
		rec.stop(nil)
		c.ends("release of what was ended by force", driver.Forced, before)
		if came.Status != driver.Granted { // where it is one transaction nobody comes between
			came = c.asks("a reader after a forced release", later, driver.Granted)
		}
		h := before
		h.ID, h.Token, h.Stored, h.Phase = later.ID, came.Token, came.Stored, came.Phase
		c.alive("P18: a reader that came after the forced release of its key", h)
	})
}
