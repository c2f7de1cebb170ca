package mysqllock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
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
	everywhere(t, func(t *testing.T, l *lab) {
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

// TestP16_JoinBeforeATake: who joins between the gate of an attempt and its take, because the
// gate is over, keeps the attempt out.
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
					exec(t, l.db, fmt.Sprintf("UPDATE %s SET gate_until='2020-01-01' WHERE name='%s'", l.table(), key))
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
		c.db.AssumeUsualAnswer(time.Minute) // what waits is not ended
		if h := c.granted("k", time.Minute); l.strategy == SelectForUpdate {
			c.release(h)
		} else {
			l.age("k", 2*time.Minute)
		}
		var last int64
		done := make(chan struct{})
		rec.before("gate_after", func() { // it begins a phase
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
			t.Errorf("P20: a reader has token %d after %d", h.Token, last)
		}
	})
}
