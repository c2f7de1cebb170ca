package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

func client(t *testing.T, s driver.Store) *rowlock.Client {
	t.Helper()
	c, err := rowlock.New(s, rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func acquire(t *testing.T, c *rowlock.Client, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	lease, err := c.TryAcquire(context.Background(), "key", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func takenFrom(t *testing.T, lease *rowlock.Lease) {
	t.Helper()
	var lost *rowlock.LostError
	if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != rowlock.ReasonTaken {
		t.Errorf("Err is %v, want a LostError for reason taken", err)
	}
}

func TestExpireIsSeenAtTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		a, b := client(t, s), client(t, s)
		lease := acquire(t, a)
		if !s.Expire("key") {
			t.Fatal("Expire found no hold to end")
		}
		if err := lease.Err(); err != nil {
			t.Errorf("the holder knows before its next renewal: %v", err)
		}
		next := acquire(t, b) // free for the next at once
		if next.Token() <= lease.Token() {
			t.Errorf("token %d after %d", next.Token(), lease.Token())
		}
		began := time.Now()
		<-lease.Done()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the holder learnt after %v, a third of the TTL is 10s", took)
		}
		takenFrom(t, lease)
		if err := next.Err(); err != nil {
			t.Errorf("the next holder: %v", err)
		}
	})
}

func TestExpireIsSeenByRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		a := client(t, s)
		lease := acquire(t, a, rowlock.MinHold(time.Hour))
		if !s.Expire("key") {
			t.Fatal("Expire found no hold to end")
		}
		if err := lease.Renew(context.Background()); !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("Renew: %v, want ErrLost", err)
		}
		takenFrom(t, lease)
		if err := acquire(t, a).Release(context.Background()); err != nil { // although MinHold is not over
			t.Error(err)
		}
	})
}

func TestExpireWithoutAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		a := client(t, s)
		if s.Expire("key") {
			t.Error("Expire ended a hold of a key that never was")
		}
		lease := acquire(t, a)
		if err := lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
		if s.Expire("key") {
			t.Error("Expire ended a hold that was released")
		}
		lease = acquire(t, a, rowlock.NoRenew())
		time.Sleep(time.Minute)
		if s.Expire("key") {
			t.Error("Expire ended a hold that had expired")
		}
		if err := lease.Err(); !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("an expired lease: %v", err)
		}
		acquire(t, a)
		if !s.Expire("key") || s.Expire("key") {
			t.Error("Expire must end a hold once")
		}
	})
}

func TestCloseEndsEveryCall(t *testing.T) {
	s := memory.New()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c := client(t, s)
	_, err1 := c.Acquire(context.Background(), "key")
	_, err2 := c.Inspect(context.Background(), "key")
	_, err3 := s.List(context.Background(), "", "", 1)
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, rowlock.ErrClosed) {
			t.Errorf("a call of a closed Store: %v, want ErrClosed", err)
		}
	}
}

// TestForceReleaseOfAnExpiredHold: it is ended, though nobody has taken the key since.
func TestForceReleaseOfAnExpiredHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New()
		q := driver.Request{Key: "k", ID: driver.HoldID{1}, TTL: time.Second}
		granted, err := s.Acquire(ctx, []driver.Request{q})
		if err != nil || granted[0].Status != driver.Granted {
			t.Fatal(granted, err)
		}
		time.Sleep(2 * time.Second)
		if info, err := s.ForceRelease(ctx, "k"); err != nil || info.Held {
			t.Fatal(info, err)
		}
		h := driver.Hold{Key: "k", ID: q.ID, Token: granted[0].Token, Stored: granted[0].Stored, TTL: time.Second}
		if r, err := s.Renew(ctx, []driver.Hold{h}); err != nil || r[0].Status == driver.Alive {
			t.Errorf("renewed after a forced release: %v, %v", r, err)
		}
	})
}

// TestReapLeavesLines: the reaper leaves the row of a key that is free while somebody stands in its line.
func TestReapLeavesLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := memory.New(), context.Background()
		first := driver.Request{Key: "key", ID: driver.HoldID{1}, TTL: time.Minute}
		next := driver.Request{Key: "key", ID: driver.HoldID{2}, TTL: time.Minute, Stand: true, EntryTime: driver.EntryTime, Claim: time.Second}
		if r, err := s.Acquire(ctx, []driver.Request{first}); err != nil || r[0].Status != driver.Granted {
			t.Fatal(r, err)
		}
		if r, err := s.Acquire(ctx, []driver.Request{next}); err != nil || r[0].Place != 1 {
			t.Fatal(r, err)
		}
		if _, err := s.Release(ctx, []driver.Hold{{Key: "key", ID: first.ID, Guarded: true}}); err != nil {
			t.Fatal(err)
		}
		for _, rows := range []int{0, 1} {
			time.Sleep(driver.EntryTime / 2)
			if n, err := s.Reap(ctx, time.Second); err != nil || n != rows {
				t.Errorf("%d rows reaped, %v, want %d", n, err, rows)
			}
		}
	})
}
