// P6: an acquire that failed, timed out or was given up leaves no hold behind. The
// TTL here is minutes, so a key that is free soon was freed by the engine.

package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var giveUp = []testCase{
	{name: "P6_WaitGivenUp", engine: true, run: waitGivenUp},
	{name: "P6_WaitGivenUpAtTheRelease", run: givenUpAtRelease},
	{name: "P6_TryGivenUpInTheMiddle", engine: true, run: tryGivenUp},
	{name: "P6_TryGivenUpAtAnyMoment", run: tryAnyMoment},
	{name: "P6_MinHoldOfAGivenUpTry", engine: true, run: givenUpMinHold},
	{name: "P6_ServerPaused", long: true, run: givenUpPaused, needs: server},
}

func waitGivenUp(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key)
	for _, c := range []*rowlock.Client{a, b} { // the holder's own program, and another
		seen := false // on a slow machine the wait ends before the first answer
		for wait := 100 * time.Millisecond; wait < patience(t) && !seen; wait *= 2 {
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			_, err := c.Acquire(ctx, key)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a wait whose context ended: %v, want its error", err)
			}
			seen = errors.Is(err, rowlock.ErrHeld)
			if c == a && !seen {
				t.Errorf("a wait behind a holder in the same program: %v, want ErrHeld: nobody need be asked", err)
			}
		}
		if !seen {
			t.Error("no wait for a held key whose context ended matches ErrHeld")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Acquire(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("an acquire with a context that has ended: %v", err)
	}
	release1(t, lease)
	freeSoon(t, a, key)
	freeSoon(t, b, key)
}

// givenUpAtRelease gives waits up around the moment at which the key is released.
func givenUpAtRelease(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	for range 10 {
		lease := acquire(t, a, key)
		var wg sync.WaitGroup
		for range e.load(8) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond+rand.N(20*time.Millisecond))
				defer cancel()
				got, err := b.Acquire(ctx, key)
				if err == nil {
					_ = got.Release(ctx)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a wait that was given up: %v", err)
				}
			})
		}
		time.Sleep(rand.N(20 * time.Millisecond))
		release1(t, lease)
		wg.Wait()
		freeSoon(t, a, key)
	}
}

// tryGivenUp ends the caller's context after the database has granted and before
// the answer is in.
func tryGivenUp(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	key := e.key(t)
	for _, waiting := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan struct{})
		f.On(OpAcquire, Once(func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
			results, err := send(ctx)
			cancel()
			<-gone
			return results, err
		}))
		do := a.TryAcquire
		if waiting {
			do = a.Acquire
		}
		_, err := do(ctx, key) // returns although the answer is outstanding
		close(gone)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("P6: an acquire whose context ended under way: %v, want its error", err)
		}
		freeSoon(t, b, key)
	}
}

func tryAnyMoment(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), rand.N(4*time.Millisecond))
		lease, err := a.TryAcquire(ctx, key)
		cancel()
		switch {
		case err == nil:
			release1(t, lease)
		case errors.Is(err, rowlock.ErrHeld):
			t.Errorf("P6: a try for a key that nobody has, beside what is left of the tries before: %v, want ErrReleasing", err)
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, rowlock.ErrReleasing):
			t.Errorf("a try with a short context: %v", err)
		}
	}
	freeSoon(t, b, key)
}

// givenUpMinHold: nobody had the hold, so its MinHold does not count.
func givenUpMinHold(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	for name, hook := range map[string]Hook{"reply lost": loseGrant(), "given up": func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		results, err := send(ctx)
		time.Sleep(100 * time.Millisecond) // the caller's patience is less
		return results, err
	}} {
		key := e.key(t)
		f.On(OpAcquire, hook)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		lease, err := a.TryAcquire(ctx, key, rowlock.MinHold(longTTL))
		cancel()
		f.Clear()
		if err == nil {
			t.Fatalf("%s: granted (token %d) although the answer did not come in time", name, lease.Token())
		}
		freeSoon(t, b, key)
	}
}

// givenUpPaused gives up while the server stands still: the statement is on its way.
func givenUpPaused(t *testing.T, e *env) {
	srv, open := e.Server(t)
	s := open(t)
	c := e.clientOn(t, s, rowlock.Options{})
	key, other := e.key(t), e.key(t)
	release1(t, acquire(t, c, key)) // connections are open
	srv.Pause()
	resume := sync.OnceFunc(srv.Resume)
	t.Cleanup(resume)

	// At the seam: a call returns when its context ends, whatever the server does.
	calls := map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := s.Acquire(ctx, []driver.Request{{Key: other, ID: newID(), TTL: time.Second}})
			return err
		},
		"renew": func(ctx context.Context) error {
			_, err := s.Renew(ctx, []driver.Hold{{Key: other, ID: newID(), TTL: time.Second}})
			return err
		},
		"release": func(ctx context.Context) error {
			_, err := s.Release(ctx, []driver.Hold{{Key: other, ID: newID(), TTL: time.Second}})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := s.Inspect(ctx, []string{other})
			return err
		},
	}
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s on a server that hangs returned %v after its context ended", name, took)
		}
		if err == nil {
			t.Errorf("%s on a server that hangs: no error", name)
		}
	}
	for _, do := range []func(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error){c.TryAcquire, c.Acquire} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		began := time.Now()
		_, err := do(ctx, key)
		cancel()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("P6: acquire on a server that hangs: %v after %v", err, took)
		}
	}
	resume()
	freeSoon(t, e.clientOn(t, open(t), rowlock.Options{}), key)
}
