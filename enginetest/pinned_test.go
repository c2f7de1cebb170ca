package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// unsure has a Store that cannot tell in time which keys of a batch are pinned, and takes
// a second where it is asked for them alone. Keys that begin with "pinned" are, those with
// "guarded" are not.
func unsure(f *faultStore) {
	f.set(func(c call) verdict {
		doubtful := func(key string) bool { return !strings.HasPrefix(key, "k") }
		if c.op != "acquire" || !slices.ContainsFunc(c.keys, doubtful) {
			return verdict{slow: time.Millisecond}
		}
		alone := !slices.ContainsFunc(c.reqs, func(q driver.Request) bool { return !q.Apart && !q.Pinned })
		answer := make([]driver.Result, len(c.keys))
		for i, key := range c.keys {
			answer[i] = driver.Result{Status: driver.Granted, Token: 1 << 20, Stored: 1 << 20}
			if doubtful(key) && !alone {
				answer[i] = driver.Result{Status: driver.Pinned, Apart: true}
			} else if strings.HasPrefix(key, "pinned") {
				answer[i] = driver.Result{Status: driver.Pinned, Apart: true} // a Store must not say so again
			}
		}
		if alone {
			time.Sleep(time.Second)
		}
		time.Sleep(time.Millisecond)
		return verdict{answer: answer}
	})
}

// TestP15_UnsureKeysGoApart: keys of which the Store was not sure in a batch with others
// are sent again at once, without the others, and only then is their answer told.
func TestP15_UnsureKeysGoApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		unsure(f)
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		timed := func(what string, least, most time.Duration, do func() error, want error) {
			wg.Go(func() {
				start := time.Now()
				if err := do(); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
				if took := time.Since(start); took < least || took > most {
					t.Errorf("P15: %s was answered after %v", what, took)
				}
			})
		}
		// A call without others takes a second. Two are under way at once, so one that comes when
		// two are waits for them.
		const soon, later = 10 * time.Millisecond, 2020 * time.Millisecond
		get := func(key string) func() error {
			return func() error { _, err := c.Acquire(ctx, key); return err }
		}
		try := func(key string) func() error {
			return func() error { _, err := c.TryAcquire(ctx, key); return err }
		}
		timed("a key that travels first", 0, soon, get("k"), nil)
		synctest.Wait() // it is on its way: at most one of the others goes alone beside it
		for i := range 4 {
			timed("another key", 0, soon, get(fmt.Sprint("k", i)), nil)
			timed("a wait for a guarded key", time.Second, later, get(fmt.Sprint("guarded", i)), nil)
			timed("a try for a guarded key", time.Second, later, try(fmt.Sprint("guarded-try", i)), nil)
			timed("a wait for a pinned key", 3500*time.Millisecond, 3500*time.Millisecond, get(fmt.Sprint("pinned", i)), rowlock.ErrHeld)
			timed("a try for a pinned key", time.Second, later, try(fmt.Sprint("pinned-try", i)), rowlock.ErrHeld)
		}
		wg.Wait()
		ids := make(map[driver.HoldID]bool)
		for _, call := range f.seen("acquire") {
			for _, q := range call.reqs {
				if ids[q.ID] && !q.Stand {
					t.Errorf("%q was sent twice under one ID", q.Key)
				}
				ids[q.ID] = true
				if q.Apart && q.Pinned {
					t.Errorf("%q is said to be pinned, and not sure", q.Key)
				}
			}
		}
	})
}

// TestUnsureKeyOfAClosedClient: a try whose key would go again ends with the Client.
func TestUnsureKeyOfAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		unsure(f)
		errs := make(chan error)
		for _, do := range []func() error{
			func() error { _, err := c.TryAcquire(t.Context(), "pinned1"); return err },
			func() error { _, err := c.Acquire(t.Context(), "pinned2"); return err },
		} {
			go func() { errs <- do() }()
		}
		time.Sleep(500 * time.Millisecond) // they are apart now
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, rowlock.ErrClosed) {
				t.Errorf("error %v, want ErrClosed", err)
			}
		}
	})
}
