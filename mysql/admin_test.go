package mysqllock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

func TestList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		var reqs []driver.Request
		for i := range 25 {
			reqs = append(reqs, request(fmt.Sprintf("job/%02d", i), time.Minute))
		}
		reqs = append(reqs, request("job", time.Minute), request("jobs", time.Minute), request("\xff\xffa", time.Minute), request("\xff", time.Minute), request("a", time.Minute))
		c.acquire(reqs...)
		list := func(prefix, after string, limit int) (keys []string) {
			t.Helper()
			infos, err := c.List(patient(t), prefix, after, limit)
			must(t, err)
			for _, i := range infos {
				if !i.Held || i.Token < row.GrantedFrom || i.Left <= 0 || i.Since.IsZero() || i.Owner != "test:1" {
					t.Errorf("%+v", i)
				}
				keys = append(keys, i.Key)
			}
			return keys
		}
		same := func(got []string, want ...string) {
			t.Helper()
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		var pages []string
		for after := ""; ; {
			page := list("job/", after, 10)
			pages = append(pages, page...)
			if len(page) < 10 {
				break
			}
			after = page[len(page)-1]
		}
		if len(pages) != 25 || pages[0] != "job/00" || pages[24] != "job/24" {
			t.Errorf("%q", pages)
		}
		same(list("", "", 2), "a", "job")
		same(list("", "jobs", 10), "\xff", "\xff\xffa")
		same(list("\xff", "", 10), "\xff", "\xff\xffa")
		same(list("\xff\xff", "", 10), "\xff\xffa")
		same(list("nowhere", "", 10))
		same(list("job", "", 1), "job")
		_, err := c.List(within(t, time.Second), "", "", 0)
		refused(t, err, driver.ErrInvalid, true, "limit 0")
	})
}

func TestReap(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for _, grace := range []time.Duration{0, time.Minute, time.Hour - 1, -time.Hour} {
			_, err := c.Reap(within(t, time.Second), grace)
			refused(t, err, driver.ErrInvalid, true, "1h")
		}
		reap := func() int {
			t.Helper()
			n, err := c.Reap(patient(t), 2*time.Hour)
			must(t, err)
			return n
		}
		old := 3 * time.Hour
		ageToken := func(key string) {
			exec(t, l.db, fmt.Sprintf("UPDATE %s SET token=token-1024*%d WHERE name=x'%x'", l.table(), old.Microseconds(), key))
		}
		keep := func(h driver.Hold) driver.Hold { h.Guarded = true; return h } // its row stays, under both strategies

		c.granted("live", 4*time.Hour)
		ageToken("live")
		c.granted("renewed", time.Minute) // an old grant that lives on
		l.age("renewed", old)
		ageToken("renewed")
		exec(t, l.db, "UPDATE "+l.table()+" SET expires_at=UTC_TIMESTAMP(6)+INTERVAL 1 MINUTE WHERE name='renewed'")
		c.release(keep(c.granted("just released", time.Minute)))
		ageToken("just released")
		c.granted("just expired", time.Minute)
		l.age("just expired", 10*time.Minute)
		ageToken("just expired")
		q := request("kept", time.Minute)
		q.Keep = 24 * time.Hour
		c.release(c.grant(q))
		l.age("kept", old)
		ageToken("kept")
		c.granted("token is young", time.Minute) // as if the clock had been set back
		l.age("token is young", old)

		c.granted("long expired", time.Minute)
		l.age("long expired", old)
		ageToken("long expired")
		c.release(keep(c.granted("long released", time.Minute)))
		l.age("long released", old)
		ageToken("long released")

		unlock := lockRow(l, "long expired")
		if n := reap(); n != 1 {
			t.Errorf("%d reaped, want 1: the other is locked", n)
		}
		unlock()
		if n := reap(); n != 1 {
			t.Errorf("%d reaped, want 1", n)
		}
		if n := reap(); n != 0 {
			t.Errorf("%d reaped, want 0", n)
		}
		var left int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM "+l.table()).Scan(&left))
		if left != 6 {
			t.Errorf("%d rows left, want 6", left)
		}

		exec(t, l.db, "INSERT INTO "+l.table()+` (name,hold,owner,token,acquired_at,expires_at,released_at)
			WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i+1 FROM n WHERE i<600)
			SELECT CONCAT('dead',i),0,'',i,'2020-01-01','1970-01-02','2020-01-01' FROM n`)
		// At most 500 a call; a row whose DELETE was not answered in time is left to the next.
		sum := 0
		for calls := 0; sum < 600 && calls < 20; calls++ {
			n := reap()
			if n > 500 {
				t.Errorf("%d reaped, want at most 500", n)
			}
			sum += n
		}
		if sum != 600 {
			t.Errorf("%d reaped, want 600", sum)
		}
		if next := c.granted("dead1", time.Minute); next.Token < row.GrantedFrom {
			t.Errorf("token %d", next.Token)
		}
	})
}

// TestInfoNamesTheHold: a row can be matched with a lease and its log lines, though
// its token may be less than the lease's.
func TestInfoNamesTheHold(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		p := l.program(t, rowlock.Options{})
		lease := p.lock(t, "a")
		hold, err := rowlock.BeginGuard(lease, p.Store)
		must(t, err)
		info, err := p.Inspect(ctx, "a")
		must(t, err)
		infos, err := p.Store.List(ctx, "", "", 10)
		must(t, err)
		for what, i := range map[string]driver.Info{"Inspect": info, "List": infos[0]} {
			if i.Hold != hold.ID || i.Hold == (driver.HoldID{}) {
				t.Errorf("%s says hold %v, the lease's is %v", what, i.Hold, hold.ID)
			}
			if i.Token != hold.Stored || i.Token > lease.Token() {
				t.Errorf("%s says token %d, the lease's is %d, stored as %d", what, i.Token, lease.Token(), hold.Stored)
			}
		}
		must(t, lease.Release(ctx))
		if info, err = p.Inspect(ctx, "a"); err != nil || info.Hold != (driver.HoldID{}) {
			t.Errorf("a free key: %+v, %v", info, err)
		}
	})
}

// TestForceReleaseOfReaders: the holds of a phase are ended by a second statement. Where a stranger's
// transaction keeps that waiting, the answer says what the first one has done: whose holds it ended, and
// no ErrChanged. On MariaDB the first one waits too, and nothing is done.
func TestForceReleaseOfReaders(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		for _, aimed := range []bool{true, false} {
			key := fmt.Sprint("read ", aimed)
			c := client{t: t, Store: l.store()}
			reader := request(key, time.Hour)
			reader.Mode = driver.Shared
			hold := c.grant(reader)
			tx, err := l.db.Begin()
			must(t, err)
			defer tx.Rollback()
			var n int
			must(t, tx.QueryRow("SELECT COUNT(*) FROM (SELECT * FROM "+l.shares()+" WHERE name=? FOR UPDATE) AS x", key).Scan(&n))
			if n != 1 {
				t.Fatalf("%d rows of readers are locked", n)
			}
			seen, err := c.Inspect(patient(t), []string{key})
			must(t, err)
			var before driver.Info
			if aimed {
				before, err = c.ForceReleaseIf(patient(t), seen[0])
			} else {
				before, err = c.ForceRelease(patient(t), key)
			}
			must(t, tx.Rollback())
			after, failed := c.Inspect(patient(t), []string{key})
			must(t, failed)
			renewed, failed := c.Renew(patient(t), []driver.Hold{hold})
			must(t, failed)
			alive := renewed[0].Status == driver.Alive
			switch {
			case err == nil && (!before.Held || before.Readers != 1 || after[0].Held || alive):
				t.Errorf("aimed %v: %+v, and afterwards held %v, the reader alive %v: want what it ended", aimed, before, after[0].Held, alive)
			case err != nil && (errors.Is(err, driver.ErrChanged) || !after[0].Held || !alive || l.kind == testserver.MySQL):
				t.Errorf("aimed %v: %v, and afterwards held %v, the reader alive %v", aimed, err, after[0].Held, alive)
			}
		}
	})
}
