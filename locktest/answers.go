// What callers and operators are told of a key.

package locktest

import (
	"context"
	"errors"
	"testing"

	"github.com/rowlock/rowlock"
)

var answers = []testCase{
	{name: "Wait_RefusedIsToldByWhom", run: refusedByWhom},
	{name: "Wait_RefusedByReaders", run: refusedByReaders, needs: shared},
	{name: "Wait_RefusedByAPinnedKey", run: refusedByPinned, needs: func(e *env) bool { return e.Guard != nil }},
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
func (e *env) pin(t *testing.T, key, owner string) {
	t.Helper()
	s := e.Open(t)
	lease := acquire(t, e.clientOn(t, s, rowlock.Options{Owner: owner}), key, rowlock.NoRenew(), rowlock.TTL(e.ttl), rowlock.Guarded())
	commit, err := e.Guard(t, s, lease)
	for errors.Is(err, rowlock.ErrLost) { // this machine stood still
		lease = acquire(t, e.clientOn(t, s, rowlock.Options{Owner: owner}), key, rowlock.NoRenew(), rowlock.TTL(4*e.ttl), rowlock.Guarded())
		commit, err = e.Guard(t, s, lease)
	}
	if err != nil {
		t.Fatal(err)
	}
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
