package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/memory"
)

// TestP4_GuardedIsNotHandedOff: a lease that a guard was asked for goes back to the
// database, and its release says so; before and after it hands off as ever.
func TestP4_GuardedIsNotHandedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{})
		a := acquire(t, c, "k")
		got := make(chan *rowlock.Lease)
		go func() { defer close(got); got <- acquire(t, c, "k") }()
		synctest.Wait()
		h, err := rowlock.BeginGuard(a, f)
		if err != nil || h != holdOf(a) {
			t.Fatalf("%+v, %v", h, err)
		}
		if err := a.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		b := <-got
		if n := len(f.seen("release")); n != 1 {
			t.Errorf("P4: %d releases were sent after a guard, want one: the hold was handed off", n)
		}
		if b.Token() < a.Token()+driver.TokenRange {
			t.Errorf("P4: token %d after %d is no new grant", b.Token(), a.Token())
		}
		if _, err := rowlock.BeginGuard(a, f); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("guard after the release: %v", err)
		}
	})
}

// A hold that was handed off is guarded by its new holder only, under the token that
// the database knows.
func TestP4_HandedOffIsGuardedByTheNewHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a, b := two(t, newClient(t, f, rowlock.Options{}), 0, nil, nil)
		if b.Token() != a.Token()+1 {
			t.Fatalf("token %d after %d: not handed off", b.Token(), a.Token())
		}
		if h, err := rowlock.BeginGuard(b, f); err != nil || h.Stored != a.Token() {
			t.Errorf("%+v, %v, want the stored token %d", h, err, a.Token())
		}
		if _, err := rowlock.BeginGuard(a, f); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("P4: the lease that was handed off may guard: %v", err)
		}
	})
}

// A frozen holder learns of its loss before anything is sent.
func TestP4_GuardLooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a := acquire(t, newClient(t, f, rowlock.Options{}), "k", rowlock.NoRenew())
		f.freeze(time.Minute)
		if _, err := rowlock.BeginGuard(a, f); !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("P4: guard after the trust deadline: %v", err)
		}
	})
}

func TestBeginGuardNamesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := newFaultStore(), memory.New()
		c, err := rowlock.New(locktest.NewFault(locktest.NewFault(f)), rowlock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		a := acquire(t, c, "k")
		if _, err = rowlock.BeginGuard(a, f); err != nil {
			t.Errorf("by the Store behind a wrapper: %v", err)
		}
		if _, err := rowlock.BeginGuard(a, other); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("by another Store: %v", err)
		}
	})
}
