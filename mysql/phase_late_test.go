package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// before runs f before the first statement that is sent with the words in it.
func (r *recorder) before(words string, f func()) {
	var once sync.Once
	r.watch(func(context.Context) {
		r.mu.Lock()
		last := r.statements[len(r.statements)-1]
		r.mu.Unlock()
		if strings.Contains(last, words) {
			once.Do(f)
		}
	})
}

// TestP19_LateTake: a take that comes when its attempt's gate is another's changes nothing,
// although nobody has the key.
func TestP19_LateTake(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c := client{t: t, Store: l.recorded(rec)}
		for i, gate := range []string{"gate=REPEAT('x',16)", "gate=NULL"} {
			key := fmt.Sprint("k", i)
			c.release(c.grant(reader(key, time.Minute)))
			rec.before("NOT EXISTS", func() { exec(t, l.db, fmt.Sprintf("UPDATE %s SET %s WHERE name='%s'", l.table(), gate, key)) })
			r := c.acquire(waiting(request(key, time.Minute)))[0]
			rec.watch(nil)
			if r.Status != driver.Held {
				t.Errorf("P19: a take whose gate does not stand, after %s: %+v", gate, r)
			}
		}
	})
}

// TestP16_JoinBeforeATake: who joins between the look of an exclusive attempt and its take, because nobody stands, or its gate is
// over, keeps the attempt out.
func TestP16_JoinBeforeATake(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c, other := client{t: t, Store: l.recorded(rec)}, client{t: t, Store: l.store()}
		readerOrSlot(func(name string, ask func(string) driver.Request) {
			for _, wants := range []bool{false, true} {
				key := fmt.Sprint(name, wants)
				c.release(c.grant(reader(key, time.Minute)))
				var h driver.Hold
				rec.before("NOT EXISTS", func() {
					if l.strategy == SelectForUpdate {
						exec(t, l.db, fmt.Sprintf("UPDATE %s SET gate_until='2020-01-01' WHERE name='%s'", l.table(), key))
					}
					h = other.grant(ask(key))
				})
				q := request(key, time.Minute)
				q.Wants = wants
				r := c.acquire(q)[0]
				rec.watch(nil)
				if r.Status != driver.Held || !r.Shared {
					t.Errorf("P16: an exclusive attempt beside a %s that came before its take: %+v", name, r)
				}
				other.wants("renewal", other.renew(h)[0].Status, driver.Alive)
			}
		})
	})
}

// TestP20_PhaseThatWaited: a phase that began by a statement which had to wait has a token
// above all that was granted meanwhile, also where the row of that is gone.
func TestP20_PhaseThatWaited(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c := client{t: t, Store: l.recorded(rec)}
		c.db.Usual.Store(int64(time.Minute)) // what waits is not ended
		if h := c.granted("k", time.Minute); l.strategy == SelectForUpdate {
			c.release(h)
		} else {
			l.age("k", 2*time.Minute)
		}
		var last int64
		done := make(chan struct{})
		rec.before("phase", func() { // it begins a phase
			tx, err := l.db.Begin()
			must(t, err)
			var now int64
			must(t, tx.QueryRow("SELECT 1 FROM "+l.table()+" WHERE name='k' FOR UPDATE").Scan(&now))
			go func() {
				defer close(done)
				time.Sleep(150 * time.Millisecond)
				// What a hold does that was granted and is over.
				err := tx.QueryRow("SELECT 1024*TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))").Scan(&last)
				over := fmt.Sprintf("UPDATE %s SET token=%d WHERE name='k'", l.table(), last)
				if l.strategy == UniqueInsert {
					over = "DELETE FROM " + l.table() + " WHERE name='k'"
				}
				if err == nil {
					_, err = tx.Exec(over)
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					t.Error(err)
				}
			}()
		})
		h := c.grant(reader("k", time.Minute))
		rec.watch(nil)
		<-done
		if h.Token <= last {
			locktest.Breach(t, "P20", "a reader has token %d after %d", h.Token, last)
		}
	})
}

// TestP16_JoinDuringATake: whoever joins while the take of an exclusive attempt waits for the row of the key keeps the attempt out,
// whenever the server looks for holds.
func TestP16_JoinDuringATake(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		r, err := l.duringATake(t, "token,token,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)+INTERVAL 1 MINUTE,NULL")
		if err == nil && r.Status == driver.Granted {
			t.Errorf("P16: an exclusive attempt beside a slot that came while its take waited: %+v", r)
		} else {
			t.Logf("join: %v; take: %v", err, r.Status)
		}
	})
}

// TestP20_SlotDuringATake: a slot that comes and goes while the take of an exclusive attempt waits for the row of the key has a lesser
// token than the attempt.
func TestP20_SlotDuringATake(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		r, err := l.duringATake(t, "token+(1<<50),token,UTC_TIMESTAMP(6),TIMESTAMP'1970-01-02 00:00:00',UTC_TIMESTAMP(6)")
		if conn.Number(err) == conn.ErDeadlock { // the take came first
			t.Logf("slot: %v; take: %v", err, r.Status)
			return
		}
		must(t, err)
		var slot int64
		must(t, l.db.QueryRow("SELECT token FROM "+l.shares()+" WHERE name='k' AND slot=0").Scan(&slot))
		if r.Status == driver.Granted && r.Stored <= slot {
			locktest.Breach(t, "P20", "the token %d of an exclusive attempt is not above that of the slot before it, %d", r.Stored, slot)
		}
	})
}

// duringATake acquires the key k, which readers have left, while a slot with these columns, from token on, is made under a shared lock
// of the key's row: for which the take waits, once it is sent.
func (l *lab) duringATake(t *testing.T, slot string) (r driver.Result, failed error) {
	rec := new(recorder)
	c := client{t: t, Store: l.recorded(rec)}
	c.db.Usual.Store(int64(time.Minute)) // what waits is not ended
	h := c.grant(reader("k", time.Minute))
	c.release(h)
	joined := make(chan error, 1)
	rec.before("NOT EXISTS", func() {
		tx, err := l.db.Begin()
		must(t, err)
		var now int64
		must(t, tx.QueryRow("SELECT 1 FROM "+l.table()+" WHERE name='k' LOCK IN SHARE MODE").Scan(&now))
		go func() { // what a join does, which has the shared lock of the row
			time.Sleep(150 * time.Millisecond)
			_, err := tx.Exec(fmt.Sprintf("INSERT INTO %s (name,slot,hold,owner,token,phase,acquired_at,expires_at,released_at) SELECT name,0,REPEAT('x',16),'',%s FROM %s WHERE name='k'",
				l.shares(), slot, l.table()))
			joined <- errors.Join(err, tx.Commit())
		}()
	})
	r = c.acquire(request("k", time.Minute))[0]
	rec.watch(nil)
	return r, <-joined
}
