package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestP12_UndoOfAKilledSession: somebody ends the session of an attempt with KILL, between any of its steps, or that of a hold, while
// the control connection is younger than the last answer of that session. Nobody has the key, so the undo, or the release, is final.
func TestP12_UndoOfAKilledSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c, other := client{t: t, Store: l.store()}, client{t: t, Store: l.store()}
		f := c.strategy.(*session.ForUpdate)
		killed := func(id uint64) {
			t.Helper()
			exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", id))
			ctx := patient(t)
			for shown := 1; shown > 0; {
				must(t, l.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID=?", id).Scan(&shown))
			}
			time.Sleep(time.Millisecond) // the control connection is younger than any answer
			c.db.Control.CloseIdle()
		}
		final := func(t *testing.T, key string, id driver.HoldID, ttl time.Duration) {
			t.Helper()
			r := c.release(driver.Hold{Key: key, ID: id, TTL: ttl, Undo: true})[0]
			if r.Err != nil || !r.Final {
				t.Errorf("the undo: %+v, want a final answer", r)
			}
			other.release(other.granted(key, time.Minute))
		}
		for _, step := range []string{"locked", "written"} {
			t.Run("attempt, "+step, func(t *testing.T) {
				q := request(step, time.Minute)
				ctx := patient(t)
				x := f.Attempt(q)
				own, err := x.Begin(ctx)
				must(t, err)
				_, err = x.Lock(ctx)
				must(t, err)
				if step == "written" {
					_, err = x.Write(ctx)
					must(t, err)
				}
				killed(own.ID)
				_, err = x.Confirm(ctx)
				if err == nil || !own.Broken {
					t.Fatalf("the session lives: %v", err)
				}
				own.Put()
				if x.Fail(true, err) == nil {
					t.Fatal("no error")
				}
				final(t, q.Key, q.ID, q.TTL)
			})
		}
		t.Run("hold", func(t *testing.T) {
			h := c.granted("hold", time.Minute)
			killed(f.SessionOf(h).ID)
			if r := c.release(h)[0]; r.Err != nil || r.Status == driver.Unknown {
				t.Errorf("the release: %+v", r)
			}
			other.release(other.granted("hold", time.Minute))
		})
		t.Run("hold, where KILL is refused", func(t *testing.T) {
			h := c.granted("refused", time.Minute)
			killed(f.SessionOf(h).ID)
			c.db.CannotKill.Store(true)
			r := c.release(h)[0]
			if r.Err != nil { // it is not known whether the session lives
				r = c.release(h)[0]
			}
			if r.Err != nil || !r.Final {
				t.Errorf("the release: %+v, want a final answer", r)
			}
		})
	})
}
