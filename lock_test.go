package rowlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// TestAcquireReleaseAndWait is the short story of a lock: it is held for as long as its program lives, by one at a time,
// and each holder has a larger token than the one before.
func TestAcquireReleaseAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := memory.New()
		program := func() *rowlock.Client {
			c, err := rowlock.New(store, rowlock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			return c
		}
		a, b := program(), program()
		lease, err := a.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.TryAcquire(ctx, "k"); !errors.Is(err, rowlock.ErrHeld) {
			t.Fatalf("TryAcquire of a held key: %v", err)
		}
		time.Sleep(5 * time.Minute) // ten TTLs
		if err := lease.Err(); err != nil {
			t.Fatalf("a live holder lost its lease: %v", err)
		}
		got := make(chan *rowlock.Lease)
		for _, c := range []*rowlock.Client{a, b} {
			go func() {
				l, err := c.Acquire(ctx, "k")
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
		}
		synctest.Wait()
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
		last := lease.Token()
		for range 2 {
			l := <-got
			if l.Token() <= last {
				t.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			time.Sleep(time.Second)
			if err := l.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
	})
}
