package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// wrap is a Locker that is not a Client, as a program's own may be.
// deaf runs Do with a function that hears of its context's end but goes on until let.
// started is closed when it runs; the error of Do comes on done.
func deaf(l rowlock.Locker, key string, let <-chan struct{}, opts ...rowlock.Option) (started chan struct{}, fn func() (context.Context, *rowlock.Lease), done chan error) {
	started, done = make(chan struct{}), make(chan error, 1)
	var c context.Context
	var lease *rowlock.Lease
	go func() {
		done <- rowlock.Do(context.Background(), l, key, func(ctx context.Context, l *rowlock.Lease) error {
			c, lease = ctx, l
			close(started)
			<-let
			return nil
		}, opts...)
	}()
	return started, func() (context.Context, *rowlock.Lease) { return c, lease }, done
}

// TestP12_CloseWaitsForDo: Close ends the context of a function that runs, and waits
// for it; until it returns its lease is held, renewed and good for a guard.
func TestP12_CloseWaitsForDo(t *testing.T) {
	for name, locker := range map[string]func(*rowlock.Client) rowlock.Locker{
		"client":        func(c *rowlock.Client) rowlock.Locker { return c },
		"wrapped twice": func(c *rowlock.Client) rowlock.Locker { return wrap{wrap{c}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				let := make(chan struct{})
				started, fn, done := deaf(locker(c), "job", let)
				<-started
				ctx, lease := fn()
				plain := acquire(t, c, "plain")
				closed := make(chan error, 1)
				go func() { closed <- c.Close(context.Background()) }()
				synctest.Wait()
				if ctx.Err() == nil || !errors.Is(context.Cause(ctx), rowlock.ErrClosed) {
					t.Errorf("P12: the function's context after Close began: %v, cause %v, want ErrClosed", ctx.Err(), context.Cause(ctx))
				}
				if _, err := c.TryAcquire(context.Background(), "another"); !errors.Is(err, rowlock.ErrClosed) {
					t.Errorf("TryAcquire after Close began = %v", err)
				}
				time.Sleep(5 * time.Minute) // ten TTLs
				taken(t, f, "job")
				taken(t, f, "plain")
				if err := lease.Err(); err != nil {
					t.Errorf("P12: the lease of a function that still runs: %v", err)
				}
				if _, err := rowlock.BeginGuard(lease, f); err != nil {
					t.Errorf("P12: a guard of it: %v", err)
				}
				if err := lease.Renew(context.Background()); err != nil {
					t.Errorf("P12: a renewal of it: %v", err)
				}
				if err := plain.Err(); err != nil {
					t.Errorf("P12: a lease without Do while Close waits: %v", err)
				}
				select {
				case err := <-closed:
					t.Fatalf("P12: Close = %v while a function of Do runs", err)
				default:
				}
				close(let)
				if err := <-done; err != nil {
					t.Errorf("P12: Do = %v, want nil: its lease was held to the end", err)
				}
				if err := <-closed; err != nil {
					t.Errorf("P12: Close = %v", err)
				}
				if reason(plain.Err()) != rowlock.ReasonClosed {
					t.Errorf("P12: the lease without Do: %v", plain.Err())
				}
				free(t, f, "job")
				free(t, f, "plain")
				if s := c.Stats(); s.Losses != 1 {
					t.Errorf("%d losses, want that of the lease without Do", s.Losses)
				}
			})
		})
	}
}

// TestP12_CloseGivesADeafFunctionUp: when ctx ends first the key of a function that
// still runs is not released. It is named, its holder knows, the TTL frees it. The
// other leases were released in time.
func TestP12_CloseGivesADeafFunctionUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		let := make(chan struct{})
		started, fn, done := deaf(c, "job", let)
		<-started
		_, lease := fn()
		acquire(t, c, "plain")
		ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
		defer cancel()
		start := time.Now()
		err := c.Close(ctx)
		if d := time.Since(start); d != 45*time.Second {
			t.Errorf("P12: Close took %v, its ctx ends after 45s", d)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"job"`) || strings.Contains(err.Error(), "plain") {
			t.Errorf("P12: Close = %v, want an error that names the job's key alone", err)
		}
		free(t, f, "plain")
		taken(t, f, "job")
		if reason(lease.Err()) != rowlock.ReasonClosed {
			t.Errorf("P12: Err of the lease that was given up: %v", lease.Err())
		}
		if again := c.Close(context.Background()); again == nil || again.Error() != err.Error() {
			t.Errorf("a second Close = %v, want the answer of the first", again)
		}
		time.Sleep(20 * time.Second) // the last renewal was at most 10 s before the end
		released := f.seen("release")
		for _, call := range released {
			for _, key := range call.keys {
				if key == "job" {
					t.Error("P12: the key of a function that still runs was released")
				}
			}
		}
		time.Sleep(10 * time.Second)
		free(t, f, "job")
		close(let)
		if err := <-done; reason(err) != rowlock.ReasonClosed {
			t.Errorf("P12: Do = %v, want a LostError: the client was closed", err)
		}
	})
}

// TestP12_CloseOnADeadContext: a ctx that is over on entry waits for nothing.
func TestP12_CloseOnADeadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		let := make(chan struct{})
		started, _, done := deaf(c, "job", let)
		<-started
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		start := time.Now()
		err := c.Close(ctx)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `"job"`) || time.Since(start) > 0 {
			t.Errorf("P12: Close = %v after %v", err, time.Since(start))
		}
		taken(t, f, "job")
		close(let)
		<-done
		idle := newClient(t, f)
		if err := idle.Close(ctx); err != nil {
			t.Errorf("P12: Close of a client that holds nothing = %v", err)
		}
	})
}

// TestP12_CloseInsideDo: the function would wait for itself. Nothing was closed.
func TestP12_CloseInsideDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f)
		var ended context.Context
		err := rowlock.Do(context.Background(), c, "k", func(ctx context.Context, l *rowlock.Lease) error {
			child, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			ended = context.WithoutCancel(ctx)
			for _, ctx := range []context.Context{child, ended, l.Context(context.Background())} {
				if err := c.Close(ctx); !errors.Is(err, rowlock.ErrSelfDeadlock) {
					t.Errorf("P12: Close inside fn = %v, want ErrSelfDeadlock", err)
				}
			}
			if err := other.Close(ctx); err != nil {
				t.Errorf("Close of another client = %v", err)
			}
			acquire(t, c, "still open").Release(ctx)
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("Do = %v", err)
		}
		if err := c.Close(ended); err != nil { // of a function that has returned
			t.Errorf("P12: Close after Do returned = %v", err)
		}
	})
}

// TestP12_ReleaseWhileCloseWaits: it is a release as ever, and its answer is nil; with
// MinHold the key stays taken.
func TestP12_ReleaseWhileCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		let := make(chan struct{})
		started, _, done := deaf(c, "job", let, rowlock.MinHold(time.Hour))
		<-started
		plain := acquire(t, c, "plain")
		waiter := make(chan error, 1)
		go func() {
			_, err := c.Acquire(context.Background(), "plain")
			waiter <- err
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }()
		if err := <-waiter; !errors.Is(err, rowlock.ErrClosed) {
			t.Errorf("P12: the waiter got %v", err)
		}
		if err := plain.Release(context.Background()); err != nil {
			t.Errorf("P12: Release while Close waits = %v", err)
		}
		free(t, f, "plain")
		f.set(on("release", verdict{slow: time.Second}))
		close(let)
		if err := <-done; err != nil {
			t.Errorf("P12: Do = %v", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("P12: Close = %v", err)
		}
		infos, err := f.Store.Inspect(context.Background(), []string{"job"})
		if err != nil || !infos[0].Kept {
			t.Errorf("the key with MinHold after Close: %+v, %v", infos, err)
		}
		if s := c.Stats(); s.Losses != 0 || s.Held != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestP12_LossWhileCloseWaits: a lease that is lost meanwhile is lost as ever.
func TestP12_LossWhileCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		let := make(chan struct{})
		started, fn, done := deaf(c, "job", let)
		<-started
		_, lease := fn()
		closed := make(chan error, 2)
		for range 2 { // two at once: the second waits for the first
			go func() { closed <- c.Close(context.Background()) }()
		}
		synctest.Wait()
		f.ForceRelease(context.Background(), "job")
		<-lease.Done()
		if reason(lease.Err()) != rowlock.ReasonForced {
			t.Errorf("Err = %v", lease.Err())
		}
		time.Sleep(time.Minute)
		select {
		case err := <-closed:
			t.Errorf("P12: Close = %v while a function of Do runs", err)
		default:
		}
		close(let)
		if err := <-done; reason(err) != rowlock.ReasonForced {
			t.Errorf("Do = %v", err)
		}
		for range 2 {
			if err := <-closed; err != nil {
				t.Errorf("Close = %v", err)
			}
		}
	})
}

// slowLocker hands a lease out only when let.
type slowLocker struct {
	rowlock.Locker
	let chan struct{}
}

func (s slowLocker) Acquire(ctx context.Context, key string, opts ...rowlock.Option) (*rowlock.Lease, error) {
	l, err := s.Locker.Acquire(ctx, key, opts...)
	<-s.let
	return l, err
}

// TestP12_NoFunctionBeginsAfterClose: a lease that was granted just before Close runs
// no function any more.
func TestP12_NoFunctionBeginsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := slowLocker{c, make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			done <- rowlock.Do(context.Background(), l, "k", func(context.Context, *rowlock.Lease) error {
				t.Error("P12: a function began after Close")
				return nil
			})
		}()
		synctest.Wait()
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
		close(l.let)
		if err := <-done; !errors.Is(err, rowlock.ErrClosed) {
			t.Errorf("Do = %v, want ErrClosed", err)
		}
		free(t, f, "k")
	})
}

// TestP12_CloseNamesWhatItCutsOff: attempts and releases without an answer.
func TestP12_CloseNamesWhatItCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		l := acquire(t, c, "released")
		f.set(func(call) verdict { return verdict{hang: true} })
		errs := make(chan error, 3)
		go func() { errs <- l.Release(context.Background()) }()
		go func() {
			_, err := c.Acquire(context.Background(), "waited")
			errs <- err
		}()
		go func() {
			_, err := c.TryAcquire(context.Background(), "tried")
			errs <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		for _, key := range []string{`"released"`, `"waited"`, `"tried"`} {
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), key) {
				t.Errorf("P12: Close = %v, want an error that names %s", err, key)
			}
		}
		for range 3 {
			<-errs
		}
	})
}

// TestP12_CloseSaysThatItWasCutOff: also where no key is concerned.
func TestP12_CloseSaysThatItWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		f.set(on("inspect", verdict{hang: true}))
		done := make(chan error, 1)
		go func() {
			_, err := c.Inspect(context.Background(), "k")
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("P12: Close = %v while a statement hangs, want its ctx's error", err)
		}
		if err := <-done; err == nil {
			t.Error("Inspect = nil")
		}
	})
}
