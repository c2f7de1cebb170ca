package enginetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// view is a reentrant acquire of "k" in ctx.
func view(t *testing.T, c *rowlock.Client, ctx context.Context, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	v, err := c.Acquire(ctx, "k", append(opts, rowlock.Reentrant())...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestReentrantView: a view has the token of the lease that ctx comes from, costs no
// statement, and its Release ends nothing else.
func TestReentrantView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		before := f.Store.Statements()
		v := view(t, c, l.Context(context.Background()))
		tried, err := c.TryAcquire(l.Context(context.Background()), "k", rowlock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		inner := view(t, c, v.Context(context.Background()))
		if inner.Token() != l.Token() || tried.Token() != l.Token() || v.Key() != "k" {
			t.Errorf("a view of token %d has %d and %d, key %q", l.Token(), inner.Token(), tried.Token(), v.Key())
		}
		ctx := v.Context(context.Background())
		if err := v.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-v.Done():
		default:
			t.Error("Done of a released view is open")
		}
		if !errors.Is(v.Err(), rowlock.ErrReleased) || !errors.Is(context.Cause(ctx), rowlock.ErrReleased) {
			t.Errorf("a released view: %v, its context %v", v.Err(), context.Cause(ctx))
		}
		if l.Err() != nil || tried.Err() != nil || inner.Err() != nil {
			t.Errorf("the release of a view ended %v, %v, %v", l.Err(), tried.Err(), inner.Err())
		}
		if err := v.Release(context.Background()); err != nil {
			t.Errorf("second release of a view: %v", err)
		}
		if n := f.Store.Statements() - before; n != 0 {
			t.Errorf("views sent %d statements", n)
		}
		if n := c.Stats().Held; n != 1 {
			t.Errorf("Stats.Held is %d with one lease and its views", n)
		}
		taken(t, f, "k")
		if err := l.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(inner.Err(), rowlock.ErrReleased) || inner.Release(context.Background()) != nil {
			t.Errorf("after the release of the first lease a view says %v", inner.Err())
		}
		free(t, f, "k")
	})
}

// TestReentrantLoss: the loss of the first lease ends every view with the same error, and a
// view that was released before stays released.
func TestReentrantLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k", rowlock.NoRenew())
		over := view(t, c, l.Context(context.Background()))
		_ = over.Release(context.Background())
		v := view(t, c, l.Context(context.Background()))
		ctx := v.Context(context.Background())
		f.freeze(31 * time.Second)
		if got := reason(v.Err()); got != rowlock.ReasonExpired { // the first look is that of the view
			t.Errorf("P2: a view of an expired lease says %v", v.Err())
		}
		if v.Err() != l.Err() || context.Cause(ctx) != l.Err() {
			t.Errorf("the lease says %v, its view %v, the view's context %v", l.Err(), v.Err(), context.Cause(ctx))
		}
		if err := v.Release(context.Background()); err != l.Err() {
			t.Errorf("release of a lost view = %v", err)
		}
		if !errors.Is(over.Err(), rowlock.ErrReleased) {
			t.Errorf("a view that was released before says %v", over.Err())
		}
	})
}

// TestReentrantRenew: Renew through a view renews the grant.
func TestReentrantRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newFaultStore())
		l := acquire(t, c, "k", rowlock.NoRenew())
		v := view(t, c, l.Context(context.Background()))
		time.Sleep(20 * time.Second)
		if err := v.Renew(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if l.Err() != nil || v.Err() != nil {
			t.Errorf("after a renewal by the view: %v, %v", l.Err(), v.Err())
		}
		_ = v.Release(context.Background())
		if err := v.Renew(context.Background()); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("Renew of a released view = %v", err)
		}
	})
}

// TestReentrantGuard: a guard through a view marks the grant, which is not handed off then.
func TestReentrantGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		got := make(chan *rowlock.Lease)
		go func() { defer close(got); got <- acquire(t, c, "k") }()
		synctest.Wait()
		v := view(t, c, l.Context(context.Background()))
		if h, err := rowlock.BeginGuard(v, f); err != nil || h != holdOf(l) {
			t.Fatalf("a guard through a view names %+v, %v", h, err)
		}
		_ = v.Release(context.Background())
		if _, err := rowlock.BeginGuard(v, f); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("a guard through a released view: %v", err)
		}
		if err := l.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		if next := <-got; next.Token() < l.Token()+driver.TokenRange {
			t.Errorf("P4: token %d after %d: handed off after a guard through a view", next.Token(), l.Token())
		}
	})
}

// TestReentrantHandoff: a lease with views is handed off as ever, and they end.
func TestReentrantHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newFaultStore())
		l := acquire(t, c, "k")
		v := view(t, c, l.Context(context.Background()))
		got := make(chan *rowlock.Lease)
		go func() { defer close(got); got <- acquire(t, c, "k") }()
		synctest.Wait()
		_ = l.Release(context.Background())
		if next := <-got; next.Token() != l.Token()+1 || !errors.Is(v.Err(), rowlock.ErrReleased) || v.Renew(context.Background()) == nil {
			t.Errorf("token %d after %d; the view says %v", next.Token(), l.Token(), v.Err())
		}
	})
}

// TestReentrantWithoutALease: without a live lease in ctx it is an ordinary acquire, also
// where the lease is another client's, of another key, or over.
func TestReentrantWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f)
		over := acquire(t, c, "k")
		ctx := context.WithoutCancel(over.Context(context.Background()))
		_ = over.Release(context.Background())
		l := view(t, c, ctx)
		if l.Token() <= over.Token() {
			t.Errorf("token %d after %d: no lease of its own", l.Token(), over.Token())
		}
		if _, err := other.TryAcquire(l.Context(context.Background()), "k", rowlock.Reentrant()); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire by another client in the context of the lease: %v, want ErrHeld", err)
		}
		if _, err := c.TryAcquire(acquire(t, c, "another").Context(context.Background()), "k", rowlock.Reentrant()); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquire in the context of another key's lease: %v, want ErrHeld", err)
		}
		if _, err := c.Acquire(view(t, c, l.Context(context.Background())).Context(context.Background()), "k"); !errors.Is(err, rowlock.ErrSelfDeadlock) {
			t.Errorf("Acquire without the option in the context of a view: %v, want ErrSelfDeadlock", err)
		}
	})
}

// TestReentrantOptions: a view ignores how the key is to be held, and refuses what the first
// lease cannot give.
func TestReentrantOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newFaultStore())
		plain := acquire(t, c, "k")
		v := view(t, c, plain.Context(context.Background()), rowlock.TTL(time.Hour), rowlock.MaxHold(2*time.Hour), rowlock.NoRenew(), rowlock.Owner("else"), rowlock.NoWait())
		if v.Token() != plain.Token() {
			t.Errorf("no view: token %d", v.Token())
		}
		for name, opt := range map[string]rowlock.Option{"Guarded": rowlock.Guarded(), "MinHold": rowlock.MinHold(time.Minute)} {
			for _, try := range []func(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error){c.Acquire, c.TryAcquire} {
				_, err := try(plain.Context(context.Background()), "k", opt, rowlock.Reentrant())
				if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s of a lease without: %v", name, err)
				}
			}
		}
		_ = plain.Release(context.Background())
		able := acquire(t, c, "k", rowlock.Guarded(), rowlock.MinHold(time.Minute))
		view(t, c, able.Context(context.Background()), rowlock.Guarded(), rowlock.MinHold(time.Minute))
		if _, err := c.TryAcquire(able.Context(context.Background()), "k", nil); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("a nil option: %v", err)
		}
	})
}

// TestReentrantDo: Do inside Do releases only the view, on a panic too, and a Close waits for
// both functions under the one lease.
func TestReentrantDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		err := rowlock.Do(context.Background(), c, "k", func(ctx context.Context, l *rowlock.Lease) error {
			func() {
				defer func() { _ = recover() }()
				_ = rowlock.Do(ctx, wrap{c}, "k", func(context.Context, *rowlock.Lease) error { panic("inner") }, rowlock.Reentrant())
			}()
			err := rowlock.Do(ctx, c, "k", func(inner context.Context, v *rowlock.Lease) error {
				if v.Token() != l.Token() {
					t.Errorf("token %d inside %d", v.Token(), l.Token())
				}
				if err := c.Close(inner); !errors.Is(err, rowlock.ErrSelfDeadlock) {
					t.Errorf("Close inside: %v", err)
				}
				return nil
			}, rowlock.Reentrant())
			if l.Err() != nil {
				t.Errorf("the inner Do released the lease: %v", l.Err())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		free(t, f, "k")
	})
}

// TestP12_CloseWaitsForDoUnderAView: a function of Do under a view keeps the first lease, and
// is waited for; a caller beside it that has the first lease may close.
func TestP12_CloseWaitsForDoUnderAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		let, started, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- rowlock.Do(l.Context(context.Background()), c, "k", func(ctx context.Context, v *rowlock.Lease) error {
				close(started)
				<-ctx.Done()
				<-let
				if !errors.Is(context.Cause(ctx), rowlock.ErrClosed) {
					t.Errorf("P12: the function's context ended with %v", context.Cause(ctx))
				}
				return v.Err()
			}, rowlock.Reentrant())
		}()
		<-started
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.WithoutCancel(l.Context(context.Background()))) }()
		time.Sleep(time.Minute)
		taken(t, f, "k")
		select {
		case err := <-closed:
			t.Errorf("P12: Close did not wait for the function under the view: %v", err)
		default:
		}
		close(let)
		if err := <-done; err != nil {
			t.Errorf("P12: the function under the view: %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if got := reason(l.Err()); got != rowlock.ReasonClosed {
			t.Errorf("the first lease after Close: %v", l.Err())
		}
		free(t, f, "k")
	})
}

// TestCloseEndsTheLeaseOfAView: a lease whose view was under a function of Do ends with Close, also
// where the function returned after the other leases had been released.
func TestCloseEndsTheLeaseOfAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		done := make(chan error, 1)
		go func() {
			done <- rowlock.Do(l.Context(context.Background()), c, "k", func(context.Context, *rowlock.Lease) error {
				time.Sleep(9 * time.Second)
				return l.Err()
			}, rowlock.Reentrant())
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("P12: the lease while the function ran: %v", err)
		}
		if got := reason(l.Err()); got != rowlock.ReasonClosed {
			t.Errorf("P12: the first lease after Close: %v", l.Err())
		}
		free(t, f, "k")
	})
}

// TestCloseGivesUpUnderAView: the key of a function that never returns is named once.
func TestCloseGivesUpUnderAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		let := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = rowlock.Do(context.Background(), c, "k", func(ctx context.Context, _ *rowlock.Lease) error {
				return rowlock.Do(ctx, c, "k", func(context.Context, *rowlock.Lease) error { <-let; return nil }, rowlock.Reentrant())
			})
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Close(ctx); err == nil || strings.Count(err.Error(), `"k"`) != 1 {
			t.Errorf("Close = %v, want one that names the key once", err)
		}
		close(let)
		wg.Wait()
	})
}

// TestReentrantIsNoLongHold: of a lease with views that is held for long there is one line.
func TestReentrantIsNoLongHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		c := newClient(t, memory.New(), logTo(log, rowlock.Options{LongHold: time.Minute}))
		l := acquire(t, c, "k")
		view(t, c, l.Context(context.Background()))
		time.Sleep(10 * time.Minute)
		if lines := log.lines(longHold); len(lines) != 1 {
			t.Errorf("logged %d times: %v", len(lines), lines)
		}
		_ = l.Release(context.Background())
	})
}

// TestReentrantRace: views that begin and end beside the end of their lease.
func TestReentrantRace(t *testing.T) {
	c := newClient(t, memory.New())
	for range 200 {
		l := acquire(t, c, "k")
		ctx := context.WithoutCancel(l.Context(context.Background()))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				v, err := c.Acquire(ctx, "k", rowlock.Reentrant())
				if err != nil {
					t.Error(err)
					return
				}
				_ = v.Err()
				if err := v.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if l.Err() == nil {
			t.Fatal("the lease has not ended")
		}
	}
}
