package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

func readerStands(key string) driver.Request { return standingFor(reader(key, time.Minute)) }

func slotStands(key string, n int) driver.Request { return standingFor(slotOf(key, n, time.Minute)) }

// TestLine_ReaderRun: when the exclusive hold before them ends, all readers at the head of the line may join, and nobody who stands
// behind an exclusive request, nor one that does not stand.
func TestLine_ReaderRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		run := []driver.Request{readerStands("k"), readerStands("k"), slotStands("k", 3)}
		for n, q := range run {
			c.stand(q, n+1, n+1)
		}
		writer, behind := stands("k"), readerStands("k")
		c.stand(writer, 4, 4)
		c.stand(behind, 5, 5)
		for n, q := range run {
			if v := c.waits(q, n+1, 5); v.Free || v.Left <= 0 || v.Shared {
				t.Errorf("%+v, want held", v)
			}
		}
		c.wants("release", c.release(h)[0].Status, driver.Released)
		c.wants("a writer that only tries", c.acquire(request("k", time.Minute))[0].Status, driver.Held)
		for n, q := range run {
			if v := c.waits(q, n+1, 5); !v.Free || v.Pinned {
				t.Errorf("%d: %+v, want free", n, v)
			}
		}
		var holds []driver.Hold
		for n, q := range run {
			var h driver.Hold
			switch n {
			case 1: // the first passes the phase to the other readers
				h = c.mine(q)
				if v := c.look(q); v.Left > claims {
					t.Errorf("passed for %v", v.Left)
				}
				h.Confirm, h.Owner = true, "a reader"
				c.wants("confirm", c.renew(h)[0].Status, driver.Alive)
				if v := c.look(q); v.Owner != "a reader" || v.Left <= claims {
					t.Errorf("confirmed: %+v", v)
				}
			default:
				if n == 2 {
					c.waits(q, 1, 3)
				}
				h = c.grant(q)
			}
			if n > 0 && h.Phase != holds[0].Phase {
				t.Errorf("phase %d, the first is in %d", h.Phase, holds[0].Phase)
			}
			if v := c.look(q); !v.Mine || v.Phase != h.Phase || v.Token != h.Token || v.Slot != h.Slot || v.Place != 0 {
				t.Errorf("%+v is not %+v", v, h)
			}
			c.wants("again", c.acquire(q)[0].Status, driver.Granted)
			holds = append(holds, h)
		}
		if v := c.waits(behind, 2, 2); v.Free || !v.Shared {
			t.Errorf("%+v behind a writer", v)
		}
		for _, q := range []driver.Request{behind, reader("k", time.Minute), slotOf("k", 3, time.Minute)} {
			if r := c.acquire(q)[0]; r.Status != driver.Held || !r.Shared {
				t.Errorf("%v joins past a writer: %+v", q.Mode, r)
			}
		}
		if v := c.waits(writer, 1, 2); v.Free || !v.Shared || v.Left <= 0 || v.Age <= 0 {
			t.Errorf("%+v, want held in a phase", v)
		}
		c.stand(writer, 1, 2)
		for _, h := range holds {
			c.wants("release", c.release(h)[0].Status, driver.Released)
		}
		if v := c.waits(writer, 1, 2); !v.Free {
			t.Errorf("%+v, want free", v)
		}
		got := c.grant(writer)
		for _, h := range holds {
			if got.Token < h.Token+driver.TokenRange {
				t.Errorf("token %d after %d", got.Token, h.Token)
			}
		}
		c.waits(behind, 1, 1)
		c.wants("release", c.release(got)[0].Status, driver.Released)
		next := c.grant(behind)
		if next.Phase < got.Token+driver.TokenRange {
			t.Errorf("phase %d after %d", next.Phase, got.Token)
		}
		if l.lineLength("k") != 0 {
			t.Errorf("the line has %d bytes", l.lineLength("k"))
		}
	})
}

// TestLine_WriterKeepsReadersOut: the entry of an exclusive request that is refused in a phase keeps new readers out from the same
// step on, until it leaves or dies.
func TestLine_WriterKeepsReadersOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.grant(reader("k", time.Minute))
		w := stands("k")
		if r := c.acquire(w)[0]; r.Status != driver.Held || !r.Shared || r.Place != 1 || r.Gated || r.Left <= 0 {
			t.Fatalf("%+v", r)
		}
		c.wants("a reader", c.acquire(reader("k", time.Minute))[0].Status, driver.Held)
		undo := holdOf(w)
		undo.Undo = true
		c.wants("leave", c.release(undo)[0].Status, driver.Released)
		c.grant(reader("k", time.Minute))
		c.acquire(w) // a new ID in earnest
		c.wants("a reader", c.acquire(reader("k", time.Minute))[0].Status, driver.Held)
		l.killEntry(w)
		c.grant(reader("k", time.Minute))
		c.grant(slotOf("k", 1, time.Minute))
	})
}

// TestLine_PhaseEnds: at the end of a phase who stands first gets the key, also by the attempt of another.
func TestLine_PhaseEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.grant(reader("k", time.Minute))
		first, second := stands("k"), stands("k")
		c.stand(first, 1, 1)
		c.stand(second, 2, 2)
		c.wants("release", c.release(h)[0].Status, driver.Released)
		if r := c.acquire(second)[0]; r.Status != driver.Held || r.Left <= 0 || r.Place != 1 || r.Standing != 1 {
			t.Errorf("%+v", r)
		}
		got := c.mine(first)
		if got.Token < h.Token+driver.TokenRange {
			t.Errorf("token %d after %d", got.Token, h.Token)
		}
		c.wants("release", c.release(got)[0].Status, driver.Released)
		c.release(c.mine(second))
		// Readers that ran out are ended.
		h = c.grant(reader("k", time.Minute))
		c.stand(first, 1, 1)
		l.ageShares("k", time.Hour)
		c.wants("try", c.acquire(request("k", time.Minute))[0].Status, driver.Held)
		c.mine(first)
		c.wants("the reader that ran out", c.renew(h)[0].Status, driver.Taken)
	})
}

// TestLine_SlotsPass: a slot passes one that stands where it takes nothing from it.
func TestLine_SlotsPass(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		a, b := c.grant(slotOf("k", 2, time.Minute)), c.grant(slotOf("k", 2, time.Minute))
		two := slotStands("k", 2)
		if r := c.acquire(two)[0]; r.Status != driver.Held || r.Place != 1 || !r.Shared || r.Left <= 0 {
			t.Fatalf("%+v", r)
		}
		three := slotStands("k", 3)
		three.Slot = 1
		if h := c.grant(three); h.Slot != 2 {
			t.Errorf("it has slot %d", h.Slot)
		}
		if h := c.grant(slotOf("k", 10, time.Minute)); h.Slot < 3 {
			t.Errorf("it has slot %d", h.Slot)
		}
		c.grant(reader("k", time.Minute))
		if v := c.waits(two, 1, 1); v.Free || v.Left <= 0 {
			t.Errorf("%+v", v)
		}
		c.wants("another of two", c.acquire(slotOf("k", 2, time.Minute))[0].Status, driver.Held)
		c.wants("release", c.release(a)[0].Status, driver.Released)
		c.wants("another of two", c.acquire(slotOf("k", 2, time.Minute))[0].Status, driver.Held)
		c.wants("one of three, of which the third is taken", c.acquire(slotOf("k", 3, time.Minute))[0].Status, driver.Held)
		if v := c.waits(two, 1, 1); !v.Free {
			t.Errorf("%+v", v)
		}
		if h := c.grant(two); h.Slot != a.Slot {
			t.Errorf("slot %d, want %d", h.Slot, a.Slot)
		}
		c.wants("release", c.release(b)[0].Status, driver.Released)
		c.grant(slotOf("k", 2, time.Minute))
	})
}

// TestLine_SharedLeaveAndNext: readers and slots leave the line, and what is to come next stands.
func TestLine_SharedLeaveAndNext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		h := c.granted("k", time.Minute)
		r, s, w := readerStands("k"), slotStands("k", 2), stands("k")
		c.stand(r, 1, 1)
		c.stand(s, 2, 2)
		c.stand(w, 3, 3)
		for _, q := range []driver.Request{r, s} {
			undo := holdOf(q)
			undo.Undo = true
			if res := c.release(undo)[0]; res.Status != driver.Released || res.Final {
				t.Errorf("%v leaves: %+v", q.Mode, res)
			}
			if res := c.release(undo)[0]; res.Status == driver.Released || res.Final {
				t.Errorf("%v leaves again: %+v", q.Mode, res)
			}
		}
		c.waits(w, 1, 1)
		next := readerStands("k")
		h.Next = &next
		c.wants("release", c.release(h)[0].Status, driver.Released)
		got := c.mine(w)
		c.waits(next, 1, 1)
		c.wants("release", c.release(got)[0].Status, driver.Released)
		rh := c.grant(next)
		wn := stands("k")
		rh.Next = &wn
		if res := c.release(rh)[0]; res.Status != driver.Released || res.Place != 1 {
			t.Errorf("%+v", res)
		}
		c.wants("a reader that tries", c.acquire(reader("k", time.Minute))[0].Status, driver.Held)
		eventually(t, "the writer has the key", func() bool { return c.look(wn).Mine || c.acquire(wn)[0].Status == driver.Granted })
	})
}

// TestLine_MixedBatch: requests of all modes of one call stand each in its line.
func TestLine_MixedBatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		a, b, d := c.granted("a", time.Minute), c.granted("b", time.Minute), c.grant(reader("d", time.Minute))
		reqs := []driver.Request{readerStands("a"), stands("b"), stands("d"), readerStands("e"), slotStands("f", 2)}
		results := c.acquire(reqs...)
		for i, r := range results[:3] {
			if r.Status != driver.Held || r.Place != 1 || r.Standing != 1 || r.First <= 0 {
				t.Errorf("%d: %+v", i, r)
			}
		}
		for _, r := range results[3:] {
			c.wants("a free key", r.Status, driver.Granted)
		}
		for _, r := range c.release(a, b, d) {
			c.wants("release", r.Status, driver.Released)
		}
		views, err := c.Look(patient(t), []driver.Entry{entry(reqs[0]), entry(reqs[1]), entry(reqs[2]), entry(reqs[3]), entry(reqs[4]), {Key: "none", ID: newID()}})
		must(t, err)
		for i, v := range views {
			mine := i == 1 || i == 3 || i == 4
			if v.Mine != mine || v.Free == mine {
				t.Errorf("%d: %+v", i, v)
			}
		}
		for i, r := range c.acquire(reqs...) {
			if r.Status != driver.Granted {
				t.Errorf("%d: %+v", i, r)
			}
		}
	})
}
