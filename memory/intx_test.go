package memory_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

func TestInTxCommits(t *testing.T) {
	s := memory.New()
	lease := acquire(t, client(t, s))
	var done []string
	err := s.InTx(context.Background(), lease, func(ctx context.Context) error {
		for _, what := range []string{"first", "second"} {
			memory.OnCommit(ctx, func() { done = append(done, what) })
		}
		if len(done) > 0 {
			t.Error("done before the commit")
		}
		return ctx.Err()
	})
	if err != nil || strings.Join(done, " ") != "first second" {
		t.Errorf("%v, done %q", err, done)
	}
	memory.OnCommit(context.Background(), func() { done = nil })
	if done != nil {
		t.Error("outside of a transaction it is done at once")
	}
}

// TestP4_StaleTransaction: what is lost does not commit, however that came.
func TestP4_StaleTransaction(t *testing.T) {
	mine := errors.New("mine")
	for name, tc := range map[string]struct {
		inside func(context.Context, *memory.Store, *rowlock.Lease) error
		want   []error
	}{
		"expired and taken": {func(_ context.Context, s *memory.Store, _ *rowlock.Lease) error { s.Expire("key"); return nil }, []error{rowlock.ErrLost}},
		"forced": {func(ctx context.Context, s *memory.Store, _ *rowlock.Lease) error {
			_, err := s.ForceRelease(ctx, "key")
			return err
		}, []error{rowlock.ErrLost}},
		"released":      {func(ctx context.Context, _ *memory.Store, l *rowlock.Lease) error { return l.Release(ctx) }, []error{rowlock.ErrReleased}},
		"failed":        {func(context.Context, *memory.Store, *rowlock.Lease) error { return mine }, []error{mine}},
		"late":          {func(_ context.Context, _ *memory.Store, l *rowlock.Lease) error { <-l.Done(); return nil }, []error{rowlock.ErrLost}},
		"late and fail": {func(_ context.Context, _ *memory.Store, l *rowlock.Lease) error { <-l.Done(); return mine }, []error{mine, rowlock.ErrLost}},
		"its ctx ended": {func(ctx context.Context, _ *memory.Store, _ *rowlock.Lease) error { <-ctx.Done(); return nil }, []error{context.DeadlineExceeded}},
		"store closed":  {func(_ context.Context, s *memory.Store, _ *rowlock.Lease) error { return s.Close() }, []error{rowlock.ErrClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				c, err := rowlock.New(s, rowlock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				lease := acquire(t, c, rowlock.NoRenew())
				ctx := context.Background()
				if name == "its ctx ended" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				err = s.Once(ctx, lease, "run", func(ctx context.Context) error {
					memory.OnCommit(ctx, func() { t.Error("P4: a transaction that is stale or failed committed") })
					return tc.inside(ctx, s, lease)
				})
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("P4: Once = %v, want %v", err, want)
					}
				}
				if name == "store closed" {
					return
				}
				lease.Release(context.Background())
				time.Sleep(time.Minute)
				next, ran := acquire(t, c), false
				if err := s.Once(context.Background(), next, "run", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
					t.Errorf("P13: the run after one that did not commit: %v, ran %v", err, ran)
				}
			})
		})
	}
}

// TestP4_OpenTransactionPins: nobody is granted the key while it is open, though the
// hold is over.
func TestP4_OpenTransactionPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New()
		a, b := client(t, s), client(t, s)
		lease := acquire(t, a, rowlock.NoRenew())
		_ = s.InTx(ctx, lease, func(context.Context) error {
			time.Sleep(time.Minute)
			var held *rowlock.HeldError
			if _, err := b.TryAcquire(ctx, "key"); !errors.As(err, &held) || !held.Pinned {
				t.Errorf("P4: TryAcquire while a transaction of an old holder is open: %v, want pinned", err)
			}
			if i, err := b.Inspect(ctx, "key"); err != nil || i.Held || !i.Pinned {
				t.Errorf("Inspect: %+v, %v", i, err)
			}
			if n, err := s.Reap(ctx, time.Second); n != 0 || err != nil {
				t.Errorf("P10: Reap = %d, %v", n, err)
			}
			return nil
		})
		acquire(t, b)
	})
}

// TestP13_Once: by many, with leases one after the other and with one lease.
func TestP13_Once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New()
		c := client(t, s)
		effects, fine, ran := 0, atomic.Int32{}, atomic.Int32{}
		once := func(lease *rowlock.Lease, run string) {
			switch err := s.Once(ctx, lease, run, func(ctx context.Context) error {
				time.Sleep(time.Millisecond)
				memory.OnCommit(ctx, func() { effects++ })
				return nil
			}); {
			case err == nil:
				fine.Add(1)
			case errors.Is(err, rowlock.ErrAlreadyRan):
				ran.Add(1)
			default:
				t.Error(err)
			}
		}
		lease := acquire(t, c)
		for range 10 {
			go once(lease, "monday")
		}
		time.Sleep(time.Second)
		lease.Release(ctx)
		lease = acquire(t, c)
		once(lease, "monday")
		if effects != 1 || fine.Load() != 1 || ran.Load() != 10 {
			t.Errorf("P13: %d effects, %d calls committed, %d were told that it ran", effects, fine.Load(), ran.Load())
		}
		once(lease, "Monday") // byte for byte
		if effects != 2 {
			t.Errorf("P13: %d effects of two runs", effects)
		}
	})
}

func TestInTxOfAFunctionThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		c := client(t, s)
		lease := acquire(t, c)
		for _, leave := range []func(){func() { panic("boom") }, runtime.Goexit} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_ = s.InTx(context.Background(), lease, func(ctx context.Context) error {
					memory.OnCommit(ctx, func() { t.Error("committed") })
					leave()
					return nil
				})
			}()
			<-done
		}
		s.Expire("key")
		acquire(t, c) // not pinned
	})
}

func TestP9_BadTransactions(t *testing.T) {
	ctx := context.Background()
	s := memory.New()
	lease := acquire(t, client(t, s))
	other := acquire(t, client(t, memory.New()))
	var none context.Context
	f := func(context.Context) error { t.Error("called"); return nil }
	for name, err := range map[string]error{
		"no function":   s.InTx(ctx, lease, nil),
		"no context":    s.InTx(none, lease, f),
		"no lease":      s.InTx(ctx, nil, f),
		"another store": s.InTx(ctx, other, f),
		"empty run":     s.Once(ctx, lease, "", f),
		"long run":      s.Once(ctx, lease, strings.Repeat("r", 256), f),
	} {
		if !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("P9: %s: %v, want ErrInvalid", name, err)
		}
	}
}
