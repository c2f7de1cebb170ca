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

// heldKeys are those of keys that are held in the database.
func heldKeys(t *testing.T, f *faultStore, keys ...string) (held []string) {
	t.Helper()
	infos, err := f.Store.Inspect(context.Background(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Held {
			held = append(held, info.Key)
		}
	}
	return held
}

// TestAcquireAllIsOneCall: keys that nobody else wants are taken by one call of the store and
// released by one, and the leases come in the order of wants.
func TestAcquireAllIsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		for range 3 {
			g := all(t, c, "b", "c", "a", "d", "e", "f")
			var got []string
			for _, l := range g.Leases() {
				got = append(got, l.Key())
			}
			if !slices.Equal(got, []string{"b", "c", "a", "d", "e", "f"}) {
				t.Errorf("leases of %v", got)
			}
			if err := g.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		for _, op := range []string{"acquire", "release"} {
			if calls := f.seen(op); len(calls) != 3 || len(calls[0].keys) != 6 {
				t.Errorf("%d calls of %s for 3 groups: %v", len(calls), op, calls)
			}
		}
	})
}

// TestP22_KeepsWhatLiesBelow: while AcquireAll waits it holds what lies below the first key
// that was refused, in the order of the keys' bytes, and nothing above it.
func TestP22_KeepsWhatLiesBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f)
		in := acquire(t, other, "c")
		far := acquire(t, other, "e")
		got := make(chan *rowlock.Group)
		go func() { defer close(got); got <- all(t, c, "e", "d", "b", "c", "a") }()
		time.Sleep(2 * time.Second)
		if held := heldKeys(t, f, "a", "b", "c", "d", "e"); !slices.Equal(held, []string{"a", "b", "c", "e"}) {
			t.Errorf("P22: while c is waited for %v are held, want a and b, and the other's c and e", held)
		}
		_ = in.Release(context.Background())
		time.Sleep(2 * time.Second)
		if held := heldKeys(t, f, "a", "b", "c", "d", "e"); len(held) != 5 {
			t.Errorf("P22: while e is waited for %v are held, want all", held)
		}
		_ = far.Release(context.Background())
		g := <-got
		if err := g.Err(); err != nil || len(g.Leases()) != 5 {
			t.Errorf("the group: %v", err)
		}
		_ = g.Release(context.Background())
		if held := heldKeys(t, f, "a", "b", "c", "d", "e"); len(held) != 0 {
			t.Errorf("after the release %v are held", held)
		}
	})
}

// TestP22_HoldsNoneWhileItWaits: with NoRenew and MaxHold, whose time runs, and where the
// store has little room, nothing is held during the wait.
func TestP22_HoldsNoneWhileItWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []rowlock.Option
		room int
	}{
		"NoRenew": {opts: []rowlock.Option{rowlock.NoRenew()}},
		"MaxHold": {opts: []rowlock.Option{rowlock.MaxHold(time.Minute)}},
		"room":    {room: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				var c *rowlock.Client
				if tc.room > 0 {
					c = newClient(t, roomyStore{f, tc.room})
				} else {
					c = newClient(t, f)
				}
				in := acquire(t, newClient(t, f), "b")
				got := make(chan *rowlock.Group)
				go func() {
					g, err := c.AcquireAll(context.Background(), rowlock.Keys("a", "b", "c"), tc.opts...)
					if err != nil {
						t.Error(err)
					}
					got <- g
				}()
				time.Sleep(5 * time.Minute)
				if held := heldKeys(t, f, "a", "b", "c"); !slices.Equal(held, []string{"b"}) {
					t.Errorf("P22: while b is waited for %v are held", held)
				}
				_ = in.Release(context.Background())
				g := <-got
				for _, l := range g.Leases() {
					if left := time.Until(l.Until()); left < 26*time.Second {
						t.Errorf("%q is trusted for %v of its TTL", l.Key(), left)
					}
				}
				_ = g.Release(context.Background())
			})
		})
	}
}

// roomyStore has room for so many holds.
type roomyStore struct {
	*faultStore
	room int
}

func (s roomyStore) HoldLimit() int { return s.room }

// TestP22_LostWhileWaiting: when one of the keys that are held is lost during the wait, all
// are given back and it starts again.
func TestP22_LostWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f)
		in := acquire(t, other, "c")
		got := make(chan *rowlock.Group)
		go func() { defer close(got); got <- all(t, c, "a", "b", "c") }()
		time.Sleep(time.Second)
		f.Store.Expire("a")
		thief := acquire(t, other, "a")
		time.Sleep(time.Minute) // a renewal tells of it
		if held := heldKeys(t, f, "a", "b", "c"); !slices.Equal(held, []string{"a", "c"}) {
			t.Errorf("P22: after the loss of a %v are held, want the other's a and c", held)
		}
		_ = in.Release(context.Background())
		_ = thief.Release(context.Background())
		g := <-got
		if g.Err() != nil || g.Leases()[0].Token() <= thief.Token() {
			t.Errorf("P22: the group has token %d of a after the thief's %d: %v", g.Leases()[0].Token(), thief.Token(), g.Err())
		}
		_ = g.Release(context.Background())
	})
}

// TestP22_TryAcquireAll: one held key, and all others are free when the error is there. Its
// MinHold does not keep what was given back.
func TestP22_TryAcquireAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		f.set(on("release", verdict{delay: 3 * time.Millisecond}))
		c, other := newClient(t, f), newClient(t, f, rowlock.Options{Owner: "other"})
		in := acquire(t, other, "b")
		for name, try := range map[string]func() (*rowlock.Group, error){
			"TryAcquireAll": func() (*rowlock.Group, error) {
				return c.TryAcquireAll(context.Background(), rowlock.Keys("c", "b", "a"), rowlock.MinHold(time.Minute))
			},
			"NoWait": func() (*rowlock.Group, error) {
				return c.AcquireAll(context.Background(), rowlock.Keys("c", "b", "a"), rowlock.MinHold(time.Minute), rowlock.NoWait())
			},
		} {
			g, err := try()
			var held *rowlock.HeldError
			if g != nil || !errors.As(err, &held) || held.Key != "b" || held.Owner != "other" || !errors.Is(err, rowlock.ErrHeld) {
				t.Errorf("%s: %v, want a *HeldError of b", name, err)
			}
			if left := heldKeys(t, f, "a", "b", "c"); !slices.Equal(left, []string{"b"}) {
				t.Errorf("P22: %s failed, and %v are held", name, left)
			}
		}
		_ = in.Release(context.Background())
		g, err := c.TryAcquireAll(context.Background(), rowlock.Keys("c", "b", "a"))
		if err != nil {
			t.Fatal(err)
		}
		_ = g.Release(context.Background())
	})
}

// TestP22_ErrorsLeaveNothing: whatever ends AcquireAll, nothing is held afterwards.
func TestP22_ErrorsLeaveNothing(t *testing.T) {
	lasting := &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("no such table")}
	for name, tc := range map[string]struct {
		run  func(ctx context.Context, cancel func(), f *faultStore, c *rowlock.Client)
		want error
		held bool // and the last that was seen
	}{
		"ctx ends during the wait": {run: func(_ context.Context, cancel func(), _ *faultStore, _ *rowlock.Client) {
			time.Sleep(time.Second)
			cancel()
		}, want: context.Canceled, held: true},
		"ctx ends before the first answer": {run: func(_ context.Context, cancel func(), f *faultStore, _ *rowlock.Client) {
			cancel()
		}, want: context.Canceled},
		"the client is closed": {run: func(_ context.Context, _ func(), _ *faultStore, c *rowlock.Client) {
			time.Sleep(time.Second)
			_ = c.Close(context.Background())
		}, want: rowlock.ErrClosed},
		"an error that lasts": {run: func(_ context.Context, _ func(), f *faultStore, _ *rowlock.Client) {
			time.Sleep(time.Second)
			f.set(on("acquire", verdict{err: lasting}))
			f.set(func(c call) verdict {
				if c.op == "acquire" || c.op == "inspect" {
					return verdict{err: lasting}
				}
				return verdict{}
			})
		}, want: lasting},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				in := acquire(t, newClient(t, f.Store), "c")
				if strings.Contains(name, "before") {
					f.set(on("acquire", verdict{slow: time.Second}))
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				done := make(chan error, 1)
				go func() {
					g, err := c.AcquireAll(ctx, rowlock.Keys("a", "b", "c", "d"))
					if g != nil {
						t.Error("a group beside an error")
					}
					done <- err
				}()
				synctest.Wait()
				tc.run(ctx, cancel, f, c)
				err := <-done
				if !errors.Is(err, tc.want) || errors.Is(err, rowlock.ErrHeld) != tc.held {
					t.Errorf("AcquireAll = %v, want %v, ErrHeld %v", err, tc.want, tc.held)
				}
				time.Sleep(2 * time.Second)
				if held := heldKeys(t, f, "a", "b", "c", "d"); !slices.Equal(held, []string{"c"}) {
					t.Errorf("P22: after %v these are held: %v", err, held)
				}
				f.set(nil)
				_ = in.Release(context.Background())
			})
		})
	}
}

// TestAcquireAllOneLastingError: the error of one key that will not pass comes back at once,
// though another key is held.
func TestAcquireAllOneLastingError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		in := acquire(t, newClient(t, f.Store), "a")
		f.set(on("acquire", verdict{change: func(r []driver.Result) {
			if len(r) > 2 {
				r[2] = driver.Result{Err: &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("corrupt row")}}
			}
		}}))
		_, err := c.AcquireAll(context.Background(), rowlock.Keys("a", "b", "c"))
		if err == nil || !strings.Contains(err.Error(), "corrupt row") {
			t.Errorf("AcquireAll = %v", err)
		}
		f.set(nil)
		_ = in.Release(context.Background())
	})
}

// TestAcquireAllInvalid: what is wrong is named, and nothing is sent.
func TestAcquireAllInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withLimits(driver.Limits{Batch: 4, MinTTL: time.Millisecond, InFlight: 1})
		c := newClient(t, roomyStore{f, 3})
		want := func(key string, opts ...rowlock.Option) []rowlock.Want {
			return []rowlock.Want{{Key: "first"}, {Key: key, Options: opts}}
		}
		for name, tc := range map[string]struct {
			wants []rowlock.Want
			opts  []rowlock.Option
			says  string
		}{
			"no key":                  {nil, nil, "no key"},
			"a key twice":             {rowlock.Keys("b", "a", "b"), nil, `wants 1 and 3 are both of "b"`},
			"more than a batch":       {rowlock.Keys("a", "b", "c", "d", "e"), nil, "5 keys: this store takes at most 4"},
			"more than there is room": {rowlock.Keys("a", "b", "c", "d"), nil, "4 exclusive keys: the store can hold 3"},
			"an empty key":            {want(""), nil, "want 2: rowlock: invalid argument: the key is empty"},
			"a nil option":            {rowlock.Keys("a"), []rowlock.Option{nil}, "option 1 of 1 is nil"},
			"a nil option of a want":  {want("a", rowlock.Guarded(), nil), nil, `want 2 ("a"): option 2 of 2 is nil`},
			"TTL of a want":           {want("a", rowlock.TTL(time.Hour)), nil, `want 2 ("a") has a TTL of its own`},
			"MaxHold of a want":       {want("a", rowlock.MaxHold(time.Hour)), nil, `want 2 ("a") has a MaxHold of its own`},
			"NoRenew of a want":       {want("a", rowlock.NoRenew()), nil, `want 2 ("a") has a NoRenew of its own`},
			"NoWait of a want":        {want("a", rowlock.NoWait()), nil, `want 2 ("a") has a NoWait of its own`},
			"Reentrant of a want":     {want("a", rowlock.Reentrant()), nil, `want 2 ("a"): Reentrant`},
			"Reentrant":               {rowlock.Keys("a"), []rowlock.Option{rowlock.Reentrant()}, "Reentrant"},
			"MinHold over MaxHold":    {want("a", rowlock.MinHold(time.Hour)), []rowlock.Option{rowlock.MaxHold(time.Minute)}, `want 2 ("a"): rowlock: invalid argument: MinHold`},
			"a bad TTL":               {rowlock.Keys("a"), []rowlock.Option{rowlock.TTL(-1)}, "TTL -1ns"},
		} {
			for _, try := range []func(context.Context, []rowlock.Want, ...rowlock.Option) (*rowlock.Group, error){c.AcquireAll, c.TryAcquireAll} {
				_, err := try(context.Background(), tc.wants, tc.opts...)
				if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(fmt.Sprint(err), tc.says) {
					t.Errorf("%s: %v, want one with %q", name, err, tc.says)
				}
			}
		}
		if _, err := (*rowlock.Client)(nil).AcquireAll(context.Background(), rowlock.Keys("a")); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("a nil client: %v", err)
		}
		if n := len(f.seen("acquire")); n != 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// TestAcquireAllWantOptions: the options of one want are for its key only.
func TestAcquireAllWantOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		g, err := c.AcquireAll(context.Background(), []rowlock.Want{
			{Key: "b", Options: []rowlock.Option{rowlock.Guarded(), rowlock.MinHold(time.Minute), rowlock.Owner("me")}}, {Key: "a"},
		}, rowlock.TTL(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.seen("acquire")[0].reqs {
			own := r.Key == "b"
			if r.Guarded != own || (r.Keep > 0) != own || (r.Owner == "me") != own || r.TTL != time.Hour {
				t.Errorf("asked for %+v", r)
			}
		}
		_ = g.Release(context.Background())
		if held := heldKeys(t, f, "a", "b"); !slices.Equal(held, []string{"b"}) {
			t.Errorf("after the release MinHold keeps %v", held)
		}
	})
}

// TestAcquireAllBesideItsOwnClient: a key that another caller of the client has is waited for
// without an attempt for what lies above it, and may come from that caller's hand.
func TestAcquireAllBesideItsOwnClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		in := acquire(t, c, "b")
		got := make(chan *rowlock.Group)
		go func() { defer close(got); got <- all(t, c, "a", "b", "c") }()
		time.Sleep(10 * time.Millisecond)
		if calls := f.seen("acquire"); len(calls) != 2 || !slices.Equal(calls[1].keys, []string{"a"}) {
			t.Errorf("calls while the client's own b is held: %v", calls)
		}
		_ = in.Release(context.Background())
		g := <-got
		if g.Leases()[1].Token() != in.Token()+1 {
			t.Errorf("token %d after %d: not handed off", g.Leases()[1].Token(), in.Token())
		}
		if calls := f.seen("acquire"); len(calls) != 3 || !slices.Equal(calls[2].keys, []string{"c"}) {
			t.Errorf("calls in all: %v", calls)
		}
		_ = g.Release(context.Background())
	})
}

// TestP22_LostReply: a grant whose answer was lost is undone, and the group is had all the
// same.
func TestP22_LostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(func(c call) verdict {
			if c.op == "acquire" && c.n == 0 {
				return verdict{err: errors.New("connection lost"), apply: true}
			}
			return verdict{}
		})
		g := all(t, c, "a", "b", "c")
		if held := heldKeys(t, f, "a", "b", "c"); len(held) != 3 || g.Err() != nil {
			t.Errorf("held %v, %v", held, g.Err())
		}
		_ = g.Release(context.Background())
		time.Sleep(time.Minute)
		if held := heldKeys(t, f, "a", "b", "c"); len(held) != 0 {
			t.Errorf("P7: after the release %v are held", held)
		}
	})
}

// TestAcquireAllIsFair: of two programs that take the same keys again and again without a
// pause each gets its share, also beside one that takes a single key of them.
func TestAcquireAllIsFair(t *testing.T) {
	watched := time.Minute
	if testing.Short() {
		watched = 15 * time.Second
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		f.set(func(call) verdict { return verdict{slow: time.Millisecond} })
		ctx, cancel := context.WithTimeout(context.Background(), watched)
		defer cancel()
		var wg sync.WaitGroup
		held := make([]int, 3)
		for i := range held {
			c := newClient(t, f)
			wg.Go(func() {
				for ctx.Err() == nil {
					var release func(context.Context) error
					if i == 2 {
						l, err := c.Acquire(ctx, "b")
						if err != nil {
							return
						}
						release = l.Release
					} else {
						g, err := c.AcquireAll(ctx, rowlock.Keys("b", "a"))
						if err != nil {
							return
						}
						release = g.Release
					}
					time.Sleep(5 * time.Millisecond)
					held[i]++
					_ = release(context.Background())
				}
			})
		}
		wg.Wait()
		if least, most := slices.Min(held), slices.Max(held); least < most/10 {
			t.Errorf("holds: %v", held)
		}
		t.Logf("holds: %v", held)
	})
}

// TestP22_LostBeforeAllAreHeld: one of the keys is lost while the answer for another is on its way. A group of it is
// never handed out.
func TestP22_LostBeforeAllAreHeld(t *testing.T) {
	begin := func(t *testing.T) (c *rowlock.Client, f *faultStore) {
		f = newFaultStore()
		c = newClient(t, f)
		f.set(func(call call) (v verdict) {
			switch {
			case call.op != "acquire":
			case call.n == 0: // b is asked for once more, by itself
				v.change = func(results []driver.Result) {
					i := slices.Index(call.keys, "b")
					f.Store.ForceRelease(context.Background(), "b")
					results[i] = driver.Result{Status: driver.Pinned, Apart: true}
				}
			case call.n == 1: // a renewal tells of the loss of a meanwhile
				f.Store.ForceRelease(context.Background(), "a")
				v.slow = 15 * time.Second
			}
			return v
		})
		return c, f
	}
	t.Run("TryAcquireAll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, f := begin(t)
			g, err := c.TryAcquireAll(context.Background(), rowlock.Keys("a", "b"))
			if g != nil || !errors.Is(err, rowlock.ErrLost) || reason(err) != rowlock.ReasonForced {
				t.Errorf("P22: %v, %v, want no group, and the loss of a", g.Err(), err)
			}
			if left := heldKeys(t, f, "a", "b"); len(left) > 0 {
				t.Errorf("P22: it failed, and %v are held", left)
			}
		})
	})
	t.Run("AcquireAll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, f := begin(t)
			g := all(t, c, "a", "b")
			if held := heldKeys(t, f, "a", "b"); g.Err() != nil || len(held) != 2 {
				t.Errorf("P22: a group with %v held: %v", held, g.Err())
			}
			for _, l := range g.Leases() {
				if l.Err() != nil {
					t.Errorf("P22: a group with a lease of %q that is %v", l.Key(), l.Err())
				}
			}
			_ = g.Release(context.Background())
		})
	})
}
