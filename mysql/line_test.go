package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// claims is how long the entries of these tests are passed a key.
const claims = 20 * time.Second

// standingFor makes a request one that stands.
func standingFor(q driver.Request) driver.Request {
	q.Stand, q.Claim, q.EntryTime = true, claims, time.Minute
	return q
}

func stands(key string) driver.Request { return standingFor(request(key, time.Minute)) }

func entry(q driver.Request) driver.Entry {
	return driver.Entry{Key: q.Key, ID: q.ID, Mode: q.Mode, Slots: q.Slots}
}

func holdOf(q driver.Request) driver.Hold {
	return driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Mode: q.Mode, Slot: -1}
}

func (c client) look(q driver.Request) driver.View {
	c.t.Helper()
	views, err := c.Look(patient(c.t), []driver.Entry{entry(q)})
	must(c.t, err)
	return views[0]
}

// stand is refused, and stands at that place of so many.
func (c client) stand(q driver.Request, place, standing int) {
	c.t.Helper()
	r := c.acquire(q)[0]
	if r.Status != driver.Held || r.Place != place || r.Standing != standing || r.First <= 0 {
		c.t.Fatalf("acquire with Stand: %v, place %d of %d, the first for %v, want held at %d of %d", r.Status, r.Place, r.Standing, r.First, place, standing)
	}
}

// mine is the hold of a request that was passed the key.
func (c client) mine(q driver.Request) driver.Hold {
	c.t.Helper()
	v := c.look(q)
	if !v.Mine || v.Token == 0 || v.Stored == 0 || v.Left <= 0 {
		c.t.Fatalf("the key was not passed: %+v", v)
	}
	return driver.Hold{Key: q.Key, ID: q.ID, Token: v.Token, Stored: v.Stored, Phase: v.Phase, Slot: v.Slot, TTL: q.TTL, Mode: q.Mode}
}

// waits is what a look says of a request that stands.
func (c client) waits(q driver.Request, place, standing int) driver.View {
	c.t.Helper()
	v := c.look(q)
	if v.Mine || v.Place != place || v.Standing != standing {
		c.t.Fatalf("%+v, want place %d of %d", v, place, standing)
	}
	return v
}

// killEntry makes the entry of a request a dead one.
func (l *lab) killEntry(q driver.Request) {
	l.t.Helper()
	res, err := l.db.Exec(fmt.Sprintf("UPDATE %s SET line=INSERT(line,LOCATE(x'%[2]x',line)+30,7,x'00000000000001') WHERE name=x'%[3]x' AND LOCATE(x'%[2]x',line)>0", l.table(), q.ID[:], q.Key))
	must(l.t, err)
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		l.t.Fatalf("%d rows have the entry: %v", n, err)
	}
}

// TestLine_Order: twelve programs get the key in the order in which they came, with tokens that rise.
func TestLine_Order(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		var waiting []driver.Request
		for n := range 12 {
			q := stands("k")
			waiting = append(waiting, q)
			c.stand(q, n+1, n+1)
		}
		for n, q := range waiting {
			for place, other := range waiting[n:] {
				c.waits(other, place+1, 12-n)
			}
			if info := c.inspect("k"); info.Waiting != 12-n || time.Since(info.WaitingSince) > time.Hour {
				t.Errorf("%d wait since %v, want %d", info.Waiting, info.WaitingSince, 12-n)
			}
			c.wants("release", c.release(h)[0].Status, driver.Released)
			next := c.mine(q)
			if next.Token < h.Token+driver.TokenRange || next.Stored < h.Stored+driver.TokenRange {
				t.Errorf("token %d (stored %d) after %d (%d)", next.Token, next.Stored, h.Token, h.Stored)
			}
			if v := c.look(q); v.Left > claims || v.Left < claims/2 || v.Age > time.Minute {
				t.Errorf("passed for %v, %v ago", v.Left, v.Age)
			}
			h = next
		}
		c.wants("the last release", c.release(h)[0].Status, driver.Released)
		if v := c.look(stands("k")); !v.Free || v.Standing != 0 {
			t.Errorf("%+v after all", v)
		}
		h2 := c.granted("k", time.Minute)
		if h2.Token < h.Token+driver.TokenRange {
			t.Errorf("token %d after %d", h2.Token, h.Token)
		}
	})
}

// TestLine_Repeats: a stand and a release that arrive twice, or late, change nothing.
func TestLine_Repeats(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		first := stands("k")
		h := c.grant(first)
		c.wants("the holder's request again", c.acquire(first)[0].Status, driver.Granted)
		q, third := stands("k"), stands("k")
		c.stand(q, 1, 1)
		c.stand(third, 2, 2)
		c.stand(q, 1, 2)
		c.wants("release", c.release(h)[0].Status, driver.Released)
		c.wants("release again", c.release(h)[0].Status, driver.Taken)
		got := c.mine(q)
		if r := c.acquire(q)[0]; r.Status != driver.Granted || r.Stored != got.Stored {
			t.Errorf("a late stand of one that has the key: %+v", r)
		}
		c.waits(third, 1, 1)
		next := stands("k")
		got.Next = &next
		if r := c.release(got)[0]; r.Status != driver.Released || r.Place != 1 || r.Standing != 1 {
			t.Errorf("release with Next: %+v", r)
		}
		c.wants("the same late", c.release(got)[0].Status, driver.Taken)
		c.mine(third)
		c.waits(next, 1, 1)
	})
}

// TestLine_TryNeverPasses: a request without Stand gets no key for which somebody stands: it passes it on.
func TestLine_TryNeverPasses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		q := stands("k")
		c.stand(q, 1, 1)
		h.Guarded = true // so that it is passed to nobody
		c.wants("release", c.release(h)[0].Status, driver.Released)
		if v := c.waits(q, 1, 1); !v.Free || v.Pinned || v.Left != 0 {
			t.Errorf("%+v, want free", v)
		}
		try := request("k", time.Minute)
		if r := c.acquire(try)[0]; r.Status != driver.Held || r.Left <= 0 || r.Left > claims || r.Standing != 0 {
			t.Errorf("%+v", r)
		}
		if got := c.mine(q); got.Token < h.Token+driver.TokenRange {
			t.Errorf("token %d after %d", got.Token, h.Token)
		}
		if r := c.acquire(request("k", time.Minute))[0]; r.Status != driver.Held || r.Left <= 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestLine_OwnTurn: the first of the line that asks for a key which nobody has gets it on its own terms.
func TestLine_OwnTurn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		q, second := stands("k"), stands("k")
		c.stand(q, 1, 1)
		c.stand(second, 2, 2)
		l.age("k", time.Hour)
		got := c.grant(q)
		if got.Token < h.Token+driver.TokenRange {
			t.Errorf("token %d after %d", got.Token, h.Token)
		}
		if v := c.look(q); !v.Mine || v.Left < claims || v.Owner != q.Owner {
			t.Errorf("%+v, want a TTL of a minute", v)
		}
		c.waits(second, 1, 1)
		c.wants("what ran out", c.release(h)[0].Status, driver.Taken)
	})
}

// TestLine_Leave: who leaves goes from wherever it stands, and passes the key on that it was just passed.
func TestLine_Leave(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		a, b, d := stands("k"), stands("k"), stands("k")
		c.stand(a, 1, 1)
		c.stand(b, 2, 2)
		c.stand(d, 3, 3)
		undo := holdOf(b)
		undo.Undo = true
		if r := c.release(undo)[0]; r.Status != driver.Released || r.Final {
			t.Errorf("leaving: %+v", r)
		}
		c.waits(d, 2, 2)
		c.wants("leaving again", c.release(undo)[0].Status, driver.Taken)
		c.wants("release", c.release(h)[0].Status, driver.Released)
		undo = holdOf(a) // at the moment of the pass
		undo.Undo = true
		if r := c.release(undo)[0]; r.Status != driver.Released || !r.Final {
			t.Errorf("leaving after the pass: %+v", r)
		}
		got := c.mine(d)
		c.wants("release", c.release(got)[0].Status, driver.Released)
		// The first leaves a key that is free: the second has it.
		e, f := stands("k"), stands("k")
		h = c.granted("k", time.Minute)
		c.stand(e, 1, 1)
		c.stand(f, 2, 2)
		h.Guarded = true
		c.wants("release", c.release(h)[0].Status, driver.Released)
		undo = holdOf(e)
		undo.Undo = true
		c.wants("leave", c.release(undo)[0].Status, driver.Released)
		c.mine(f)
	})
}

// TestLine_Next: a release with Next gives the key to its own next request where nobody else stands.
func TestLine_Next(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		next := stands("k")
		h.Next = &next
		if r := c.release(h)[0]; r.Status != driver.Released || r.Place != 0 {
			t.Errorf("%+v", r)
		}
		got := c.mine(next)
		other, again := stands("k"), stands("k")
		c.stand(other, 1, 1)
		got.Next = &again
		if r := c.release(got)[0]; r.Status != driver.Released || r.Place != 1 || r.Standing != 1 {
			t.Errorf("%+v", r)
		}
		got = c.mine(other)
		c.waits(again, 1, 1)
		// Of several keys at once.
		two := c.granted("l", time.Minute)
		nextOfTwo := stands("l")
		one := stands("k")
		got.Next, two.Next = &one, &nextOfTwo
		for _, r := range c.release(got, two) {
			c.wants("release of two", r.Status, driver.Released)
		}
		c.mine(again)
		c.waits(one, 1, 1)
		c.mine(nextOfTwo)
	})
}

// TestLine_Dead: dead programs that stand first are skipped, and a claim that runs out is passed on.
func TestLine_Dead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for _, dead := range []int{1, 3, 4, 7} {
			key := fmt.Sprint("k", dead)
			h := c.granted(key, time.Minute)
			for n := range dead {
				q := stands(key)
				c.stand(q, 1, 1)
				l.killEntry(q)
				c.waits(q, 0, 0)
				if n == 0 {
					if r := c.acquire(request(key, time.Minute))[0]; r.Status != driver.Held || r.Standing != 0 {
						t.Errorf("%+v", r)
					}
				}
			}
			q, last := stands(key), stands(key)
			c.stand(q, 1, 1)
			c.stand(last, 2, 2)
			c.wants("release", c.release(h)[0].Status, driver.Released)
			if dead > 4 {
				if v := c.waits(q, 1, 2); !v.Free {
					t.Errorf("%+v", v)
				}
				c.wants("an acquire that passes it on", c.acquire(last)[0].Status, driver.Held)
			}
			h = c.mine(q)
			l.age(key, time.Hour) // its claim runs out
			if v := c.waits(last, 1, 1); !v.Free {
				t.Errorf("%+v", v)
			}
			c.wants("try", c.acquire(request(key, time.Minute))[0].Status, driver.Held)
			c.mine(last)
			c.wants("the claim that ran out", c.renew(h)[0].Status, driver.Taken)
		}
	})
}

// TestLine_OnlyDead: a key for which only dead programs stand is free, for a request with Stand and for one without.
func TestLine_OnlyDead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		for n, q := range []driver.Request{request("k0", time.Minute), stands("k1")} {
			key := fmt.Sprint("k", n)
			h := c.granted(key, time.Minute)
			dead := stands(key)
			c.stand(dead, 1, 1)
			h.Guarded = true
			c.wants("release", c.release(h)[0].Status, driver.Released)
			l.killEntry(dead)
			c.grant(q)
			if v := c.look(q); !v.Mine || v.Standing != 0 {
				t.Errorf("%+v", v)
			}
			c.stand(dead, 1, 1) // it stands anew
		}
	})
}

// TestLine_Unseen: the release of a program that has not seen the line passes the key all the same, alone and among others.
func TestLine_Unseen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c, other := client{t: t, Store: l.store()}, client{t: t, Store: l.store()}
		a, b, d := c.granted("a", time.Minute), c.granted("b", time.Minute), c.granted("d", time.Minute)
		qa, qb := stands("a"), stands("b")
		other.stand(qa, 1, 1)
		other.stand(qb, 1, 1)
		c.wants("release", c.release(a)[0].Status, driver.Released)
		other.mine(qa)
		for _, r := range c.release(b, d) {
			c.wants("release", r.Status, driver.Released)
		}
		other.mine(qb)
		c.granted("d", time.Minute)
	})
}
