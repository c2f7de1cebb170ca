package handles

import (
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestLockTx: two transactions of a library exclude each other, wait for each other,
// and their own statements are committed with the lock's end.
func TestLockTx(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l lab, lib library) {
		ctx := within(t, 30*time.Second)
		first := lib.begin(t, l.db)
		defer first.rollback()
		must(t, l.store.LockTx(ctx, first.tx, "b", "a"))
		must(t, first.note(ctx, 1))

		second := lib.begin(t, l.db)
		defer second.rollback()
		must(t, second.note(ctx, 2))
		var held *rowlock.HeldError
		if err := l.store.LockTxNoWait(ctx, second.tx, "a"); !errors.As(err, &held) || held.Key != "a" {
			t.Errorf("a busy key: %v", err)
		}
		if err := l.store.LockTxWait(ctx, second.tx, 50*time.Millisecond, "a"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("a busy key, waited for: %v", err)
		}
		committed := make(chan error, 1)
		time.AfterFunc(50*time.Millisecond, func() { committed <- first.commit() })
		must(t, l.store.LockTx(ctx, second.tx, "a"))
		must(t, <-committed)
		must(t, second.commit())
		if n := l.notes(t); n != 2 {
			t.Errorf("%d of 2 notes were committed", n)
		}

		third := lib.begin(t, l.db)
		must(t, l.store.LockTxNoWait(ctx, third.tx, "a", "b"))
		must(t, third.note(ctx, 3))
		must(t, third.rollback())
		if n := l.notes(t); n != 2 {
			t.Error("LockTx took the transaction's statements out of it")
		}
	})
}

// TestPoolIsRefused: outside a transaction a library's handle is a pool.
func TestPoolIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l lab, lib library) {
		if err := l.store.LockTx(within(t, 30*time.Second), lib.pool(t, l.db), "a"); !errors.Is(err, rowlock.ErrInvalid) {
			t.Error(err)
		}
	})
}
