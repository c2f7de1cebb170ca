// P5: a stale holder's renew and release change nothing, and never free or extend
// another's hold.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var stale = []testCase{
	{name: "P5_AfterTakeover", run: staleTakeover},
	{name: "P5_AfterRelease", run: staleRelease},
	{name: "P5_AfterForce", run: staleForce, needs: forcing},
	{name: "P5_AfterReap", run: staleReap, needs: dead},
	{name: "P5_UnknownHold", run: staleUnknown},
	{name: "P5_Client", engine: true, run: staleClient},
}

// stepsOf are all that a stale holder can send.
func stepsOf(t testing.TB, s driver.Store, h driver.Hold) map[string]func() driver.Status {
	t.Helper()
	steps := make(map[string]func() driver.Status)
	add := func(name string, do step, change func(*driver.Hold)) {
		h := h
		change(&h)
		steps[name] = func() driver.Status { return settle(t, do, []driver.Hold{h})[0].Status }
	}
	add("renew", s.Renew, func(h *driver.Hold) { h.TTL = 2 * longTTL })
	add("renew with MaxHold", s.Renew, func(h *driver.Hold) { h.TTL, h.MaxHold = 2*longTTL, 3*longTTL })
	add("release", s.Release, func(*driver.Hold) {})
	add("release with Keep", s.Release, func(h *driver.Hold) { h.Keep = 2 * longTTL })
	add("undo", s.Release, func(h *driver.Hold) { h.Undo = true })
	add("undo with Keep", s.Release, func(h *driver.Hold) { h.Undo, h.Keep = true, 2*longTTL })
	return steps
}

// changesNothing sends every step of a stale hold and checks that the key's state
// stays as it is, but for the time that passes.
func changesNothing(t testing.TB, s driver.Store, h driver.Hold, want ...driver.Status) {
	t.Helper()
	before := inspect(t, s, h.Key)
	for name, do := range stepsOf(t, s, h) {
		if got := do(); !slices.Contains(want, got) {
			t.Errorf("P5: %s of a stale hold was answered %v, want %v", name, got, want)
		}
		after := inspect(t, s, h.Key)
		if after.Left > before.Left {
			t.Errorf("P5: %s of a stale hold made the key stay taken for %v, %v before", name, after.Left, before.Left)
		}
		same := after
		same.Left = before.Left
		if same != before || before.Left-after.Left > longTTL/2 {
			t.Errorf("P5: %s of a stale hold changed the key:\n from %+v\n to   %+v", name, before, after)
		}
	}
}

// staleTakeover: the hold expired, and another has the key.
func staleTakeover(t *testing.T, e *env) {
	a, b, key := e.Open(t), e.Open(t), e.key(t)
	old := grant(t, a, driver.Request{Key: key, TTL: e.short})
	live := grantAfter(t, b, old, driver.Request{Key: key, TTL: longTTL, Owner: "new"})
	for _, s := range []driver.Store{a, b} {
		changesNothing(t, s, old, driver.Taken)
	}
	// Half right is not right: the new token with the old ID.
	mixed := old
	mixed.Token, mixed.Stored = live.Token, live.Stored
	changesNothing(t, a, mixed, driver.Taken)
	answer(t, b.Renew, live, driver.Alive)
	answer(t, b.Release, live, driver.Released)
}

// staleRelease: the hold was released; then the key is free, kept, or another's.
func staleRelease(t *testing.T, e *env) {
	s := e.Open(t)
	over := []driver.Status{driver.Released, driver.Removed, driver.Taken}

	key := e.key(t)
	h := grant(t, s, driver.Request{Key: key, TTL: longTTL})
	answer(t, s.Release, h, driver.Released)
	changesNothing(t, s, h, over...)
	if i := inspect(t, s, key); i.Held {
		t.Errorf("P5: a released key is held again: %+v", i)
	}
	next := grantAfter(t, s, h, driver.Request{Key: key, TTL: longTTL})
	changesNothing(t, s, h, driver.Taken, driver.Removed)
	answer(t, s.Renew, next, driver.Alive)
	answer(t, s.Release, next, driver.Released)

	h = grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL, Keep: longTTL})
	answer(t, s.Release, h, driver.Released)
	h.Keep = 0
	for _, do := range []step{s.Renew, s.Release} {
		answer(t, do, h, over...)
		if i := inspect(t, s, h.Key); !i.Held || !i.Kept || i.Left > longTTL {
			t.Errorf("P5: a kept key after a stale step: %+v", i)
		}
	}
}

func staleForce(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, driver.Request{Key: key, TTL: longTTL})
	force(t, s, key)
	changesNothing(t, s, h, driver.Forced)
	if i := inspect(t, s, key); i.Held {
		t.Errorf("P5: a key released by force is held again: %+v", i)
	}
	next := grantAfter(t, s, h, driver.Request{Key: key, TTL: longTTL})
	changesNothing(t, s, h, driver.Taken, driver.Forced, driver.Removed)
	answer(t, s.Renew, next, driver.Alive)
	answer(t, s.Release, next, driver.Released)
}

// staleReap: the row of the key is gone.
func staleReap(t *testing.T, e *env) {
	s := e.Open(t)
	prefix := e.key(t) + ":"
	e.Dead(t, prefix, 1)
	key := deadKey(prefix, 0)
	until(t, "the dead row is reaped", func() bool {
		if _, err := s.(driver.Reaper).Reap(soon(t), 24*time.Hour); err != nil {
			t.Fatalf("reap: %v", err)
		}
		return inspect(t, s, key).Token == 0
	})
	changesNothing(t, s, driver.Hold{Key: key, ID: newID(), Token: 1, Stored: 1, TTL: longTTL}, driver.Removed)
	if i := inspect(t, s, key); i != (driver.Info{Key: key}) {
		t.Errorf("P5: a stale step made a row: %+v", i)
	}
}

// staleUnknown: no such hold was ever granted, on a key that is unknown or another's.
func staleUnknown(t *testing.T, e *env) {
	s := e.Open(t)
	never := driver.Hold{Key: e.key(t), ID: newID(), Token: 1, Stored: 1, TTL: longTTL}
	changesNothing(t, s, never, driver.Removed)
	live := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
	other := live
	other.ID = newID() // the right token, another's ID
	changesNothing(t, s, other, driver.Taken)
	cross := live
	cross.Key = e.key(t) // the right ID, another key
	changesNothing(t, s, cross, driver.Removed)
	answer(t, s.Renew, live, driver.Alive)
	answer(t, s.Release, live, driver.Released)
}

// staleClient: the same through the engine, with many stale leases of one key.
func staleClient(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	key := e.key(t)
	f.On(OpAcquire, early(e.short))
	var old []*rowlock.Lease
	for range 3 {
		lease, err := a.TryAcquire(soon(t), key, rowlock.NoRenew())
		if err != nil {
			t.Fatalf("acquire: %v", err)
		}
		old = append(old, lease)
		expired(t, f, key)
	}
	f.Clear()
	next := acquire(t, b, key)
	for i, lease := range old {
		var err error
		if i == 0 {
			err = renew1(t, lease)
		} else {
			err = lease.Release(context.Background())
		}
		if !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("P5: %s: stale lease %d: %v, want ErrLost", fmt.Sprint(key), i, err)
		}
	}
	if err := renew1(t, next); err != nil {
		t.Fatalf("P5: the new holder: %v", err)
	}
	refused(t, a, key)
	release1(t, next)
}
