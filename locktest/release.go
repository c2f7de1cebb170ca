// P12, the first half: Release is sent on a dead context, can be repeated, and
// waits for a server that is gone no longer than it was told to.

package locktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

var release = []testCase{
	{name: "P12_ReleaseOnADeadContext", engine: true, run: releaseDeadContext},
	{name: "P12_ReleaseTwice", engine: true, run: releaseTwice},
	{name: "P12_DoReleases", engine: true, run: doReleases},
	{name: "P12_ServerPaused", long: true, run: releaseServerPaused, needs: server},
	{name: "P12_ServerGone", long: true, run: releaseServerGone, needs: server},
}

func releaseDeadContext(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	key := e.key(t)
	lease, err := a.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := lease.Release(ctx); err != nil {
		t.Errorf("P12: release on a cancelled context: %v", err)
	}
	if err := lease.Err(); !errors.Is(err, rowlock.ErrReleased) {
		t.Errorf("Err after release is %v, want ErrReleased", err)
	}
	// At once: TryAcquire, because the release has been answered.
	next, err := b.TryAcquire(soon(t), key)
	if err != nil {
		t.Fatalf("P12: the key after a release on a cancelled context: %v", err)
	}
	release1(t, next)
}

// releaseTwice releases from many goroutines, and again later, while another holds.
func releaseTwice(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := lease.Release(context.Background()); err != nil {
				t.Errorf("P12: one of many releases: %v", err)
			}
		})
	}
	wg.Wait()
	closed(t, "Done of a released lease is closed", lease.Done())
	next := acquire(t, b, key)
	for range 3 {
		if err := lease.Release(context.Background()); err != nil {
			t.Errorf("P12: a later release: %v", err)
		}
	}
	if err := lease.Renew(soon(t)); !errors.Is(err, rowlock.ErrReleased) {
		t.Errorf("renewal of a released lease: %v, want ErrReleased", err)
	}
	refused(t, a, key)
	if err := renew1(t, next); err != nil {
		t.Errorf("P5: the next holder lost its lease to a repeated release: %v", err)
	}
	release1(t, next)
}

// doReleases ends Do in each way.
func doReleases(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key, want := e.key(t), errors.New("fn's own")
	ctx := context.Background()
	for name, fn := range map[string]func() error{
		"nil":   func() error { return nil },
		"error": func() error { return want },
		"panic": func() error { panic("fn's own") },
	} {
		func() {
			defer func() { _ = recover() }()
			err := rowlock.Do(ctx, a, key, func(ctx context.Context, l *rowlock.Lease) error {
				if err := errors.Join(l.Err(), ctx.Err()); err != nil {
					t.Errorf("inside Do: %v", err)
				}
				refused(t, b, key)
				return fn()
			})
			if name == "nil" && err != nil || name == "error" && !errors.Is(err, want) {
				t.Errorf("Do gave %v for %s", err, name)
			}
		}()
		freeSoon(t, b, key)
	}
}

func releaseServerPaused(t *testing.T, e *env) {
	const wait = 500 * time.Millisecond
	srv, open := e.Server(t)
	c := e.clientOn(t, open(t), rowlock.Options{ReleaseWait: wait})
	key := e.key(t)
	lease := acquire(t, c, key)
	srv.Pause()
	resume := sync.OnceFunc(srv.Resume)
	t.Cleanup(resume)
	began := time.Now()
	err := lease.Release(context.Background())
	if took := time.Since(began); err != nil || took > wait+5*time.Second {
		t.Errorf("P12: release on a server that hangs: %v after %v, ReleaseWait %v", err, took, wait)
	}
	resume()
	freeSoon(t, e.clientOn(t, open(t), rowlock.Options{}), key) // the release is repeated
}

func releaseServerGone(t *testing.T, e *env) {
	const wait = 500 * time.Millisecond
	srv, open := e.Server(t)
	s := open(t)
	c, err := rowlock.New(s, rowlock.Options{TTL: longTTL, ReleaseWait: wait, ReapInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	released, left := e.key(t), e.key(t)
	lease := acquire(t, c, released)
	acquire(t, c, left)
	if s.Limits().Heartbeat {
		// The end of a session would end its lease, and its release would have nothing to send.
		srv.Pause()
		t.Cleanup(srv.Resume)
	} else {
		srv.Kill()
		t.Cleanup(srv.Restart) // for the clean-up of the Store
	}
	began := time.Now()
	err = lease.Release(context.Background())
	if took := time.Since(began); err != nil || took > wait+5*time.Second {
		t.Errorf("P12: release without a server: %v after %v, ReleaseWait %v", err, took, wait)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	began = time.Now()
	err = c.Close(ctx)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("P12: close without a server: %v after %v, want its context's error", err, took)
	} else if !names(err, left) || !names(err, released) {
		t.Errorf("P12: close without a server does not name what is left (%q, %q): %v", released, left, err)
	}
}
