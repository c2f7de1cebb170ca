// Rules 19 to 23 of the seam: lines of many keys in one call.

package locktest

import (
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// lineBatch: many keys in one call, some with lines, some without, each with its own answer.
func lineBatch(t *testing.T, e *env) {
	a, b := e.Open(t), e.Open(t)
	keys := e.oddKeys(t)
	for len(keys) < 24 {
		keys = append(keys, e.key(t))
	}
	for batch := range slices.Chunk(keys, min(24, e.limits.Batch)) {
		lineBatchOf(t, e, a, b, batch)
	}
}

func lineBatchOf(t *testing.T, e *env, a, b driver.Store, keys []string) {
	var held []driver.Hold
	var first, reqs []driver.Request // of every third key one stands already
	for i, key := range keys {
		if i%3 > 0 {
			held = append(held, grant(t, a, writer(key)))
		}
		if i%3 == 2 {
			first = append(first, stand(t, a, waiter(key), 1, 1))
		}
		reqs = append(reqs, waiter(key))
	}
	time.Sleep(2 * time.Millisecond) // so that First is not 0
	for range 2 {
		for i, r := range e.askAll(t, b, reqs) {
			want := driver.Result{Status: driver.Held, Place: i % 3, Standing: i % 3}
			if i%3 == 0 {
				want.Status = driver.Granted
			}
			if r.Status != want.Status || r.Place != want.Place || r.Standing != want.Standing || i%3 == 2 && r.First <= 0 {
				t.Errorf("P29: request %d of a batch: %+v, want place %d of %d", i, r, want.Place, want.Standing)
			}
		}
	}
	check := func(when string, want func(i int, v driver.View) bool) {
		t.Helper()
		for i, v := range look(t, a, reqs...) {
			if !want(i, v) {
				t.Errorf("P29: a look of request %d of a batch %s: %+v", i, when, v)
			}
		}
	}
	check("that was asked for", func(i int, v driver.View) bool {
		return v.Mine == (i%3 == 0) && v.Place == i%3 && v.Standing == i%3
	})
	var nexts []driver.Request
	for i := range held {
		if i%2 == 1 { // whose line has two
			nexts = append(nexts, waiter(held[i].Key))
			held[i].Next = &nexts[len(nexts)-1]
		}
	}
	answerAll(t, a.Release, held, driver.Released)
	check("of which others were released", func(i int, v driver.View) bool {
		if i%3 == 2 {
			return !v.Mine && v.Place == 1 && v.Standing == 2
		}
		return v.Mine && v.Place == 0 && v.Standing == 0
	})
	if len(nexts) > 0 {
		for i, v := range look(t, a, nexts...) {
			if v.Place != 2 || v.Mine {
				t.Errorf("P29: a look of the next request of a release %d of a batch: %+v", i, v)
			}
		}
	}
	var mine []driver.Hold // holds, passed holds and entries
	for _, q := range reqs {
		mine = append(mine, driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Undo: true})
	}
	answerAll(t, b.Release, mine, driver.Released, driver.Removed) // the latter where it is asked again, after one that was not answered
	for _, q := range first {
		answer(t, a.Release, passed(t, a, q), driver.Released)
	}
	for _, q := range nexts {
		answer(t, a.Release, passed(t, a, q), driver.Released)
	}
	for _, key := range keys {
		nobodyStands(t, a, key)
	}
}
