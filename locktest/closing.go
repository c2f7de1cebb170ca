// P12, the second half: Close frees everything it can reach and ends every wait,
// and nothing leaks a goroutine.

package locktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

var closing = []testCase{
	{name: "P12_CloseReleasesAll", engine: true, run: closeReleases},
	{name: "P12_CloseEndsWaits", engine: true, run: closeEndsWaits},
	{name: "P12_CloseWaitsForDo", engine: true, run: closeWaitsForDo},
	{name: "P12_UseAfterClose", engine: true, run: useAfterClose},
	{name: "P12_NoGoroutineLeft", real: true, run: noGoroutineLeft},
}

func names(err error, key string) bool { return err != nil && strings.Contains(err.Error(), key) }

func closeReleases(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	var leases []*rowlock.Lease
	for range e.hold(50) {
		leases = append(leases, acquire(t, a, e.key(t)))
	}
	if err := a.Close(soon(t)); err != nil {
		t.Fatalf("P12: close: %v", err)
	}
	for _, lease := range leases {
		if err := lease.Err(); reasonOf(err) != rowlock.ReasonClosed {
			t.Errorf("P12: Err after Close is %v, want ErrLost for reason closed", err)
		}
		next, err := b.TryAcquire(soon(t), lease.Key()) // at once
		for n := 0; n < 20 && e.slowAnswer(err); n++ {
			next, err = b.TryAcquire(soon(t), lease.Key())
		}
		if err != nil {
			t.Errorf("P12: a key after its holder's Close: %v", err)
			continue
		}
		release1(t, next)
	}
}

// slowAnswer reports whether a key was taken for pinned where a busy server's slow statement does so.
func (e *env) slowAnswer(err error) bool {
	var held *rowlock.HeldError
	return e.RowLocks && errors.As(err, &held) && held.Pinned
}

func closeEndsWaits(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key, own := e.key(t), e.key(t)
	lease := acquire(t, b, key)
	acquire(t, a, own)
	errs := make(chan error)
	const n = 10
	for i := range n {
		go func() {
			_, err := a.Acquire(context.Background(), []string{key, own}[i%2])
			errs <- err
		}()
	}
	until(t, "the callers wait", func() bool { return a.Stats().Waiting == n })
	if err := a.Close(soon(t)); err != nil {
		t.Fatalf("P12: close: %v", err)
	}
	for range n {
		if err := <-errs; !errors.Is(err, rowlock.ErrClosed) {
			t.Errorf("P12: a wait that Close ended: %v, want ErrClosed", err)
		}
	}
	release1(t, lease)
	freeSoon(t, b, key)
	freeSoon(t, b, own)
}

// closeWaitsForDo closes a client under a function that goes on for a while after its
// context has ended. Another program that waits for the key must not begin before.
func closeWaitsForDo(t *testing.T, e *env) {
	s := e.Open(t)
	a, b := e.clientOn(t, s, rowlock.Options{}), e.client(t, rowlock.Options{})
	var opts []rowlock.Option
	if guarding(e) {
		opts = append(opts, rowlock.Guarded())
	}
	key, plain := e.key(t), acquire(t, a, e.key(t))
	started, heard, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var running atomic.Bool
	running.Store(true)
	go func() {
		done <- rowlock.Do(context.Background(), a, key, func(ctx context.Context, lease *rowlock.Lease) error {
			defer running.Store(false)
			close(started)
			<-ctx.Done()
			close(heard)
			if cause := context.Cause(ctx); !errors.Is(cause, rowlock.ErrClosed) {
				t.Errorf("P12: the context of a function under Do ended with the cause %v, want ErrClosed", cause)
			}
			time.Sleep(2 * time.Second) // deaf
			if err := renew1(t, lease); err != nil {
				t.Errorf("P12: a renewal while Close waits for the function: %v", err)
			}
			if guarding(e) {
				if err := e.InTx(soon(t), s, func(context.Context) error { return nil }, lease); err != nil {
					t.Errorf("P12: a guarded transaction while Close waits for the function: %v", err)
				}
			}
			return lease.Err()
		}, opts...)
	}()
	closed(t, "the function runs", started)
	next := make(chan error, 1)
	go func() {
		lease, err := b.Acquire(soon(t), key)
		if running.Load() {
			t.Error("P12: the key was granted while a function of Do ran under it")
		}
		if err == nil {
			err = lease.Release(context.Background())
		}
		next <- err
	}()
	until(t, "the other program waits", func() bool { return b.Stats().Waiting == 1 })
	if err := a.Close(soon(t)); err != nil {
		t.Errorf("P12: close: %v", err)
	}
	if running.Load() {
		t.Error("P12: Close returned while a function of Do ran")
	}
	closed(t, "the function hears of Close", heard)
	if err := <-done; err != nil {
		t.Errorf("P12: Do while Close waits for it: %v", err)
	}
	if err := <-next; err != nil {
		t.Errorf("P12: the other program: %v", err)
	}
	if err := plain.Err(); reasonOf(err) != rowlock.ReasonClosed {
		t.Errorf("P12: a lease without Do after Close: %v, want ErrLost for reason closed", err)
	}
	freeSoon(t, b, plain.Key())
}

func useAfterClose(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key)
	ctx := lease.Context(context.Background())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := a.Close(soon(t)); err != nil {
				t.Errorf("P12: close: %v", err)
			}
		})
	}
	wg.Wait()
	_, err1 := a.Acquire(soon(t), key)
	_, err2 := a.TryAcquire(soon(t), key)
	_, err3 := a.Inspect(soon(t), key)
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, rowlock.ErrClosed) {
			t.Errorf("P12: use after Close: %v, want ErrClosed", err)
		}
	}
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), rowlock.ErrLost) {
		t.Errorf("the lease's context after Close: %v, cause %v", ctx.Err(), context.Cause(ctx))
	}
	next := acquire(t, b, key)
	if err := lease.Release(context.Background()); !errors.Is(err, rowlock.ErrLost) {
		t.Errorf("release after Close: %v, want ErrLost", err)
	}
	if err := lease.Renew(context.Background()); !errors.Is(err, rowlock.ErrLost) {
		t.Errorf("renewal after Close: %v, want ErrLost", err)
	}
	if err := renew1(t, next); err != nil {
		t.Errorf("P5: the next holder: %v", err)
	}
	release1(t, next)
}

// noGoroutineLeft counts the goroutines that busy clients and their Stores started,
// by a profiler label, which goroutines inherit: other cases run meanwhile. What
// the Harness does to open and close a Store is not counted.
func noGoroutineLeft(t *testing.T, e *env) {
	mark := e.key(t)
	t.Run("work", func(t *testing.T) { // its end closes the Stores
		f := NewFault(e.Open(t))
		a := e.clientOn(t, f, rowlock.Options{TTL: e.ttl, ReapInterval: time.Hour})
		b := e.client(t, rowlock.Options{})
		pprof.Do(context.Background(), pprof.Labels("locktest", mark), func(context.Context) { work(t, e, f, a, b) })
	})
	left := "?"
	for end := time.Now().Add(patience(t)); left != "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			t.Fatal(err)
		}
		left = ""
		for _, group := range strings.Split(b.String(), "\n\n") {
			if strings.Contains(group, fmt.Sprintf("%q:%q", "locktest", mark)) {
				left += group + "\n\n"
			}
		}
	}
	if left != "" {
		t.Errorf("P12: goroutines are left of clients and Stores that were closed:\n%s", left)
	}
}

// work uses all parts of a client: renewals, waits that are given up, undos, losses.
func work(t *testing.T, e *env, f *Fault, a, b *rowlock.Client) {
	key, other := e.key(t), e.key(t)
	theirs := acquire(t, b, key)
	mine := acquire(t, a, other)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			_, _ = a.Acquire(ctx, []string{key, other}[i%2])
		})
	}
	f.On(OpAcquire, Once(LoseReply))
	_, _ = a.TryAcquire(soon(t), e.key(t))
	acquire(t, a, e.key(t), rowlock.NoRenew()) // left to Close
	renewals := a.Stats().Renewals
	until(t, "a renewal", func() bool { return a.Stats().Renewals > renewals || mine.Err() != nil })
	cancel()
	wg.Wait()
	_ = mine.Release(ctx)
	release1(t, theirs)
	for _, c := range []*rowlock.Client{a, b} {
		if err := c.Close(soon(t)); err != nil {
			t.Errorf("P12: close: %v", err)
		}
	}
}
