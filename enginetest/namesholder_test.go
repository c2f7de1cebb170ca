package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// without makes a fault of a store whose refusals do not say who has the key. inspect is what happens to its reads.
func without(inspect func(c call) verdict) func(call) verdict {
	return func(c call) verdict {
		switch {
		case c.op == "acquire":
			return verdict{change: func(results []driver.Result) {
				for i := range results {
					results[i].Owner = ""
				}
			}}
		case c.op == "inspect" && inspect != nil:
			return inspect(c)
		}
		return verdict{}
	}
}

// who is the *HeldError of a refusal.
func who(t *testing.T, err error) rowlock.HeldError {
	t.Helper()
	var held *rowlock.HeldError
	if !errors.Is(err, rowlock.ErrHeld) || !errors.As(err, &held) {
		t.Fatalf("%v, want a *HeldError", err)
	}
	return *held
}

// TestRefusedIsToldByWhom: a store whose refusal does not say who has the key is asked once more for who does not wait, and
// for nobody else.
func TestRefusedIsToldByWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		f.set(without(nil))
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{Owner: "other"})
		reads := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if n := len(f.seen("inspect")); n != want {
				t.Errorf("after %s: %d reads, want %d", what, n, want)
			}
		}
		acquire(t, c, "free")
		reads("a grant", 0)
		held := acquire(t, other, "k")
		_, err := c.TryAcquire(t.Context(), "k")
		if h := who(t, err); h.Owner != "other" || h.Left <= 0 {
			t.Errorf("%+v", h)
		}
		if want := `acquire "k": rowlock: "k" is held by other for up to 30s longer`; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		reads("a try", 1)
		_, err = c.Acquire(t.Context(), "k", rowlock.NoWait())
		if h := who(t, err); h.Owner != "other" {
			t.Errorf("NoWait: %+v", h)
		}
		reads("NoWait", 2)
		acquire(t, other, "k2")
		_, err = c.TryAcquireAll(t.Context(), []rowlock.Want{{Key: "a"}, {Key: "k2"}, {Key: "k"}})
		if h := who(t, err); h.Owner != "other" || h.Key != "k" {
			t.Errorf("a group: %+v", h)
		}
		reads("a group with two held keys", 3)
		if _, err = c.TryAcquire(t.Context(), "free"); who(t, err).Owner == "" {
			t.Errorf("held by another caller of the client: %v", err)
		}
		reads("a try for a key of this client's own", 3)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, "k")
			left <- err
		}()
		synctest.Wait()
		reads("a refusal of who waits", 3)
		leave()
		<-left
		held.Release(t.Context())
	})
}

// TestRefusedAtOnce: callers that are refused while a read is on its way share the next one.
func TestRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		f.set(without(on("inspect", verdict{delay: 100 * time.Millisecond})))
		c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{Owner: "other"})
		const keys = 20
		for i := range keys {
			acquire(t, other, fmt.Sprint("k", i))
		}
		var wg sync.WaitGroup
		for i := range keys {
			for range 3 {
				wg.Go(func() {
					if _, err := c.TryAcquire(t.Context(), fmt.Sprint("k", i)); who(t, err).Owner != "other" {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if n := len(f.seen("inspect")); n > 2 {
			t.Errorf("%d reads for %d refusals at once, want at most 2", n, 3*keys)
		}
	})
}

// TestRefusedByWhomIsNotKnown: whatever becomes of the read, the answer is that the key is held, within the caller's time and
// never by somebody who has not refused it.
func TestRefusedByWhomIsNotKnown(t *testing.T) {
	type client = *rowlock.Client
	for name, test := range map[string]struct {
		read  func(c, other client, held *rowlock.Lease) verdict
		bound time.Duration // of the caller's context; 0: none
		most  time.Duration // that the try takes
		mode  []rowlock.Option
	}{
		"the read fails": {
			read: func(client, client, *rowlock.Lease) verdict { return verdict{err: errors.New("gone away")} },
		},
		"the read hangs": {
			read: func(client, client, *rowlock.Lease) verdict { return verdict{hang: true} }, most: time.Second,
		},
		"the read hangs for longer than the caller": {
			read: func(client, client, *rowlock.Lease) verdict { return verdict{hang: true} }, bound: 50 * time.Millisecond, most: 50 * time.Millisecond,
		},
		"the client is closed": {
			read: func(c, _ client, _ *rowlock.Lease) verdict {
				go c.Close(context.Background())
				return verdict{hang: true}
			},
		},
		"the key is free by then": {
			read: func(_, _ client, held *rowlock.Lease) verdict {
				_ = held.Release(context.Background())
				return verdict{}
			},
		},
		"the key is this client's by then": {
			read: func(c, _ client, held *rowlock.Lease) verdict {
				_ = held.Release(context.Background())
				_, _ = c.TryAcquire(context.Background(), "k")
				return verdict{}
			},
		},
		"the key can be had by then": {
			read: func(_, other client, held *rowlock.Lease) verdict {
				_ = held.Release(context.Background())
				_, _ = other.TryAcquire(context.Background(), "k", rowlock.Shared())
				return verdict{}
			},
			mode: []rowlock.Option{rowlock.Shared()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{Owner: "other"})
				held := acquire(t, other, "k")
				f.set(without(func(call) verdict { return test.read(c, other, held) }))
				ctx := t.Context()
				if test.bound > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.bound)
					defer cancel()
				}
				start := time.Now()
				_, err := c.TryAcquire(ctx, "k", test.mode...)
				if took := time.Since(start); took > test.most {
					t.Errorf("took %v", took)
				}
				if h := who(t, err); h.Owner != "" || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v %+v", err, h)
				}
				if n := len(f.seen("inspect")); n != 1 {
					t.Errorf("%d reads", n)
				}
			})
		})
	}
}
