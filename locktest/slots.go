// P17: slots.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var slotCases = []testCase{
	{name: "P17_NumbersAreUnique", run: slotsUnique, needs: slots},
	{name: "P17_CallersDisagree", engine: true, run: callersDisagree, needs: slots},
	{name: "P17_TryAcquire", engine: true, run: slotsTry, needs: slots},
	{name: "P17_SlotsEndAlone", engine: true, run: slotsEndAlone, needs: slots},
	{name: "P17_TheSameAgain", engine: true, run: slotsSticky, needs: slots},
}

// slotsUnique has many callers of few slots.
func slotsUnique(t *testing.T, e *env) {
	const programs, n = 4, 3
	key, r := e.key(t), newRoom()
	var wg sync.WaitGroup
	for range programs {
		c := e.client(t, rowlock.Options{})
		for range e.load(64) / programs {
			wg.Go(func() {
				for range e.rounds(4) {
					if err := r.visit(t, c, key, member{driver.Slot, n}, rand.N(3*time.Millisecond)); err != nil {
						t.Errorf("slots: %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if r.most > n {
		t.Errorf("P17: %d of %d slots at once", r.most, n)
	}
	t.Logf("%d grants, at most %d of %d slots at once", r.grants[driver.Slot], r.most, n)
}

// callersDisagree on the number of slots.
func callersDisagree(t *testing.T, e *env) {
	key, r := e.key(t), newRoom()
	var wg sync.WaitGroup
	for _, n := range []int{1, 2, 4} {
		c := e.client(t, rowlock.Options{})
		for range e.load(12) / 3 {
			wg.Go(func() {
				for range 6 {
					if err := r.visit(t, c, key, member{driver.Slot, n}, rand.N(3*time.Millisecond)); err != nil {
						t.Errorf("slots: %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if r.most > 4 {
		t.Errorf("P17: %d slots at once, the largest number asked for is 4", r.most)
	}
}

// slotsTry: TryAcquire of a key whose slots are taken is refused, and no sooner.
func slotsTry(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	var leases []*rowlock.Lease
	for i := range 3 {
		lease, err := []*rowlock.Client{a, b}[i%2].TryAcquire(soon(t), key, rowlock.Slots(3))
		if err != nil {
			t.Fatalf("P17: try a slot with %d of 3 taken: %v", i, err)
		}
		leases = append(leases, lease)
	}
	for _, c := range []*rowlock.Client{a, b} {
		if l, err := c.TryAcquire(soon(t), key, rowlock.Slots(3)); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("P17: try a slot with all taken: %v, %v, want ErrHeld", l, err)
		}
	}
	release1(t, leases[1])
	lease, err := a.TryAcquire(soon(t), key, rowlock.Slots(3))
	if err != nil || lease.Slot() != leases[1].Slot() {
		t.Fatalf("P17: try a slot with one free: %v", err)
	}
	for _, l := range []*rowlock.Lease{leases[0], leases[2], lease} {
		release1(t, l)
	}
	freeSoon(t, b, key)
}

// slotsEndAlone: the end of one is not the end of others, also where their client ends.
func slotsEndAlone(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	first, second, other := acquire(t, a, key, rowlock.Slots(3)), acquire(t, a, key, rowlock.Slots(3)), acquire(t, b, key, rowlock.Slots(3))
	release1(t, first)
	for _, l := range []*rowlock.Lease{second, other} {
		if err := renew1(t, l); err != nil {
			t.Errorf("P18: a slot after the release of another: %v", err)
		}
	}
	if err := a.Close(soon(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	if reasonOf(second.Err()) != rowlock.ReasonClosed {
		t.Errorf("a slot after Close of its client: %v", second.Err())
	}
	if err := renew1(t, other); err != nil {
		t.Errorf("P18: a slot after Close of another client: %v", err)
	}
	if info, err := b.Inspect(soon(t), key); err != nil || info.Slots != 1 {
		t.Errorf("after Close the server says %+v, %v", info, err)
	}
	release1(t, other)
	freeSoon(t, b, key)
}

// slotsSticky: a client gets the slot that it had, if that is free. On a busy server an attempt
// may stay unanswered, and keep the slot until it is taken back; that befalls one key or another.
func slotsSticky(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	var moved string
	for range 5 {
		if moved = stickySlot(t, a, b, e.key(t)); moved == "" {
			return
		}
		t.Log(moved)
	}
	t.Errorf("on each of 5 keys %s, with nobody else there", moved)
}

// stickySlot says how a client moved to another slot of key; "": it kept its own.
func stickySlot(t *testing.T, a, b rowlock.Locker, key string) (moved string) {
	t.Helper()
	zero, one := acquire(t, a, key, rowlock.Slots(4)), acquire(t, b, key, rowlock.Slots(4))
	slot := one.Slot()
	release1(t, zero)
	for range 3 {
		if err := one.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		one = acquire(t, b, key, rowlock.Slots(4))
		if one.Slot() != slot && moved == "" {
			moved = fmt.Sprintf("a client that had slot %d got %d", slot, one.Slot())
		}
	}
	release1(t, one)
	return moved
}
