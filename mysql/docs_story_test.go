package mysqllock

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

var (
	aToken      = regexp.MustCompile(`\b1[0-9]{18}\b`)
	aServer     = regexp.MustCompile(`server=x'[0-9a-f]+'`)
	aStart      = regexp.MustCompile(`(started=TIMESTAMP'1970-01-01 00:00:00'\+INTERVAL )[0-9]+ SECOND`)
	aSlack      = regexp.MustCompile(`BETWEEN 1[0-9]{9} AND 1[0-9]{9}`)
	aPhase      = regexp.MustCompile(`x'0{16}[1-9a-f0][0-9a-f]*[1-9a-f][0-9a-f]*'`)
	aConnection = regexp.MustCompile(`(KILL [A-Z]+ |conn_id=)[0-9]+`)
)

// same makes the same what differs from run to run, or only in the key.
func same(s string) string {
	if report, sync := "x'7265706f7274'", "x'73796e63'"; !strings.Contains(s, report) || !strings.Contains(s, sync) {
		s = strings.NewReplacer(sync, report, "x'ffeeddccbbaa99887766554433221100'", "x'00112233445566778899aabbccddeeff'").Replace(s)
	}
	s = aPhase.ReplaceAllString(s, "x'00112233445566778899aabbccddeeff'")
	s = strings.ReplaceAll(s, "x'ff112233445566778899aabbccddeeff'", "x'00112233445566778899aabbccddeeff'") // of a phase
	s = strings.Replace(s, "AND token=0 AND", "AND token=1838313528534700032 AND", 1)
	s = aToken.ReplaceAllStringFunc(s, func(n string) string {
		if n == "1152921504606846976" {
			return n
		}
		return "1838313528534700032"
	})
	s = aServer.ReplaceAllString(s, "server=x'64622d31'")
	s = aStart.ReplaceAllString(s, "${1}1795374000 SECOND")
	s = aSlack.ReplaceAllString(s, "BETWEEN 1795373998 AND 1795374002")
	return aConnection.ReplaceAllString(s, "${1}42")
}

// tell is the story of the page: what is sent in each step.
func tell(t *testing.T, l *lab) map[string][]string {
	rec := &recorder{}
	s := l.recorded(rec)
	sent := make(map[string][]string)
	step := func(name string, f func()) {
		t.Helper()
		s.db.Usual.Store(int64(time.Hour)) // a busy machine: nothing is ended by KILL that is only slow
		rec.take()
		f()
		for _, statement := range rec.take() {
			if statement = same(statement); !slices.Contains(sent[name], statement) {
				sent[name] = append(sent[name], statement)
			}
		}
	}
	ctx := patient(t)
	step("connection", func() { must(t, s.Check(ctx)) })
	sent["connection"] = sent["connection"][:2] // the rest is Check, which is not on the page
	c := client{t: t, Store: s}

	report := driver.Request{Key: "report", ID: driver.HoldID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, Owner: "web-1:4711", TTL: 30 * time.Second, Client: 4711}
	syncing := report
	syncing.Key, syncing.ID = "sync", driver.HoldID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
	hold := func(q driver.Request) driver.Hold {
		return driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Keep: q.Keep}
	}
	wants := func(results []driver.Result, want driver.Status) {
		t.Helper()
		for _, r := range results {
			c.wants("step", r.Status, want)
		}
	}
	forUpdate, sessions := s.strategy.(*session.ForUpdate)
	due := func() { // the lease rows are to be renewed
		if sessions {
			forUpdate.RowsDue()
		}
	}

	if sessions {
		step("new key", func() { wants(c.acquire(report, syncing), driver.Granted) })
		// All that the sessions needed once.
		sent["session"] = sent["new key"]
		wants(c.release(hold(report), hold(syncing)), driver.Released)
	}
	step("acquire", func() { wants(c.acquire(report), driver.Granted) })
	step("renew", func() { due(); wants(c.renew(hold(report)), driver.Alive) })
	step("renew with MaxHold", func() {
		due()
		h := hold(report)
		h.MaxHold = time.Hour
		wants(c.renew(h), driver.Alive)
	})
	other := report
	other.ID = syncing.ID
	if sessions {
		step("refused", func() { wants(c.acquire(other), driver.Held) })
	}
	if other.Wants = sessions; sessions {
		step("wanted", func() { wants(c.acquire(other), driver.Held) })
		l.hintIsNumber("report", "NULL")
	}
	step("inspect", func() { c.inspect("report") })
	step("list", func() {
		_, err := s.List(ctx, "re", "", 100)
		must(t, err)
	})
	step("release", func() { wants(c.release(hold(report)), driver.Released) })

	if sessions {
		step("queue", func() { l.behindAnother(t, s, other); wants(c.release(hold(other)), driver.Released) })
		l.hintIsNumber("report", "NULL")
		wants(c.acquire(report), driver.Granted)
		step("release that asks", func() {
			h := hold(report)
			h.Asks = true
			wants(c.release(h), driver.Released)
		})
	} else {
		step("turn", func() {
			turn, err := s.WaitTurn(ctx, report.Key)
			must(t, err)
			turn()
			eventually(t, "the turn has ended", func() bool { return rests(s, 1) })
		})
	}
	step("several", func() { wants(c.acquire(report, syncing), driver.Granted) })
	step("renew several", func() { due(); wants(c.renew(hold(report), hold(syncing)), driver.Alive) })
	step("release several", func() { wants(c.release(hold(report), hold(syncing)), driver.Released) })

	keep := report
	keep.Keep = 10 * time.Minute
	withMinHold := func() { wants(c.acquire(keep), driver.Granted) }
	if sessions {
		step("acquire with MinHold", withMinHold)
	} else { // differs in the time only
		withMinHold()
	}
	step("undo", func() {
		h := hold(keep)
		h.Undo = true
		wants(c.release(h), driver.Released)
	})
	_, err := s.ForceRelease(ctx, "report")
	must(t, err)
	wants(c.acquire(keep), driver.Granted)
	step("release with MinHold", func() { wants(c.release(hold(keep)), driver.Released) })
	_, err = s.ForceRelease(ctx, "report")
	must(t, err)

	// A guarded transaction of an old holder is open.
	wants(c.acquire(report), driver.Granted)
	end := l.guard("report")
	if sessions {
		wants(c.release(hold(report)), driver.Released)
	} else {
		l.age("report", time.Hour)
	}
	step("pinned", func() {
		q := report
		q.ID, q.Pinned = syncing.ID, true
		wants(c.acquire(q), driver.Pinned)
	})
	end()
	_, _ = s.Release(ctx, []driver.Hold{hold(report)})

	if sessions {
		l.waitForUptime(4) // or nobody dares to KILL
		holder := openFor(t, l.dsn(), l.strategy)
		wants(client{t: t, Store: holder}.acquire(report), driver.Granted)
	} else {
		wants(c.acquire(report), driver.Granted)
	}
	step("force", func() {
		_, err := s.ForceRelease(ctx, "report")
		must(t, err)
	})
	if sessions {
		exec(t, l.db, "UPDATE rowlock_session SET wanted=NULL")
	} else {
		exec(t, l.db, "DELETE FROM "+l.table())
	}
	tellPhase(t, c, l, step, report)
	if !sessions {
		tellLine(t, c, step, report, syncing.ID)
	}
	exec(t, l.db, "DELETE FROM "+l.table())
	exec(t, l.db, fmt.Sprintf("INSERT INTO %s (name,hold,owner,token,acquired_at,expires_at,released_at) VALUES ('report',x'01','',1,'2020-01-01','1970-01-02','2020-01-01')", l.table()))
	step("reap", func() {
		n, err := s.Reap(ctx, 24*time.Hour)
		must(t, err)
		if n != 1 {
			t.Fatalf("%d rows reaped", n)
		}
	})
	return sent
}

// tellLine is the part of the story about the line of a key.
func tellLine(t *testing.T, c client, step func(string, func()), first driver.Request, second driver.HoldID) {
	h := c.grant(first)
	q := first
	q.ID, q.Client, q.Stand, q.Claim, q.EntryTime = second, 0, true, time.Second, driver.EntryTime
	step("stand", func() { c.wants("acquire", c.acquire(q)[0].Status, driver.Held) })
	step("look", func() { c.waits(q, 1, 1) })
	step("pass", func() { c.wants("release", c.release(h)[0].Status, driver.Released) })
	h = c.mine(q)
	step("confirm", func() {
		h.Confirm, h.Owner = true, first.Owner
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)
	})
	step("release with the next", func() {
		h.Next = &first
		c.wants("release", c.release(h)[0].Status, driver.Released)
	})
}

// tellPhase is the part of the story about readers and slots.
func tellPhase(t *testing.T, c client, l *lab, step func(string, func()), report driver.Request) {
	granted := func(q driver.Request) (h driver.Hold) {
		t.Helper()
		h = c.grant(q)
		return h
	}
	first := report
	first.Mode, first.ID = driver.Shared, newID()
	reader, slot, writer := report, report, report
	reader.Mode = driver.Shared
	slot.Mode, slot.Slots, slot.Slot = driver.Slot, 3, -1
	sessions := l.strategy == SelectForUpdate
	if sessions {
		writer.Wants = true
	}
	var holds [2]driver.Hold
	step("begin", func() { holds[0] = granted(reader) })
	c.release(holds[0])
	firstHold := granted(first)
	step("join", func() { holds[0] = granted(reader) })
	step("renew reader", func() { c.wants("renew", c.renew(holds[0])[0].Status, driver.Alive) })
	step("inspect phase", func() { c.inspect("report") })
	step("release reader", func() { c.wants("release", c.release(holds[0])[0].Status, driver.Released) })
	slot.Slots = 1
	step("slot", func() { holds[1] = granted(slot) })
	step("release slot", func() { c.wants("release", c.release(holds[1])[0].Status, driver.Released) })
	slot.Slot = 0
	step("same slot", func() { holds[1] = granted(slot) })
	c.release(holds[1])
	if sessions {
		step("gate", func() { c.wants("acquire", c.acquire(writer)[0].Status, driver.Held) })
		step("gated", func() { c.wants("join", c.acquire(reader)[0].Status, driver.Held) })
		exec(t, l.db, "UPDATE "+l.table()+" SET gate_until='2020-01-01'")
		step("gate over", func() { holds[0] = granted(reader) })
		c.release(holds[0])
	} else {
		step("exclusive beside a reader", func() { c.wants("acquire", c.acquire(writer)[0].Status, driver.Held) })
		waits := stands("report")
		c.wants("acquire", c.acquire(waits)[0].Status, driver.Held)
		step("reader behind", func() { c.wants("join", c.acquire(reader)[0].Status, driver.Held) })
		c.wants("undo", c.release(driver.Hold{Key: "report", ID: waits.ID, Undo: true})[0].Status, driver.Released)
	}
	c.release(firstHold)
	step("take", func() { c.wants("acquire", c.acquire(writer)[0].Status, driver.Granted) })
	c.release(driver.Hold{Key: "report", ID: writer.ID})
	granted(reader)
	l.ageShares("report", time.Hour)
	step("bury", func() { c.wants("acquire", c.acquire(writer)[0].Status, driver.Granted) })
	c.release(driver.Hold{Key: "report", ID: writer.ID})
	granted(reader)
	if sessions {
		step("undo of a gate", func() {
			c.acquire(writer)
			c.release(driver.Hold{Key: "report", ID: writer.ID, Undo: true})
		})
	}
	step("force phase", func() {
		_, err := c.ForceRelease(patient(t), "report")
		must(t, err)
	})
	more := []driver.Request{reader, reader}
	more[1].Key, more[1].ID = "sync", driver.HoldID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
	several := func() (holds []driver.Hold) {
		for i, r := range c.acquire(more...) {
			c.wants("several", r.Status, driver.Granted)
			holds = append(holds, driver.Hold{Key: more[i].Key, ID: more[i].ID, Mode: driver.Shared, Token: r.Token, Stored: r.Stored, Phase: r.Phase, TTL: report.TTL})
		}
		return holds
	}
	c.release(several()...)
	var some []driver.Hold
	step("join several", func() { some = several() })
	step("release several readers", func() { c.release(some...) })
	exec(t, l.db, "DELETE FROM "+l.shares())
}

// behindAnother is a wait in a queue of the server that ends in a grant.
func (l *lab) behindAnother(t *testing.T, s *Store, q driver.Request) {
	t.Helper()
	ctx := patient(t)
	blocker, err := l.db.Conn(ctx)
	must(t, err)
	defer func() { _ = blocker.Close() }()
	for _, n := range s.strategy.(*session.ForUpdate).Sessions.Idle() {
		n.Trip = &conn.Trip{Since: time.Now(), Least: [2]time.Duration{time.Microsecond}} // however busy the machine is, the wait is longer
	}
	_, err = blocker.ExecContext(ctx, "BEGIN")
	must(t, err)
	_, err = blocker.ExecContext(ctx, s.strategy.(*session.ForUpdate).WaitStatement(q.Key))
	must(t, err)
	done := make(chan driver.Result, 1)
	go func() {
		r, err := s.AcquireWait(ctx, q, func() {})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	eventually(t, "it waits", func() bool {
		var n int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB=DATABASE() AND INFO LIKE '%FOR UPDATE'").Scan(&n))
		return n > 0
	})
	time.Sleep(20 * time.Millisecond)
	_, err = blocker.ExecContext(ctx, "ROLLBACK")
	must(t, err)
	if r := <-done; r.Status != driver.Granted {
		t.Fatalf("%+v", r)
	}
}

func (l *lab) waitForUptime(seconds int) {
	l.t.Helper()
	for {
		var name string
		var up int
		must(l.t, l.db.QueryRow("SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &up))
		if up >= seconds {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
