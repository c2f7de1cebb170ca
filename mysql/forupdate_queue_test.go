package mysqllock

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// TestForUpdateTrips: a key that nobody has costs four trips, three to take and one to
// release it, whether the session asks for the row lock without waiting or stands in
// the server's queue, as a caller does that takes the same key again and again. A busy
// machine makes the Store ask more: of several cycles the best counts.
func TestForUpdateTrips(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		const most, cycles = 4, 10
		s, d := l.distant(conn.FarTrip / 2)
		c := client{t: t, Store: s}
		take := map[string]func(driver.Request) driver.Hold{
			"without waiting": c.grant,
			"in the queue": func(q driver.Request) driver.Hold {
				r, err := s.AcquireWait(patient(t), q, func() {})
				must(t, err)
				c.wants("a key that nobody has", r.Status, driver.Granted)
				return driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL}
			},
		}
		for how, take := range take {
			var trips []int
			for range cycles {
				d.trips()
				c.release(take(request("key", time.Minute)))
				trips = append(trips, d.trips())
			}
			t.Log(how, trips)
			if slices.Min(trips) > most {
				t.Errorf("%s: %v trips one after the other, want at most %d", how, trips, most)
			}
		}
	})
}

// TestForUpdateTokenReadInTheQueue: others are granted the key while a waiter stands in
// the server's queue. The token that the waiter reads is the one when it gets the row
// lock, not the one when it came, so that its step (3) is sent once.
func TestForUpdateTokenReadInTheQueue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		const cycles = 5
		rec := &recorder{}
		s := l.recorded(rec)
		waiter, holder := client{t: t, Store: s}, client{t: t, Store: l.bare()}
		var writes []int
		for range cycles {
			h := holder.granted("key", time.Minute)
			rec.take()
			type answer struct {
				driver.Result
				error
			}
			q := request("key", time.Minute)
			answered := make(chan answer)
			go func() {
				r, err := waiter.AcquireWait(patient(t), q, func() {})
				answered <- answer{r, err}
			}()
			eventually(t, "it stands in the queue", func() bool { return l.inQueue() > 0 })
			raised := h.Token + 10*driver.TokenRange
			exec(t, l.db, fmt.Sprintf("UPDATE rowlock_session SET token=%d", raised)) // as grants do
			holder.release(h)
			a := <-answered
			must(t, a.error)
			waiter.wants("a key that was released", a.Status, driver.Granted)
			if a.Token < raised+driver.TokenRange {
				locktest.Breach(t, "P3", "token %d after %d", a.Token, raised)
			}
			n := 0
			for _, statement := range rec.take() {
				if strings.HasPrefix(statement, "UPDATE") {
					n++
				}
			}
			writes = append(writes, n)
			waiter.release(driver.Hold{Key: q.Key, ID: q.ID, Token: a.Token, Stored: a.Stored, TTL: q.TTL})
		}
		if slices.Min(writes) != 1 {
			t.Errorf("step (3) was sent %v times, want once", writes)
		}
	})
}

// TestForUpdateQueueKeepsPlaces: who waits in the server's queue for longer than a second is
// granted the key before one who came later. (Where the test itself was so slow that the
// first one's wait may have ended, it says nothing, and is made again.)
func TestForUpdateQueueKeepsPlaces(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		holder := client{t: t, Store: l.store()}
		waiting := func(n int) func() bool {
			return func() bool { return l.inQueue() == n }
		}
		for {
			h := holder.granted("key", time.Minute)
			granted := make(chan int, 2)
			var wg sync.WaitGroup
			began := time.Now()
			for i := range 2 {
				c := client{t: t, Store: l.bare()}
				q := request("key", time.Minute)
				wg.Go(func() {
					r, err := c.AcquireWait(patient(t), q, func() {})
					if err != nil || r.Status != driver.Granted {
						t.Errorf("waiter %d: %v, %v", i, r.Status, err)
						return
					}
					granted <- i
					_, err = c.Release(patient(t), []driver.Hold{{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL}})
					if err != nil {
						t.Error(err)
					}
				})
				eventually(t, "it stands in the queue", waiting(i+1))
				time.Sleep(conn.LockWait * 7 / 10)
			}
			holder.release(h)
			wg.Wait()
			if t.Failed() || time.Since(began) < 4*time.Second {
				if first := <-granted; first != 0 {
					t.Error("the later one was granted the key first")
				}
				return
			}
		}
	})
}

// TestForUpdateQueueOfAMissingRow: who waits for a key of which a row, or both, are not
// there makes them, and has the key: nobody else is granted it.
func TestForUpdateQueueOfAMissingRow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		c, other := client{t: t, Store: l.store()}, client{t: t, Store: l.bare()}
		for _, missing := range [][]string{{"rowlock_session", "rowlock_session_row"}, {"rowlock_session"}, {"rowlock_session_row"}} {
			key := fmt.Sprint(missing)
			c.release(c.granted(key, time.Minute))
			for _, table := range missing {
				exec(t, l.db, fmt.Sprintf("DELETE FROM %s WHERE name=x'%x'", table, key))
			}
			q := request(key, time.Minute)
			r, err := c.AcquireWait(patient(t), q, func() {})
			must(t, err)
			c.wants("a key that nobody has", r.Status, driver.Granted)
			if r := other.acquire(request(key, time.Minute))[0]; r.Status != driver.Held {
				t.Errorf("P1: %s was missing: the key that a waiter was granted is %v for another", key, r.Status)
			}
			c.release(driver.Hold{Key: key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL})
		}
	})
}

// inQueue is how many sessions stand in the server's queue for the row of a key.
func (l *lab) inQueue() (n int) {
	l.t.Helper()
	must(l.t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE '%session_row%FOR UPDATE' AND id<>CONNECTION_ID()").Scan(&n))
	return n
}
