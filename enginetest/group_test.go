package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// all gets keys as a group, or ends the test.
func all(t *testing.T, c *rowlock.Client, keys ...string) *rowlock.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	g, err := c.AcquireAll(ctx, rowlock.Keys(keys...))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGroupEnds: a group ends when the first of its leases ends, with that one's error, which
// names the key; the others are held until Release.
func TestGroupEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end    func(*testing.T, *faultStore, *rowlock.Client, *rowlock.Group)
		want   error
		reason rowlock.Reason
		key    string
		others []string // are still held
	}{
		"released": {end: func(t *testing.T, _ *faultStore, _ *rowlock.Client, g *rowlock.Group) {
			if err := g.Release(context.Background()); err != nil {
				t.Errorf("release: %v", err)
			}
		}, want: rowlock.ErrReleased},
		"one was taken": {end: func(t *testing.T, f *faultStore, _ *rowlock.Client, g *rowlock.Group) {
			f.Store.Expire("a")
			_ = g.Leases()[1].Renew(context.Background())
		}, want: rowlock.ErrLost, reason: rowlock.ReasonTaken, key: "a", others: []string{"b", "c"}},
		"one was released by itself": {end: func(t *testing.T, _ *faultStore, _ *rowlock.Client, g *rowlock.Group) {
			_ = g.Leases()[2].Release(context.Background())
		}, want: rowlock.ErrReleased, others: []string{"a", "b"}},
		"the process stood still": {end: func(t *testing.T, f *faultStore, _ *rowlock.Client, g *rowlock.Group) {
			f.freeze(time.Minute)
			if g.Err() == nil {
				t.Error("P2: the first look after a minute finds the group held")
			}
		}, want: rowlock.ErrLost, reason: rowlock.ReasonExpired, key: "b"},
		"closed": {end: func(t *testing.T, _ *faultStore, c *rowlock.Client, g *rowlock.Group) {
			_ = c.Close(context.Background())
		}, want: rowlock.ErrLost, reason: rowlock.ReasonClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				g := all(t, c, "b", "a", "c")
				parent, cancel := context.WithCancel(context.Background())
				ctx, forgotten, orphan := g.Context(context.Background()), g.Context(parent), g.Context(context.Background())
				done := g.Done()
				cancel()
				if g.Err() != nil || ctx.Err() != nil || forgotten.Err() == nil {
					t.Fatalf("held: %v, %v, %v", g.Err(), ctx.Err(), forgotten.Err())
				}
				tc.end(t, f, c, g)
				for _, done := range []<-chan struct{}{done, g.Done()} {
					select {
					case <-done:
					default:
						t.Error("P2: Done is open")
					}
				}
				err := g.Err()
				if !errors.Is(err, tc.want) || reason(err) != tc.reason {
					t.Errorf("Err = %v, want %v %q", err, tc.want, tc.reason)
				}
				var lost *rowlock.LostError
				if tc.key != "" && (!errors.As(err, &lost) || lost.Key != tc.key) {
					t.Errorf("Err = %v, want one of %q", err, tc.key)
				}
				if ctx.Err() == nil || context.Cause(ctx) != err || context.Cause(orphan) != err {
					t.Errorf("the context: %v, cause %v, want %v", ctx.Err(), context.Cause(ctx), err)
				}
				if late := g.Context(context.Background()); context.Cause(late) != err {
					t.Errorf("a context made after the end: %v", context.Cause(late))
				}
				for _, key := range tc.others {
					taken(t, f, key)
				}
				first := g.Release(context.Background())
				if second := g.Release(context.Background()); (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
					t.Errorf("Release = %v, then %v", first, second)
				}
				if (first == nil) != (tc.reason == "") {
					t.Errorf("Release = %v", first)
				}
				time.Sleep(time.Minute) // a lost hold is undone after the margin
				for _, key := range []string{"a", "b", "c"} {
					free(t, f, key)
				}
				if g.Err() != err {
					t.Errorf("Err changed to %v", g.Err())
				}
			})
		})
	}
}

// TestGroupContext: what comes from a group's context comes from each of its leases.
func TestGroupContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newFaultStore())
		outer := acquire(t, c, "outer")
		g := all(t, c, "a", "b")
		end, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		ctx := g.Context(outer.Context(end))
		for _, key := range []string{"a", "b", "outer"} {
			if _, err := c.Acquire(ctx, key); !errors.Is(err, rowlock.ErrSelfDeadlock) {
				t.Errorf("Acquire(%q) in the group's context: %v, want ErrSelfDeadlock", key, err)
			}
			v, err := c.Acquire(ctx, key, rowlock.Reentrant())
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Release(context.Background()); err != nil || g.Err() != nil {
				t.Errorf("a view of %q: %v; the group: %v", key, err, g.Err())
			}
		}
		if _, err := c.AcquireAll(ctx, rowlock.Keys("x", "b")); !errors.Is(err, rowlock.ErrSelfDeadlock) {
			t.Errorf("AcquireAll in the group's context: %v, want ErrSelfDeadlock", err)
		}
		if _, err := c.TryAcquireAll(ctx, rowlock.Keys("x", "b")); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("TryAcquireAll in the group's context: %v, want ErrHeld", err)
		}
		if got := ctx.Value("no such key"); got != nil {
			t.Errorf("a value: %v", got)
		}
	})
}

// TestGroupIsNotHandedOff: a caller of the same client that waits for a key of a group gets
// it from the database, whether the group is released or the one lease.
func TestGroupIsNotHandedOff(t *testing.T) {
	for name, release := range map[string]func(*rowlock.Group) error{
		"group": func(g *rowlock.Group) error { return g.Release(context.Background()) },
		"lease": func(g *rowlock.Group) error { return g.Leases()[1].Release(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, newFaultStore())
				g := all(t, c, "a", "k")
				got := make(chan *rowlock.Lease)
				go func() { defer close(got); got <- acquire(t, c, "k") }()
				synctest.Wait()
				if err := release(g); err != nil {
					t.Fatal(err)
				}
				if l := <-got; l.Token() < g.Leases()[1].Token()+driver.TokenRange {
					t.Errorf("token %d after %d: handed off", l.Token(), g.Leases()[1].Token())
				}
				_ = g.Release(context.Background())
			})
		})
	}
}

// TestNilGroup: what AcquireAll returns beside an error.
func TestNilGroup(t *testing.T) {
	var g *rowlock.Group
	if g.Release(context.Background()) != nil || g.Leases() != nil || !errors.Is(g.Err(), rowlock.ErrInvalid) {
		t.Errorf("a nil group: %v", g.Err())
	}
	<-g.Done()
	if ctx := g.Context(context.Background()); !errors.Is(context.Cause(ctx), rowlock.ErrInvalid) {
		t.Errorf("its context: %v", context.Cause(ctx))
	}
}

// TestGroupReleaseAsync: with ReleaseAsync the answer is not waited for, and the next AcquireAll
// of the client is.
func TestGroupReleaseAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{ReleaseAsync: true})
		g := all(t, c, "a", "b")
		f.set(on("release", verdict{delay: time.Second}))
		began := time.Now()
		if err := g.Release(context.Background()); err != nil || time.Since(began) != 0 {
			t.Errorf("released after %v: %v", time.Since(began), err)
		}
		next, err := c.TryAcquireAll(context.Background(), rowlock.Keys("a", "b"))
		if err != nil {
			t.Fatalf("TryAcquireAll beside the release of its own client: %v", err)
		}
		_ = next.Release(context.Background())
	})
}
