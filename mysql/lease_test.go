package mysqllock

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// branches are the cases of the statements, each on keys of its own.
var branches = []struct {
	name string
	run  func(t *testing.T, l *lab, c client)
}{
	{"a free key is granted, a held one refused with the rest of its time", func(t *testing.T, l *lab, c client) {
		h := c.granted("a", time.Minute)
		r := c.acquire(request("a", time.Minute))[0]
		c.wants("a second acquire", r.Status, driver.Held)
		if r.Left < 50*time.Second || r.Left > time.Minute {
			t.Fatalf("left %v of a minute", r.Left)
		}
		info := c.inspect("a")
		if !info.Held || info.Kept || info.Pinned || info.Owner != "test:1" || info.Token != h.Stored || info.Left < 50*time.Second {
			t.Fatalf("inspect: %+v", info)
		}
		if age := time.Since(info.Since); age < -time.Minute || age > time.Minute || info.Since.Location() != time.UTC {
			t.Fatalf("since %v", info.Since)
		}
		c.wants("release", c.release(h)[0].Status, driver.Released)
		if info := c.inspect("a"); info.Held || info.Left != 0 {
			t.Fatalf("inspect after the release: %+v", info)
		}
		if next := c.granted("a", time.Minute); next.Token < h.Token+driver.TokenRange {
			t.Fatalf("token %d after %d", next.Token, h.Token)
		}
	}},
	{"an acquire finds its own hold and changes nothing", func(t *testing.T, l *lab, c client) {
		q := request("b", time.Minute)
		h := c.grant(q)
		before := c.inspect("b")
		q.TTL = time.Hour
		r := c.acquire(q)[0]
		c.wants("the same again", r.Status, driver.Granted)
		if r.Stored != h.Stored || c.inspect("b").Left > before.Left {
			t.Fatalf("stored %d was %d, left %v was %v", r.Stored, h.Stored, c.inspect("b").Left, before.Left)
		}
	}},
	{"a renewal never shortens", func(t *testing.T, l *lab, c client) {
		h := c.granted("c", time.Hour)
		h.TTL = time.Second
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)
		if left := c.inspect("c").Left; left < 50*time.Minute {
			t.Fatalf("left %v of an hour", left)
		}
	}},
	{"a renewal extends, at most to MaxHold", func(t *testing.T, l *lab, c client) {
		h := c.granted("d", time.Second)
		h.TTL, h.MaxHold = time.Hour, time.Minute
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)
		if left := c.inspect("d").Left; left < 50*time.Second || left > time.Minute {
			t.Fatalf("left %v, want a minute", left)
		}
		r := c.renew(h)[0]
		c.wants("renew again", r.Status, driver.Alive)
		if r.Left > time.Minute {
			t.Fatalf("left %v, want a minute", r.Left)
		}
		l.age("d", 2*time.Minute)
		c.wants("renew past MaxHold", c.renew(h)[0].Status, clientFoundRows(c, driver.Unknown))
		c.granted("d", time.Second)
	}},
	{"an expired hold may be renewed until somebody takes the key", func(t *testing.T, l *lab, c client) {
		h := c.granted("e", time.Minute)
		l.age("e", 2*time.Minute)
		if info := c.inspect("e"); info.Held || info.Pinned {
			t.Fatalf("inspect: %+v", info)
		}
		c.wants("renew", c.renew(h)[0].Status, driver.Alive)
		c.wants("another", c.acquire(request("e", time.Minute))[0].Status, driver.Held)
		l.age("e", 2*time.Minute)
		next := c.granted("e", time.Minute)
		if next.Token < h.Token+driver.TokenRange {
			t.Fatalf("token %d after %d", next.Token, h.Token)
		}
		c.wants("renew", c.renew(h)[0].Status, driver.Taken)
		c.wants("release", c.release(h)[0].Status, driver.Taken)
		if !c.inspect("e").Held {
			t.Fatal("the stale release freed the key")
		}
		c.release(next)
	}},
	{"a release is repeated without effect", func(t *testing.T, l *lab, c client) {
		h := c.granted("f", time.Minute)
		c.release(h)
		want := driver.Released
		if l.strategy == UniqueInsert {
			want = driver.Removed
		}
		c.wants("release", c.release(h)[0].Status, want)
		c.wants("renew", c.renew(h)[0].Status, want)
		next := c.granted("f", time.Minute)
		c.wants("release", c.release(h)[0].Status, driver.Taken)
		if info := c.inspect("f"); !info.Held || info.Token != next.Stored {
			t.Fatalf("inspect: %+v", info)
		}
	}},
	{"MinHold keeps the key after a release", func(t *testing.T, l *lab, c client) {
		q := request("g", time.Second)
		q.Keep = time.Minute
		h := c.grant(q)
		if left := c.inspect("g").Left; left < 50*time.Second {
			t.Fatalf("left %v: a crash would end MinHold", left)
		}
		c.wants("release", c.release(h)[0].Status, driver.Released)
		if info := c.inspect("g"); !info.Held || !info.Kept || info.Left < 50*time.Second || info.Left > time.Minute {
			t.Fatalf("inspect: %+v", info)
		}
		c.wants("another", c.acquire(request("g", time.Second))[0].Status, driver.Held)
		c.wants("a ghost of the acquire", c.acquire(q)[0].Status, driver.Held)
		c.wants("a late renewal", c.renew(h)[0].Status, driver.Released)
		c.wants("a second release", c.release(h)[0].Status, driver.Released)
		h.Undo = true
		c.wants("a late undo", c.release(h)[0].Status, driver.Released)
		if info := c.inspect("g"); !info.Kept || info.Left < 50*time.Second {
			t.Fatalf("inspect: %+v", info)
		}
		l.age("g", time.Minute)
		c.wants("a renewal after the keep", c.renew(h)[0].Status, driver.Released)
		c.granted("g", time.Second)
		c.wants("a renewal after the next grant", c.renew(h)[0].Status, driver.Taken)
	}},
	{"a release after MinHold frees at once", func(t *testing.T, l *lab, c client) {
		q := request("h", time.Minute)
		q.Keep = time.Second
		h := c.grant(q)
		l.age("h", 2*time.Second)
		c.release(h)
		c.granted("h", time.Second)
	}},
	{"an undo frees at once, whatever MinHold", func(t *testing.T, l *lab, c client) {
		q := request("i", time.Second)
		q.Keep = time.Minute
		h := c.grant(q)
		h.Undo = true
		r := c.release(h)[0]
		c.wants("undo", r.Status, driver.Released)
		if !r.Final {
			t.Fatal("an undo that ended the hold must be final")
		}
		c.granted("i", time.Second)
		r = c.release(driver.Hold{Key: "i", ID: newID(), Undo: true})[0]
		c.wants("undo of a stranger", r.Status, driver.Taken)
		if r.Final {
			t.Fatal("an undo that found nothing must not be final")
		}
		r = c.release(driver.Hold{Key: "nowhere", ID: newID(), Undo: true})[0]
		c.wants("undo of nothing", r.Status, driver.Removed)
		if r.Final {
			t.Fatal("an undo that found nothing must not be final")
		}
	}},
	{"force release ends every kind of hold", func(t *testing.T, l *lab, c client) {
		force := func(key string) driver.Info {
			t.Helper()
			info, err := c.ForceRelease(patient(t), key)
			must(t, err)
			return info
		}
		h := c.granted("j", time.Minute)
		if info := force("j"); !info.Held || info.Token != h.Stored {
			t.Fatalf("before: %+v", info)
		}
		c.wants("renew", c.renew(h)[0].Status, driver.Forced)
		c.wants("release", c.release(h)[0].Status, driver.Forced)
		if info := c.inspect("j"); info.Held || info.Token < h.Stored+driver.TokenRange {
			t.Fatalf("after: %+v", info)
		}
		next := c.granted("j", time.Minute)
		if next.Token < h.Token+driver.TokenRange {
			t.Fatalf("token %d after %d", next.Token, h.Token)
		}
		l.age("j", 2*time.Minute) // expired, untaken: could be renewed
		if info := force("j"); info.Held {
			t.Fatalf("before: %+v", info)
		}
		c.wants("renew", c.renew(next)[0].Status, driver.Forced)
		q := request("j", time.Second)
		q.Keep = time.Minute
		c.release(c.grant(q))
		if info := force("j"); !info.Kept {
			t.Fatalf("before: %+v", info)
		}
		c.granted("j", time.Second)
		if info := force("nowhere"); info.Held || info.Key != "nowhere" {
			t.Fatalf("nothing: %+v", info)
		}
	}},
	{"many keys in one call have their own answers, in the caller's order", func(t *testing.T, l *lab, c client) {
		held := c.granted("m5", time.Minute)
		expired := c.granted("m3", time.Minute)
		l.age("m3", 2*time.Minute)
		reqs := []driver.Request{}
		for _, k := range []string{"m9", "m5", "m1", "m3", "m7"} {
			reqs = append(reqs, request(k, time.Minute))
		}
		results := c.acquire(reqs...)
		var holds []driver.Hold
		for i, r := range results {
			want := driver.Granted
			if reqs[i].Key == held.Key {
				want = driver.Held
				if r.Left < 50*time.Second || r.Owner != "test:1" {
					t.Fatalf("held: %+v", r)
				}
			} else {
				holds = append(holds, driver.Hold{Key: reqs[i].Key, ID: reqs[i].ID, TTL: time.Minute})
			}
			c.wants(reqs[i].Key, r.Status, want)
		}
		again := c.acquire(reqs...)
		for i, r := range again {
			if r.Status != results[i].Status || r.Stored != results[i].Stored {
				t.Fatalf("again %q: %+v, was %+v", reqs[i].Key, r, results[i])
			}
		}
		holds[0].TTL = time.Hour
		stale := driver.Hold{Key: held.Key, ID: newID(), TTL: time.Minute}
		for i, r := range c.renew(append(holds, stale, driver.Hold{Key: "nowhere", ID: newID(), TTL: time.Minute})...) {
			want := driver.Alive
			switch i {
			case len(holds):
				want = driver.Taken
			case len(holds) + 1:
				want = driver.Removed
			}
			c.wants(fmt.Sprint("renew ", i), r.Status, want)
		}
		if left := c.inspect(holds[0].Key).Left; left < 50*time.Minute {
			t.Fatalf("left %v of an hour", left)
		}
		c.wants("renew the expired one", c.renew(expired)[0].Status, driver.Taken)
		for i, r := range c.release(append(holds, stale)...) {
			want := driver.Released
			if i == len(holds) {
				want = driver.Taken
			}
			c.wants(fmt.Sprint("release ", i), r.Status, want)
			if r.Final != (want == driver.Released) {
				t.Fatalf("release %d: final %v", i, r.Final)
			}
		}
		if r := c.acquire(reqs...); r[0].Status != driver.Granted || r[1].Status != driver.Held {
			t.Fatalf("after the release: %+v", r)
		}
	}},
	{"keys are bytes", func(t *testing.T, l *lab, c client) {
		keys := []string{"k", "K", "k ", "k\x00", "ka\u0301", "k\u00e1", "k'", `k\`, "k\xff\xfe", "k🔒", string(slices.Repeat([]byte{'k'}, driver.MaxKey))}
		for _, k := range keys {
			c.granted(k, time.Minute)
		}
		infos, err := c.Inspect(patient(t), keys)
		must(t, err)
		for i, info := range infos {
			if info.Key != keys[i] || !info.Held {
				t.Fatalf("%q: %+v", keys[i], info)
			}
		}
		listed, err := c.List(patient(t), "k", "", 100)
		must(t, err)
		keys = slices.DeleteFunc(keys, func(k string) bool { return k[0] != 'k' })
		slices.Sort(keys)
		if len(listed) != len(keys) {
			t.Fatalf("list: %d keys, want %d", len(listed), len(keys))
		}
		for i, info := range listed {
			if info.Key != keys[i] {
				t.Fatalf("list %d: %q, want %q", i, info.Key, keys[i])
			}
		}
	}},
	{"the owner is for people: any bytes, none too", func(t *testing.T, l *lab, c client) {
		q := request("o", time.Minute)
		q.Owner = ""
		c.grant(q)
		if info := c.inspect("o"); info.Owner != "" {
			t.Fatalf("owner %q", info.Owner)
		}
		q = request("o2", time.Minute)
		q.Owner = "pod'\\\"\x00`"
		c.grant(q)
		if info := c.inspect("o2"); info.Owner != q.Owner {
			t.Fatalf("owner %q", info.Owner)
		}
	}},
}

// clientFoundRows: a renewal that changes nothing counts as a changed row there.
func clientFoundRows(c client, otherwise driver.Status) driver.Status {
	if c.foundRows {
		return driver.Alive
	}
	return otherwise
}

// TestRacersOnAFreshKey: 64 clients at once on keys that have no row yet; one wins
// each, and none sees a deadlock or a duplicate key.
func TestRacersOnAFreshKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		stores := []*Store{l.store(), l.bare(), l.bare(), l.bare()}
		for round := range 20 {
			var mu sync.Mutex
			count := map[driver.Status]int{}
			var wg sync.WaitGroup
			key := fmt.Sprint("fresh", round)
			for i := range 64 {
				wg.Go(func() {
					reqs := []driver.Request{request(key, time.Minute)}
					if i%4 == 0 {
						reqs = append(reqs, request(fmt.Sprint("other", round, i), time.Minute))
					}
					results, err := stores[i%len(stores)].Acquire(patient(t), reqs)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
						return
					}
					count[results[0].Status]++
					if results[0].Err != nil {
						t.Error(results[0].Err)
					}
				})
			}
			wg.Wait()
			if count[driver.Granted] != 1 || count[driver.Held]+count[driver.Pinned] != 63 {
				t.Fatalf("round %d: %v", round, count)
			}
		}
	})
}
