package enginetest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP12_ReleaseOnADeadContext: a cancelled context stops no release.
func TestP12_ReleaseOnADeadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := l.Release(ctx); err != nil {
			t.Error(err)
		}
		free(t, f, "k")
	})
}

// TestReleaseEndsBeforeItIsSent: Err and Done tell of the end before the statement
// leaves, because the next holder may run as soon as it arrives.
func TestReleaseEndsBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		held := l.Context(context.Background())
		f.set(func(call call) verdict {
			if call.op == "release" && (l.Err() == nil || held.Err() == nil) {
				t.Error("the lease is held while its release leaves")
			}
			return verdict{}
		})
		l.Release(context.Background())
		if !errors.Is(l.Err(), rowlock.ErrReleased) || !errors.Is(context.Cause(held), rowlock.ErrReleased) {
			t.Errorf("Err %v, cause %v", l.Err(), context.Cause(held))
		}
	})
}

// TestP7_LostReplyToRelease: nil after ReleaseWait, never later than the trust
// deadline, and repeated until it was answered.
func TestP7_LostReplyToRelease(t *testing.T) {
	for name, tc := range map[string]struct {
		v    verdict
		ttl  time.Duration
		want time.Duration
	}{
		"hang":            {verdict{hang: true}, 30 * time.Second, 3 * time.Second},
		"hang, applied":   {verdict{hang: true, apply: true}, 30 * time.Second, 3 * time.Second},
		"fail, applied":   {verdict{err: errors.New("reset"), apply: true}, 30 * time.Second, 0},
		"short trust":     {verdict{hang: true}, time.Second, 900 * time.Millisecond},
		"short, executed": {verdict{hang: true, apply: true}, time.Second, 900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				l := acquire(t, c, "k", rowlock.TTL(tc.ttl))
				f.set(func(c call) verdict {
					if c.op == "release" && c.n == 0 {
						return tc.v
					}
					return verdict{}
				})
				start := time.Now()
				if err := l.Release(context.Background()); err != nil {
					t.Errorf("Release = %v", err)
				}
				if d := time.Since(start); d != tc.want {
					t.Errorf("waited for %v, want %v", d, tc.want)
				}
				time.Sleep(100 * time.Millisecond)
				free(t, f, "k")
				if err := l.Release(context.Background()); err != nil {
					t.Errorf("second Release = %v", err)
				}
				if s := c.Stats(); s.LateReleases != 1 || s.Unresolved != 0 || s.Losses != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// TestReleaseIsOnce: many callers, one statement, one answer.
func TestReleaseIsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		f.ForceRelease(context.Background(), "k")
		f.set(on("release", verdict{slow: time.Second}))
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := l.Release(context.Background()); reason(err) != rowlock.ReasonForced {
					t.Errorf("Release = %v", err)
				}
			})
		}
		wg.Wait()
		if n := len(f.seen("release")); n != 1 {
			t.Errorf("%d statements", n)
		}
	})
}

func TestP12_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{})
		acquire(t, other, "theirs")
		var leases []*rowlock.Lease
		for _, k := range []string{"a", "b", "c"} {
			leases = append(leases, acquire(t, c, k))
		}
		waits := make(chan error)
		go func() {
			_, err := c.Acquire(ctx, "theirs")
			waits <- err
		}()
		go func() {
			_, err := c.Acquire(ctx, "a")
			waits <- err
		}()
		synctest.Wait()
		closed := make(chan error, 2)
		go func() { closed <- c.Close(ctx) }()
		for range 2 {
			if err := <-waits; !errors.Is(err, rowlock.ErrClosed) {
				t.Errorf("waiter got %v", err)
			}
		}
		if err := <-closed; err != nil {
			t.Errorf("Close = %v", err)
		}
		for _, l := range leases {
			if reason(l.Err()) != rowlock.ReasonClosed {
				t.Errorf("Err = %v", l.Err())
			}
			if err := l.Release(ctx); reason(err) != rowlock.ReasonClosed {
				t.Errorf("Release = %v", err)
			}
			free(t, f, l.Key())
		}
		if err := c.Close(ctx); err != nil {
			t.Errorf("second Close = %v", err)
		}
		for name, err := range map[string]error{
			"Acquire":    func() error { _, err := c.Acquire(ctx, "k"); return err }(),
			"TryAcquire": func() error { _, err := c.TryAcquire(ctx, "k"); return err }(),
			"Inspect":    func() error { _, err := c.Inspect(ctx, "k"); return err }(),
		} {
			if !errors.Is(err, rowlock.ErrClosed) {
				t.Errorf("%s after Close = %v", name, err)
			}
		}
	})
}

// TestP12_CloseIsBounded: a server that hangs does not hang Close, which names
// what it could not free.
func TestP12_CloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, err := rowlock.New(f, rowlock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		acquire(t, c, "left alone")
		f.set(on("release", verdict{hang: true}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		err = c.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "left alone") {
			t.Errorf("Close = %v", err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("Close took %v", d)
		}
		// synctest fails the test if a goroutine of the client is left.
	})
}

// TestCloseMeetsAttempts: whatever is granted while Close runs is given back.
func TestCloseMeetsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("acquire", verdict{slow: time.Second}))
		errs := make(chan error)
		go func() {
			_, err := c.Acquire(context.Background(), "a")
			errs <- err
		}()
		go func() {
			_, err := c.TryAcquire(context.Background(), "b")
			errs <- err
		}()
		synctest.Wait()
		go func() { errs <- c.Close(context.Background()) }()
		for range 3 {
			if err := <-errs; err != nil && !errors.Is(err, rowlock.ErrClosed) {
				t.Error(err)
			}
		}
		free(t, f, "a")
		free(t, f, "b")
	})
}

func TestDo(t *testing.T) {
	ctx := context.Background()
	broken := errors.New("job failed")
	for name, tc := range map[string]struct {
		fn   func(context.Context, *rowlock.Lease, *faultStore) error
		want []error
		held bool // ErrLost expected
	}{
		"ok":     {fn: func(context.Context, *rowlock.Lease, *faultStore) error { return nil }},
		"failed": {fn: func(context.Context, *rowlock.Lease, *faultStore) error { return broken }, want: []error{broken}},
		"lost, and nil": {fn: func(ctx context.Context, _ *rowlock.Lease, f *faultStore) error {
			f.ForceRelease(ctx, "k")
			<-ctx.Done()
			return nil
		}, want: []error{rowlock.ErrLost}},
		"lost, and failed": {fn: func(ctx context.Context, _ *rowlock.Lease, f *faultStore) error {
			f.freeze(time.Minute)
			return broken
		}, want: []error{broken, rowlock.ErrLost}},
		"lost, and only the release finds out": {fn: func(ctx context.Context, _ *rowlock.Lease, f *faultStore) error {
			f.ForceRelease(ctx, "k")
			return nil
		}, want: []error{rowlock.ErrLost}},
		"released by fn": {fn: func(ctx context.Context, l *rowlock.Lease, f *faultStore) error { return l.Release(ctx) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				err := rowlock.Do(ctx, c, "k", func(ctx context.Context, l *rowlock.Lease) error { return tc.fn(ctx, l, f) })
				if (err == nil) != (len(tc.want) == 0) {
					t.Errorf("Do = %v", err)
				}
				for _, want := range tc.want {
					if !errors.Is(err, want) {
						t.Errorf("%v does not match %v", err, want)
					}
				}
				time.Sleep(10 * time.Second)
				free(t, f, "k")
			})
		})
	}
}

func TestDoReleasesOnPanicAndGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		for _, leave := range []func(){func() { panic("boom") }, runtime.Goexit} {
			done := make(chan any)
			go func() {
				defer close(done)
				defer func() { recover() }()
				rowlock.Do(context.Background(), c, "k", func(context.Context, *rowlock.Lease) error {
					leave()
					return nil
				})
				t.Error("Do returned")
			}()
			<-done
			free(t, f, "k")
		}
	})
}

func TestDoNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{Owner: "pod-7:12"})
		job := func(context.Context, *rowlock.Lease) error { time.Sleep(50 * time.Millisecond); return nil }
		opts := []rowlock.Option{rowlock.NoWait(), rowlock.MinHold(10 * time.Minute)}
		if err := rowlock.Do(context.Background(), other, "report", job, opts...); err != nil {
			t.Fatal(err)
		}
		err := rowlock.Do(context.Background(), c, "report", job, opts...)
		var held *rowlock.HeldError
		if !errors.As(err, &held) || held.Owner != "pod-7:12" || held.Left < 9*time.Minute {
			t.Errorf("Do within MinHold = %v", err)
		}
		time.Sleep(10 * time.Minute)
		if err := rowlock.Do(context.Background(), c, "report", job, opts...); err != nil {
			t.Errorf("Do after MinHold = %v", err)
		}
	})
}

// TestContext: ends with its parent and with the lease, whichever is first.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		parent, cancel := context.WithCancelCause(context.Background())
		ctx := l.Context(parent)
		grown, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		mine := errors.New("shutting down")
		cancel(mine)
		if context.Cause(ctx) != mine || grown.Err() == nil || l.Err() != nil {
			t.Errorf("cause %v, lease %v", context.Cause(ctx), l.Err())
		}
		ctx = l.Context(context.Background())
		grown, stop = context.WithCancel(ctx)
		defer stop()
		l.Release(context.Background())
		<-grown.Done()
		if !errors.Is(context.Cause(grown), rowlock.ErrReleased) || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("cause %v, err %v", context.Cause(grown), ctx.Err())
		}
		if ctx = l.Context(context.Background()); !errors.Is(context.Cause(ctx), rowlock.ErrReleased) {
			t.Errorf("context of a released lease: %v", context.Cause(ctx))
		}
	})
}
