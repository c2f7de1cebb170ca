package rowlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// newClient is a client of store that is closed at the end of the test. Faults of a
// faultStore are over then.
func newClient(t *testing.T, store driver.Store, o ...rowlock.Options) *rowlock.Client {
	t.Helper()
	o = append(o, rowlock.Options{})
	c, err := rowlock.New(store, o[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f, ok := store.(*faultStore); ok {
			f.set(nil)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// acquire gets key, or ends the test.
func acquire(t *testing.T, c *rowlock.Client, key string, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	l, err := c.Acquire(context.Background(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reason is why a lease was lost.
func reason(err error) rowlock.Reason {
	var lost *rowlock.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return ""
}

// two gets two leases of "k" in a row from c, whose second caller waits while the
// first holds for the given time.
func two(t *testing.T, c *rowlock.Client, hold time.Duration, first, second []rowlock.Option) (a, b *rowlock.Lease) {
	t.Helper()
	a = acquire(t, c, "k", first...)
	got := make(chan *rowlock.Lease)
	go func() { got <- acquire(t, c, "k", second...) }()
	synctest.Wait()
	time.Sleep(hold)
	if err := a.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	return a, <-got
}
