package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

func TestForUpdateList(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		var holds []driver.Hold
		for i := range 8 {
			q := request(fmt.Sprint("k", i), time.Minute)
			if i == 5 {
				q.Keep = time.Hour
			}
			holds = append(holds, c.grant(q))
		}
		c.release(holds[1], holds[3], holds[5])
		infos, err := c.List(patient(t), "k", "k0", 6)
		must(t, err)
		if len(infos) != 6 {
			t.Fatalf("%d infos", len(infos))
		}
		for n, info := range infos {
			i := n + 1
			held := i != 1 && i != 3
			if info.Key != holds[i].Key || info.Held != held || info.Kept != (i == 5) || info.Token != holds[i].Stored {
				t.Errorf("%+v, want %q held %v", info, holds[i].Key, held)
			}
		}
	})
}

// The reaper removes both rows of dead keys, none of a key that is held or kept,
// and none that is being made.
func TestForUpdateReap(t *testing.T) {
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		old := func(key string) {
			l.age(key, 48*time.Hour)
			exec(t, l.db, fmt.Sprintf("UPDATE rowlock_session SET token=token-48*3600*1000000*1024 WHERE name='%s'", key))
		}
		held := c.granted("held", time.Minute)
		dead := c.granted("dead", time.Minute)
		c.release(dead)
		q := request("kept", time.Minute)
		q.Keep = time.Hour
		c.release(c.grant(q))
		for _, key := range []string{"held", "dead", "kept"} {
			old(key)
		}
		f := c.strategy.(*session.ForUpdate)
		ctx := patient(t)
		for _, statement := range []string{f.CreateLease("made"), f.CreateRow("made")} {
			exec(t, l.db, statement)
		}
		exec(t, l.db, "INSERT INTO rowlock_session (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES ('half','','',0,'1970-01-02','1970-01-02','2020-01-01')")
		n, err := c.Reap(ctx, 24*time.Hour)
		must(t, err)
		if n != 2 {
			t.Errorf("%d rows removed, want that of the dead key and the half one", n)
		}
		var rows, leases string
		must(t, l.db.QueryRow("SELECT GROUP_CONCAT(name ORDER BY name) FROM rowlock_session_row").Scan(&rows))
		must(t, l.db.QueryRow("SELECT GROUP_CONCAT(name ORDER BY name) FROM rowlock_session").Scan(&leases))
		if want := "held,kept,made"; rows != want || leases != want {
			t.Errorf("left are %q and %q, want %q", rows, leases, want)
		}
		if next := c.granted("dead", time.Minute); next.Token <= dead.Token {
			t.Errorf("token %d after %d", next.Token, dead.Token)
		}
		c.wants("renew", c.renew(held)[0].Status, driver.Alive)
	})
}
