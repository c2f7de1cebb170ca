// What callers and operators are told of a key.

package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var answers = []testCase{
	{name: "Wait_RefusedIsToldByWhom", engine: true, run: refusedByWhom},
	{name: "Wait_RefusedByReaders", engine: true, run: refusedByReaders, needs: shared},
	{name: "Wait_RefusedByAPinnedKey", run: refusedByPinned, needs: func(e *env) bool { return e.Guard != nil }},
	{name: "Store_SinceOfAPhase", run: sinceOfAPhase, needs: modes},
	{name: "Store_HolderDoesNotWait", run: holderDoesNotWait},
	{name: "Store_ListShowsPinned", run: listPinned, needs: func(e *env) bool { return e.lister && e.Guard != nil }},
}

// refusalOf is the *HeldError of an attempt that does not wait, for a key that somebody has.
func refusalOf(t testing.TB, what string, err error) *rowlock.HeldError {
	t.Helper()
	var held *rowlock.HeldError
	if !errors.Is(err, rowlock.ErrHeld) || !errors.As(err, &held) {
		t.Fatalf("%s: %v, want a *HeldError", what, err)
	}
	return held
}

// refusedByWhom: who does not wait is told who has the key, also one of a group, and that only MinHold keeps it.
func refusedByWhom(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{Owner: "first"}), e.client(t, rowlock.Options{Owner: "second"})
	key, other := e.key(t), e.key(t)
	lease := acquire(t, a, key, rowlock.MinHold(longTTL))
	tries := map[string]func() error{
		"TryAcquire": func() error { _, err := b.TryAcquire(soon(t), key); return err },
		"NoWait":     func() error { _, err := b.Acquire(soon(t), key, rowlock.NoWait()); return err },
		"Do": func() error {
			return rowlock.Do(soon(t), b, key, func(context.Context, *rowlock.Lease) error { return nil }, rowlock.NoWait())
		},
		"TryAcquireAll": func() error {
			_, err := b.TryAcquireAll(soon(t), []rowlock.Want{{Key: key}, {Key: other}})
			return err
		},
		"another caller of the same program": func() error { _, err := a.TryAcquire(soon(t), key); return err },
	}
	for what, try := range tries {
		if held := refusalOf(t, what, try()); held.Key != key || held.Owner != "first" || held.Left <= 0 || held.Pinned || held.Shared {
			t.Errorf("%s: %+v, want %q held by first", what, *held, key)
		}
	}
	release1(t, lease)
	delete(tries, "another caller of the same program")
	for what, try := range tries {
		if held := refusalOf(t, what, try()); held.Owner != "first" || held.Left <= 0 {
			t.Errorf("%s, of a key that MinHold keeps: %+v, want one of first", what, *held)
		}
	}
}

// refusedByReaders: who wants a key exclusively is told one of its readers, and a reader who writes.
func refusedByReaders(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{Owner: "first"}), e.client(t, rowlock.Options{Owner: "second"})
	key := e.key(t)
	reader := acquire(t, a, key, rowlock.Shared())
	_, err := b.TryAcquire(soon(t), key)
	if held := refusalOf(t, "a writer", err); held.Owner != "first" || !held.Shared || held.Left <= 0 {
		t.Errorf("a writer among readers: %+v, want a reader of first", *held)
	}
	release1(t, reader)
	acquire(t, a, key)
	_, err = b.TryAcquire(soon(t), key, rowlock.Shared())
	if held := refusalOf(t, "a reader", err); held.Owner != "first" || held.Left <= 0 {
		t.Errorf("a reader beside a writer: %+v, want the writer first", *held)
	}
}

// pin leaves a key to an open transaction that was guarded by a lease of owner, which is over, until the test ends.
func (e *env) pin(t *testing.T, key, owner string, mode ...rowlock.Option) {
	t.Helper()
	s := e.Open(t)
	c := e.clientOn(t, s, rowlock.Options{Owner: owner})
	var commit func() error
	e.patiently(t, func(ttl time.Duration) error {
		lease := acquire(t, c, key, append(mode, rowlock.NoRenew(), rowlock.TTL(ttl), rowlock.Guarded())...)
		var err error
		commit, err = e.Guard(t, s, lease)
		return err
	})
	t.Cleanup(func() { _ = commit() })
	until(t, "the lease is over", func() bool { return !inspect(t, s, key).Held })
}

// refusedByPinned: who is refused by a transaction is told whose, or nothing where the store cannot know, and nobody else.
func refusedByPinned(t *testing.T, e *env) {
	key := e.key(t)
	e.pin(t, key, "first")
	known := inspect(t, e.Open(t), key).Pinned
	c := e.client(t, rowlock.Options{Owner: "second"})
	for n := range 3 {
		_, err := c.TryAcquire(soon(t), key)
		if held := refusalOf(t, "a try", err); !held.Pinned || held.Owner != "first" && (known || held.Owner != "") {
			t.Errorf("try %d: %+v, want pinned by first", n, *held)
		}
	}
}

// clock waits until the store's clock is past a moment, and tells what it says.
func (e *env) clock(t testing.TB, s driver.Store, past time.Time) (now time.Time) {
	t.Helper()
	until(t, "the store's clock goes on", func() bool {
		h := grant(t, s, writer(e.key(t)))
		now = inspect(t, s, h.Key).Since
		answer(t, s.Release, h, driver.Released)
		return now.After(past)
	})
	return now
}

// sinceOfAPhase: a key that readers or slots have is held since the oldest hold that lives was granted. A time in which nobody
// had it does not count, whether the holds before were released or ran out, nor that of a hold which is over.
func sinceOfAPhase(t *testing.T, e *env) {
	s := e.Open(t)
	for name, q := range map[string]driver.Request{"readers": reader(e.key(t)), "slots": slotOf(e.key(t), 3)} {
		since := func(what string, from, to time.Time) time.Time {
			t.Helper()
			i := inspect(t, s, q.Key)
			if !i.Held || i.Since.Before(from) || i.Since.After(to) {
				t.Errorf("%s: %s: held %v since %v, want from %v to %v", name, what, i.Held, i.Since, from, to)
			}
			if list, ok := s.(driver.Lister); ok {
				infos, err := list.List(soon(t), q.Key, "", 1)
				if err != nil || len(infos) != 1 || !infos[0].Since.Equal(i.Since) {
					t.Errorf("%s: %s: List says %+v, %v, and Inspect since %v", name, what, infos, err, i.Since)
				}
			}
			return i.Since
		}
		take := func(ttl time.Duration) driver.Hold {
			return grant(t, s, with(q, func(q *driver.Request) { q.ID, q.TTL = newID(), ttl }))
		}
		var free, after time.Time // before and after a grant, by the store's clock
		first := take(longTTL)
		since("the first", time.Time{}, e.clock(t, s, time.Time{}))
		answer(t, s.Release, first, driver.Released)
		free = e.clock(t, s, inspect(t, s, q.Key).Since)
		second := take(longTTL)
		began := since("after a time in which the key was free", free, e.clock(t, s, free))
		after = e.clock(t, s, began)
		third := take(longTTL)
		since("beside an older one", began, began)
		answer(t, s.Release, second, driver.Released)
		since("when the older one is over", after, e.clock(t, s, after))
		answer(t, s.Release, third, driver.Released)
		take(e.short)
		until(t, "the hold runs out", func() bool { return !inspect(t, s, q.Key).Held })
		free = e.clock(t, s, time.Time{})
		take(longTTL)
		since("after one that ran out", free, e.clock(t, s, free))
	}
}

// listPinned: a list shows which keys are pinned as Inspect of each does, beside keys that are free, held and kept.
func listPinned(t *testing.T, e *env) {
	s, c := e.Open(t), e.client(t, rowlock.Options{})
	prefix := e.key(t) + "/"
	free, held, kept := prefix+"free", prefix+"held", prefix+"kept"
	release1(t, acquire(t, c, free))
	acquire(t, c, held)
	release1(t, acquire(t, c, kept, rowlock.MinHold(longTTL)))
	keys := []string{free, held, kept}
	guarded := map[string][]rowlock.Option{prefix + "guarded": nil, prefix + "guarded too": nil}
	if e.limits.Modes.Has(driver.Shared) {
		guarded[prefix+"read"] = []rowlock.Option{rowlock.Shared()}
	}
	for key, mode := range guarded {
		e.pin(t, key, "first", mode...)
		keys = append(keys, key)
	}
	if e.RowLocks {
		until(t, "Inspect shows each guard", func() bool { // a busy server may not say at the first try who is in the way
			pinned := 0
			for _, key := range keys {
				if inspect(t, s, key).Pinned {
					pinned++
				}
			}
			return pinned == len(guarded)
		})
	}
	until(t, "List and Inspect tell the same of each key", func() bool {
		infos, err := s.(driver.Lister).List(soon(t), prefix, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]driver.Info)
		for _, i := range infos {
			seen[i.Key] = i
		}
		for _, key := range keys {
			i := inspect(t, s, key)
			if l := seen[key]; l.Pinned != i.Pinned || l.Held != i.Held || l.Kept != i.Kept {
				t.Logf("%s: List says held %v, kept %v, pinned %v; Inspect %v, %v, %v", key, l.Held, l.Kept, l.Pinned, i.Held, i.Kept, i.Pinned)
				return false
			}
		}
		return true
	})
}

// holderDoesNotWait: a program that waited for its key, and has it, is not counted among those that wait.
func holderDoesNotWait(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	for range 3 {
		key := e.key(t)
		first := acquire(t, a, key)
		last := acquiring(t, b, key)
		until(t, "the other program waits", func() bool { return b.Stats().Waiting == 1 })
		time.Sleep(e.short / 10) // until it stands in the server's queue, where there is one
		release1(t, first)
		lease := last()
		if info, err := a.Inspect(soon(t), key); err != nil || info.Waiting != 0 {
			t.Errorf("P29: nobody waits for the key: %+v, %v", info, err)
		}
		release1(t, lease)
	}
}
