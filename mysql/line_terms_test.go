package mysqllock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// setLine gives the row of a key a line of that SQL.
func (l *lab) setLine(key, expression string) {
	l.t.Helper()
	exec(l.t, l.db, fmt.Sprintf("UPDATE %s SET line=%s WHERE name=x'%x'", l.table(), expression, key))
}

// entryIs checks the last entry of a key: each has its own terms, to a millisecond.
func (l *lab) entryIs(q driver.Request) {
	l.t.Helper()
	var terms []byte
	var lasts int64
	must(l.t, l.db.QueryRow(fmt.Sprintf("SELECT SUBSTRING(RIGHT(line,37),17,7),CAST(CONV(HEX(RIGHT(line,7)),16,10) AS SIGNED)-CAST(CONV(HEX(LEFT(RIGHT(line,14),7)),16,10) AS SIGNED) FROM %s WHERE name=x'%x'",
		l.table(), q.Key)).Scan(&terms, &lasts))
	claim := q.Claim.Microseconds()
	guarded := byte(0)
	if q.Guarded {
		guarded = 0x80
	}
	if want := []byte{guarded, 0, 0, byte(claim >> 24), byte(claim >> 16), byte(claim >> 8), byte(claim)}; string(terms) != string(want) || lasts != q.EntryTime.Microseconds() {
		l.t.Errorf("the entry of %q has the terms %x and lasts %d µs, want %x, %v", q.Key, terms, lasts, want, q.EntryTime)
	}
}

// lineLength is how many bytes the line of a key has.
func (l *lab) lineLength(key string) (n int) {
	l.t.Helper()
	must(l.t, l.db.QueryRow(fmt.Sprintf("SELECT LENGTH(line) FROM %s WHERE name=x'%x'", l.table(), key)).Scan(&n))
	return n
}

// TestLine_MinHold: a key that MinHold keeps is passed to nobody, and to the first when that is over.
func TestLine_MinHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		q := request("k", time.Minute)
		q.Keep = time.Minute
		h := c.grant(q)
		w, next := stands("k"), stands("k")
		c.stand(w, 1, 1)
		h.Next = &next
		c.wants("release", c.release(h)[0].Status, driver.Released)
		if v := c.waits(w, 1, 2); !v.Kept || v.Free || v.Left <= 0 || v.Left > time.Minute {
			t.Errorf("%+v, want kept", v)
		}
		c.waits(next, 2, 2)
		if r := c.acquire(w)[0]; r.Status != driver.Held || r.Left <= 0 || r.Place != 1 {
			t.Errorf("%+v", r)
		}
		l.age("k", time.Hour)
		if v := c.waits(w, 1, 2); v.Kept || !v.Free {
			t.Errorf("%+v, want free", v)
		}
		c.grant(w)
		c.waits(next, 1, 1)
	})
}

// TestLine_Guarded: the release of a guarded hold passes nothing, and while its transaction is open the first of the line is told
// that the key is pinned; it is not waited for.
func TestLine_Guarded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		w := stands("k")
		c.stand(w, 1, 1)
		end := l.guard("k")
		h.Guarded = true
		c.wants("release", c.release(h)[0].Status, driver.Released)
		if v := c.waits(w, 1, 1); !v.Free || !v.Pinned {
			t.Errorf("%+v, want pinned", v)
		}
		late := stands("k")
		for place, q := range []driver.Request{w, late, request("k", time.Minute)} {
			want := []int{1, 2, 0}[place]
			if r := c.acquire(q)[0]; r.Status != driver.Pinned || r.Place != want {
				t.Errorf("%v at place %d, want pinned at %d", r.Status, r.Place, want)
			}
			q.Pinned = true
			if r := c.acquire(q)[0]; r.Status != driver.Pinned || r.Place != want {
				t.Errorf("again: %v at place %d, want pinned at %d", r.Status, r.Place, want)
			}
		}
		c.soon("an attempt that would pass it on", time.Second, func() { c.acquire(late) })
		end()
		c.wants("an acquire of the second", c.acquire(late)[0].Status, driver.Held)
		c.mine(w)
		c.waits(late, 1, 1)
	})
}

// TestLine_PinnedStands: a request with Stand for a key that is pinned, and has no line yet, stands.
func TestLine_PinnedStands(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.granted("k", time.Minute)
		end := l.guard("k")
		l.age("k", time.Hour)
		q := stands("k")
		if r := c.acquire(q)[0]; r.Status != driver.Pinned || r.Place != 1 {
			t.Errorf("%v at place %d, want pinned at 1", r.Status, r.Place)
		}
		end()
		if r := c.acquire(request("k", time.Minute))[0]; r.Status != driver.Held {
			t.Errorf("%v, want held", r.Status)
		}
		c.mine(q)
	})
}

// TestLine_Full: the 65th is refused without a place, and stands when one has died, wherever that stood.
func TestLine_Full(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		var all []driver.Request
		for n := range driver.MaxLine {
			q := stands("k")
			all = append(all, q)
			c.stand(q, n+1, n+1)
		}
		late := stands("k")
		if r := c.acquire(late)[0]; r.Status != driver.Held || r.Place != 0 || r.Standing != driver.MaxLine {
			t.Errorf("%v at %d of %d", r.Status, r.Place, r.Standing)
		}
		next := stands("k")
		h.Next = &next
		if r := c.release(h)[0]; r.Status != driver.Released || r.Place != 0 {
			t.Errorf("release with Next: %+v", r)
		}
		h = c.mine(all[0])
		c.stand(late, driver.MaxLine, driver.MaxLine)
		l.killEntry(all[40])
		c.stand(next, driver.MaxLine, driver.MaxLine)
		c.wants("release", c.release(h)[0].Status, driver.Released)
		c.mine(all[1])
	})
}

// TestLine_EndMoves: a request that stands moves the end of its entry, never to an earlier time, and not its place.
func TestLine_EndMoves(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.granted("k", time.Minute)
		q, other := stands("k"), stands("k")
		ends := func() (left int64) {
			t.Helper()
			must(t, l.db.QueryRow(fmt.Sprintf("SELECT CAST(CONV(HEX(SUBSTRING(line,31,7)),16,10) AS SIGNED)-TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)) FROM %s", l.table())).Scan(&left))
			return left
		}
		q.EntryTime = 20 * time.Second
		c.stand(q, 1, 1)
		c.stand(other, 2, 2)
		if left := ends(); left > 20e6 || left < 1e6 {
			t.Errorf("it ends in %d µs", left)
		}
		q.EntryTime = time.Minute
		c.stand(q, 1, 2)
		if left := ends(); left > 60e6 || left < 30e6 {
			t.Errorf("refreshed for a minute it ends in %d µs", left)
		}
		q.EntryTime = time.Second
		c.stand(q, 1, 2)
		if left := ends(); left < 5e6 {
			t.Errorf("refreshed for a second it ends in %d µs", left)
		}
		l.killEntry(q)
		c.stand(q, 2, 2) // at the end
	})
}

// TestLine_Corrupt: a line that cannot be read is empty, and the next write mends it.
func TestLine_Corrupt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for n, bad := range []string{"'x'", "REPEAT('x',37)", "REPEAT(x'ff',74)", "REPEAT(x'00',37)", "REPEAT('y',100)", "REPEAT('z',2368)"} {
			key := fmt.Sprint("k", n)
			h := c.granted(key, time.Minute)
			l.setLine(key, bad)
			if v := c.look(stands(key)); v.Standing != 0 || v.Free {
				t.Errorf("%s: %+v", bad, v)
			}
			c.wants(bad+": renew", c.renew(h)[0].Status, driver.Alive)
			q := stands(key)
			c.stand(q, 1, 1)
			if n := l.lineLength(key); n != 37 {
				t.Errorf("%s: %d bytes after a stand", bad, n)
			}
			l.setLine(key, bad)
			h.Next = &q
			c.wants(bad+": release", c.release(h)[0].Status, driver.Released)
			eventually(t, bad+": the next has the key", func() bool { return c.look(q).Mine || c.acquire(q)[0].Status == driver.Granted })
			h = c.mine(q)
			l.setLine(key, bad)
			c.wants(bad+": plain release", c.release(h)[0].Status, driver.Released)
			c.granted(key, time.Minute)
		}
	})
}

// TestLine_ClockSetBack: an entry that ends further ahead than an entry can was left by a clock that has been set back, and is dead.
func TestLine_ClockSetBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		q, w := stands("k"), stands("k")
		c.stand(q, 1, 1)
		c.stand(w, 2, 2)
		l.setLine("k", "INSERT(line,31,7,UNHEX(LPAD(HEX(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))+200000000),14,'0')))")
		c.waits(q, 0, 1)
		c.stand(q, 2, 2)
		c.wants("release", c.release(h)[0].Status, driver.Released)
		c.mine(w)
	})
}

// TestLine_Confirm: a renewal with Confirm writes what a pass cannot.
func TestLine_Confirm(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		q := stands("k")
		c.stand(q, 1, 1)
		c.wants("release", c.release(h)[0].Status, driver.Released)
		got := c.mine(q)
		if info := c.inspect("k"); info.Owner != "" || !info.Held || info.Hold != q.ID {
			t.Errorf("%+v", info)
		}
		got.TTL, got.Keep, got.Owner, got.Confirm = time.Second, 10*time.Minute, "owner'?", true
		before := c.Statements()
		c.wants("confirm", c.renew(got)[0].Status, driver.Alive)
		if n := c.Statements() - before; n != 1 {
			t.Logf("%d statements", n) // more where the server was slow
		}
		if info := c.inspect("k"); info.Owner != got.Owner || info.Left < 9*time.Minute || info.Token != got.Stored {
			t.Errorf("%+v", info)
		}
		got.Confirm, got.Owner, got.Keep = false, "", 0
		c.wants("renew", c.renew(got)[0].Status, driver.Alive)
		if info := c.inspect("k"); info.Owner != "owner'?" || info.Left < 9*time.Minute {
			t.Errorf("%+v", info)
		}
		c.wants("a late confirm", c.renew(driver.Hold{Key: "k", ID: h.ID, TTL: time.Minute, Confirm: true, Owner: "late"})[0].Status, driver.Taken)
	})
}

// TestLine_Force: a forced release leaves the line as it is.
func TestLine_Force(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		q := stands("k")
		c.stand(q, 1, 1)
		info, err := c.ForceRelease(patient(t), "k")
		if must(t, err); info.Waiting != 1 {
			t.Errorf("%+v", info)
		}
		if v := c.waits(q, 1, 1); !v.Free {
			t.Errorf("%+v", v)
		}
		c.wants("release", c.release(h)[0].Status, driver.Forced)
		infos, err := c.List(patient(t), "", "", 10)
		if must(t, err); len(infos) != 1 || infos[0].Waiting != 1 || infos[0].WaitingSince.IsZero() {
			t.Errorf("%+v", infos)
		}
		c.wants("try", c.acquire(request("k", time.Minute))[0].Status, driver.Held)
		if got := c.mine(q); got.Token <= h.Token {
			t.Errorf("token %d after %d", got.Token, h.Token)
		}
	})
}

// TestLine_Reap: a row with a live entry stays, one with dead entries goes.
func TestLine_Reap(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for _, key := range []string{"live", "dead", "corrupt"} {
			h := c.granted(key, time.Minute)
			q := stands(key)
			c.stand(q, 1, 1)
			h.Guarded = true
			c.wants("release", c.release(h)[0].Status, driver.Released)
			if key == "dead" {
				l.killEntry(q)
			}
		}
		l.setLine("corrupt", "'x'")
		exec(t, l.db, "UPDATE "+l.table()+" SET token=1,acquired_at='2001-01-01',expires_at='2001-01-01',released_at='2001-01-01'")
		n, err := c.Reap(patient(t), driver.MinGrace)
		if must(t, err); n != 2 {
			t.Errorf("%d rows were removed, want 2", n)
		}
		if n := l.lineLength("live"); n != 37 {
			t.Errorf("the line has %d bytes", n)
		}
	})
}

// TestLine_Batch: requests and holds of many keys are answered each as alone, in as few statements as without lines.
func TestLine_Batch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		const n = 8
		var holds []driver.Hold
		var first, second, mixed []driver.Request
		for i := range n {
			key := fmt.Sprint("k", i)
			holds = append(holds, c.granted(key, time.Minute))
			first = append(first, stands(key))
			second = append(second, stands(key))
			q := stands(key)
			q.Stand, q.Guarded = i%2 == 0, i%4 == 0
			q.Claim, q.EntryTime = time.Duration(i+1)*time.Second+time.Microsecond, time.Duration(50+i)*time.Second
			mixed = append(mixed, q)
		}
		free := stands("free")
		results := c.acquire(append(first, free)...)
		for i, r := range results[:n] {
			if r.Status != driver.Held || r.Place != 1 || r.Standing != 1 || r.Owner == "" {
				t.Errorf("%d: %+v", i, r)
			}
		}
		c.wants("a free key", results[n].Status, driver.Granted)
		if got := l.lineLength("free"); got != 0 {
			t.Errorf("the line of a key that was granted has %d bytes", got)
		}
		for _, r := range c.acquire(second...) {
			if r.Status != driver.Held || r.Place != 2 || r.Standing != 2 {
				t.Errorf("%+v", r)
			}
		}
		for i, r := range c.acquire(mixed...) {
			place := 3
			if i%2 != 0 {
				place = 0
			}
			if r.Status != driver.Held || r.Place != place || r.Standing != 2+place/3 {
				t.Errorf("%d: %+v", i, r)
			}
			if place > 0 {
				l.entryIs(mixed[i])
			}
		}
		var looks []driver.Entry
		for _, q := range second {
			looks = append(looks, entry(q))
		}
		c.calm()
		before := c.Statements()
		views, err := c.Look(patient(t), looks)
		if must(t, err); c.Statements()-before != 1 {
			t.Errorf("a look of %d keys took %d statements", n, c.Statements()-before)
		}
		for _, v := range views {
			if v.Place != 2 || v.Mine || v.Free || v.Left <= 0 || v.Age <= 0 || v.Owner == "" {
				t.Errorf("%+v", v)
			}
		}
		holds = append(holds, holdOf(free))
		holds[1].Guarded = true
		next := stands("k2")
		holds[2].Next = &next
		undo := holdOf(second[3]) // leaves in the same call
		undo.Undo = true
		holds[3] = undo
		before = c.Statements()
		for i, r := range c.release(holds...) {
			if r.Status != driver.Released || r.Final == (i == 3) {
				t.Errorf("release %d: %+v", i, r)
			}
		}
		t.Logf("%d statements to release %d holds", c.Statements()-before, len(holds))
		for i, q := range first {
			switch i {
			case 1:
				if v := c.look(q); !v.Free || v.Place != 1 {
					t.Errorf("%+v", v)
				}
			case 3:
				c.waits(q, 1, 1)
			default:
				c.mine(q)
			}
		}
		standing := 3
		c.waits(next, standing, standing)
	})
}

// TestLine_BatchOfPasses: a release of many keys that were seen with lines is one statement.
func TestLine_BatchOfPasses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.calm()
		best(t, "statements to release eight keys with lines", 1, func() int {
			var holds []driver.Hold
			var all []driver.Request
			for i := range 8 {
				key := fmt.Sprint("k", i, time.Now().UnixNano())
				holds = append(holds, c.granted(key, time.Minute))
				all = append(all, stands(key))
			}
			c.acquire(all...)
			before := c.Statements()
			for _, r := range c.release(holds...) {
				c.wants("release", r.Status, driver.Released)
			}
			n := int(c.Statements() - before)
			for i, q := range all {
				holds[i] = c.mine(q)
			}
			c.release(holds...)
			return n
		})
	})
}

// TestP25_Stand: a request with Stand for a key that nobody has costs what one without costs: its statements, and an empty line.
func TestP25_Stand(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c := client{t: t, Store: l.recorded(rec)}
		want := "[INSERT UPDATE]"
		if l.strategy == UniqueInsert {
			want = "[INSERT SELECT DELETE]"
		}
		for n := 0; ; n++ {
			rec.take()
			h := c.grant(stands("k"))
			c.wants("release", c.release(h)[0].Status, driver.Released)
			var sent []string
			for _, s := range rec.take() {
				sent = append(sent, strings.Fields(s)[0])
			}
			if fmt.Sprint(sent) == want {
				break
			}
			if n == 50 { // more where connections are opened, or a busy server is slow
				t.Fatalf("%q, want %s", sent, want)
			}
		}
		if l.strategy == VersionColumn && l.lineLength("k") != 0 {
			t.Error("it has a line")
		}
	})
}
