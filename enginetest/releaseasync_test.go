package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestReleaseAsync: the lease has ended, the caller goes on, and the release arrives.
func TestReleaseAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{ReleaseAsync: true})
		f.set(on("release", verdict{slow: 2 * time.Second}))
		l := acquire(t, c, "k")
		start := time.Now()
		if err := l.Release(context.Background()); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if !errors.Is(l.Err(), rowlock.ErrReleased) {
			t.Errorf("Err = %v", l.Err())
		}
		again, err := c.TryAcquire(context.Background(), "k")
		if err != nil {
			t.Fatalf("an attempt behind the client's own release: %v", err)
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("it went after %v, not after the release was answered", d)
		}
		if err := l.Release(context.Background()); err != nil || again.Err() != nil {
			t.Errorf("released again: %v; the next lease: %v", err, again.Err())
		}
	})
}

// TestReleaseAsyncIsBounded: a release that is not answered keeps an attempt of the same
// client for three seconds at most.
func TestReleaseAsyncIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{ReleaseAsync: true, ReleaseWait: 10 * time.Second})
		f.set(on("release", verdict{hang: true}))
		acquire(t, c, "k").Release(context.Background())
		start := time.Now()
		_, err := c.TryAcquire(context.Background(), "k")
		if d := time.Since(start); d != 3*time.Second || !isOwnRelease(err) {
			t.Errorf("%v after %v", err, d)
		}
		f.set(nil)
	})
}

// TestReleaseAsyncTellsTheLogOfALoss that Release would have told of.
func TestReleaseAsyncTellsTheLogOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{ReleaseAsync: true})
		l := acquire(t, c, "k")
		f.Expire("k")
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := c.Stats(); s.Losses != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestP12_CloseWaitsForAsyncReleases: nothing that was released stays taken.
func TestP12_CloseWaitsForAsyncReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{ReleaseAsync: true})
		f.set(on("release", verdict{delay: time.Second}))
		for _, key := range []string{"a", "b", "c"} {
			acquire(t, c, key).Release(context.Background())
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		infos, err := f.Store.Inspect(context.Background(), []string{"a", "b", "c"})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			if i.Held {
				t.Errorf("P12: %q is held after Close", i.Key)
			}
		}
	})
}
