package handles

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// client makes a client of the lab's store.
func (l lab) client(t *testing.T) *rowlock.Client {
	t.Helper()
	c, err := rowlock.New(l.store, rowlock.Options{TTL: 2 * time.Second, ReapInterval: -1})
	must(t, err)
	t.Cleanup(func() { _ = c.Close(within(t, 5*time.Second)) })
	return c
}

// lease acquires a key of the test's own.
func (l lab) lease(t *testing.T, c *rowlock.Client) *rowlock.Lease {
	t.Helper()
	lease, err := c.Acquire(within(t, 10*time.Second), t.Name())
	must(t, err)
	return lease
}

// TestGuard: while the guarded transaction is open nobody gets the key, not even by
// force; a guard by a lease that was taken away fails.
func TestGuard(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l lab, lib library) {
		ctx, c := within(t, 30*time.Second), l.client(t)
		lease := l.lease(t, c)
		tx := lib.begin(t, l.db)
		defer tx.rollback()
		must(t, l.store.Guard(ctx, tx.tx, lease))
		must(t, tx.note(ctx, 1))
		must(t, lease.Release(ctx))
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if _, err := c.Acquire(short, t.Name()); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("acquired beside an open guard: %v", err)
		}
		must(t, tx.commit())
		lease = l.lease(t, c)
		if n := l.notes(t); n != 1 {
			t.Errorf("%d notes, want 1", n)
		}

		_, err := l.store.ForceRelease(ctx, t.Name())
		must(t, err)
		late := lib.begin(t, l.db)
		defer late.rollback()
		if err := l.store.Guard(ctx, late.tx, lease); !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("a guard by a lease that was taken away: %v", err)
		}
		if err := l.store.Guard(ctx, lib.pool(t, l.db), l.lease(t, c)); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("a guard of a pool: %v", err)
		}
	})
}

// TestMarkRun: the mark is committed or rolled back with the transaction's own
// statements, and is found by the next.
func TestMarkRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l lab, lib library) {
		ctx := within(t, 30*time.Second)
		lease := l.lease(t, l.client(t))
		for _, end := range []string{"rolled back", "committed", "found"} {
			tx := lib.begin(t, l.db)
			defer tx.rollback()
			err := l.store.MarkRun(ctx, tx.tx, lease, "run 1")
			if end == "found" {
				if !errors.Is(err, rowlock.ErrAlreadyRan) {
					t.Errorf("the second run: %v", err)
				}
				must(t, tx.rollback())
				break
			}
			must(t, err)
			must(t, tx.note(ctx, 1))
			if end == "committed" {
				must(t, tx.commit())
			} else {
				must(t, tx.rollback())
			}
		}
		if n := l.notes(t); n != 1 {
			t.Errorf("%d notes, want 1", n)
		}
	})
}
