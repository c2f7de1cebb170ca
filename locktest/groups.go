// P22: AcquireAll gets all keys or none, whatever is killed when, and no two of them wait for
// each other in a circle.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var groups = []testCase{
	{name: "P22_AllOrNone", engine: true, run: allOrNone},
	{name: "P22_OneAtATime", engine: true, run: groupsExclude},
	{name: "P22_NoCircle", engine: true, run: noCircle},
	{name: "P22_TriesGiveBack", engine: true, run: triesGiveBack},
	{name: "P22_LostWhileWaiting", engine: true, run: lostWhileWaiting, needs: forcingUnlimited},
	{name: "P22_KilledProcess", long: true, run: killedGroups, needs: processes},
	{name: "P22_GuardOverAGroup", run: guardOverAGroup, needs: guarding},
}

func forcingUnlimited(e *env) bool { return e.forcer && e.room == 0 }

// sortedKeys makes n keys of the case's own, in the order of their bytes.
func (e *env) sortedKeys(t testing.TB, n int) []string {
	base := e.key(t)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s/%02d", base, i)
	}
	return keys
}

// allOf gets keys as a group.
func allOf(t testing.TB, c *rowlock.Client, keys []string, opts ...rowlock.Option) *rowlock.Group {
	t.Helper()
	g, err := c.AcquireAll(soon(t), rowlock.Keys(keys...), opts...)
	if err != nil {
		t.Fatalf("AcquireAll: %v", err)
	}
	return g
}

// endAll releases a group.
func endAll(t testing.TB, g *rowlock.Group) {
	t.Helper()
	if err := g.Release(context.Background()); err != nil {
		t.Fatalf("release a group: %v", err)
	}
}

// heldOf are those of keys that the database says are held.
func heldOf(t testing.TB, s driver.Store, keys []string) (held []string) {
	t.Helper()
	infos, err := s.Inspect(soon(t), keys)
	if err != nil || len(infos) != len(keys) {
		t.Fatalf("inspect: %d infos, %v", len(infos), err)
	}
	for _, info := range infos {
		if info.Held {
			held = append(held, info.Key)
		}
	}
	return held
}

// allOrNone has one key in the middle held by another program: a try leaves nothing, a wait
// holds what lies below, and then all are held.
func allOrNone(t *testing.T, e *env) {
	s := e.Open(t)
	c, other := e.client(t, rowlock.Options{}), e.clientOn(t, s, rowlock.Options{})
	keys := e.sortedKeys(t, 5)
	wanted := slices.Clone(keys)
	slices.Reverse(wanted)
	in := acquire(t, other, keys[2])

	var held *rowlock.HeldError
	if _, err := c.TryAcquireAll(soon(t), rowlock.Keys(wanted...)); !errors.As(err, &held) || held.Key != keys[2] {
		t.Fatalf("P22: TryAcquireAll with one key held by another: %v, want a *HeldError of %q", err, keys[2])
	}
	if left := heldOf(t, s, keys); !slices.Equal(left, keys[2:3]) {
		t.Errorf("P22: after a TryAcquireAll that failed these are held: %q", left)
	}

	got := make(chan *rowlock.Group, 1)
	go func() {
		g, err := c.AcquireAll(soon(t), rowlock.Keys(wanted...))
		if err != nil {
			t.Errorf("AcquireAll: %v", err)
		}
		got <- g
	}()
	if e.room == 0 {
		until(t, "the keys below the refused one are held", func() bool { return slices.Equal(heldOf(t, s, keys), keys[:3]) })
	}
	for _, key := range keys[3:] { // what lies above is free
		release1(t, acquire(t, other, key))
	}
	release1(t, in)
	g := <-got
	if g == nil {
		return
	}
	for i, l := range g.Leases() {
		if l.Key() != wanted[i] {
			t.Errorf("lease %d is of %q, want %q", i, l.Key(), wanted[i])
		}
		refused(t, other, l.Key())
	}
	endAll(t, g)
	if left := heldOf(t, s, keys); len(left) != 0 {
		t.Errorf("P22: after the release of the group these are held: %q", left)
	}
	endAll(t, allOf(t, other, keys))
}

// groupsExclude counts who is inside of each key: groups, and single leases beside them.
func groupsExclude(t *testing.T, e *env) {
	const nkeys = 6
	keys := e.sortedKeys(t, nkeys)
	clients := []*rowlock.Client{e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})}
	var inside [nkeys]atomic.Int32
	enter := func(which []int) {
		for _, i := range which {
			if n := inside[i].Add(1); n != 1 {
				Breach(t, "P1", "%d holders inside key %d", n, i)
			}
		}
		time.Sleep(time.Millisecond)
		for _, i := range which {
			inside[i].Add(-1)
		}
	}
	var wg sync.WaitGroup
	for w := range e.load(8) {
		wg.Go(func() {
			for range 6 {
				c := clients[w%2]
				if w%4 == 0 {
					i := rand.IntN(nkeys)
					l, err := c.Acquire(soon(t), keys[i])
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					enter([]int{i})
					release1(t, l)
					continue
				}
				which, names := subset(keys, 3)
				g, err := c.AcquireAll(soon(t), rowlock.Keys(names...))
				if err != nil {
					t.Errorf("P22: AcquireAll: %v", err)
					return
				}
				enter(which)
				endAll(t, g)
			}
		})
	}
	wg.Wait()
}

// subset chooses n of keys, in any order.
func subset(keys []string, n int) (which []int, names []string) {
	which = rand.Perm(len(keys))[:n]
	for _, i := range which {
		names = append(names, keys[i])
	}
	return which, names
}

// noCircle has many callers of two programs that take random sets of the same keys, each in
// an order of its own: all of them come through.
func noCircle(t *testing.T, e *env) {
	const nkeys, rounds = 8, 8
	keys := e.sortedKeys(t, nkeys)
	clients := []*rowlock.Client{e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})}
	var wg sync.WaitGroup
	for w := range e.load(12) {
		wg.Go(func() {
			for round := range rounds {
				_, names := subset(keys, 2+rand.IntN(3))
				g, err := clients[w%2].AcquireAll(soon(t), rowlock.Keys(names...))
				if err != nil {
					t.Errorf("P22: caller %d got through %d of %d sets, then: %v", w, round, rounds, err)
					return
				}
				endAll(t, g)
			}
		})
	}
	wg.Wait()
}

// triesGiveBack has callers that only try, on overlapping sets: when all have ended nothing
// is held.
func triesGiveBack(t *testing.T, e *env) {
	s := e.Open(t)
	keys := e.sortedKeys(t, 5)
	clients := []*rowlock.Client{e.clientOn(t, s, rowlock.Options{}), e.client(t, rowlock.Options{})}
	var wg sync.WaitGroup
	var got atomic.Int32
	for w := range e.load(8) {
		wg.Go(func() {
			for range 8 {
				_, names := subset(keys, 3)
				g, err := clients[w%2].TryAcquireAll(soon(t), rowlock.Keys(names...))
				switch {
				case err == nil:
					got.Add(1)
					endAll(t, g)
				case !errors.Is(err, rowlock.ErrHeld) && !errors.Is(err, rowlock.ErrReleasing):
					t.Errorf("P8: TryAcquireAll: %v", err)
				}
			}
		})
	}
	wg.Wait()
	until(t, "nothing is held", func() bool { return len(heldOf(t, s, keys)) == 0 })
	t.Logf("%d of the tries got their keys", got.Load())
}

// lostWhileWaiting ends a key by force that AcquireAll holds while it waits: it begins again,
// still during the wait, and has all of them in the end.
func lostWhileWaiting(t *testing.T, e *env) {
	s := e.Open(t)
	c, other := e.client(t, rowlock.Options{TTL: e.ttl}), e.clientOn(t, s, rowlock.Options{})
	keys := e.sortedKeys(t, 3)
	in := acquire(t, other, keys[2])
	got := make(chan *rowlock.Group, 1)
	go func() {
		g, err := c.AcquireAll(soon(t), rowlock.Keys(keys...))
		if err != nil {
			t.Errorf("P22: AcquireAll that lost a key while it waited: %v", err)
		}
		got <- g
	}()
	// Held as the client knows it: an attempt that is not answered yet may take again what is forced free.
	until(t, "the keys below are held", func() bool { return c.Stats().Held == 2 && len(heldOf(t, s, keys)) == 3 })
	before := make([]driver.HoldID, 2)
	for i := range before {
		before[i] = inspect(t, s, keys[i]).Hold
	}
	if _, err := s.(driver.Forcer).ForceRelease(soon(t), keys[0]); err != nil {
		t.Fatalf("force release: %v", err)
	}
	for i := range before {
		until(t, fmt.Sprintf("key %d is given back and taken again", i), func() bool {
			info := inspect(t, s, keys[i])
			return info.Held && info.Hold != before[i]
		})
	}
	release1(t, in)
	if g := <-got; g != nil {
		_ = g.Release(context.Background()) // its TTL is short: one may be lost
		until(t, "nothing is held", func() bool { return len(heldOf(t, s, keys)) == 0 })
	}
}

// killedGroups kills a program that takes groups again and again, at any moment: within its
// TTL all keys are free.
func killedGroups(t *testing.T, e *env) {
	c := e.client(t, rowlock.Options{})
	keys := e.sortedKeys(t, 4)
	for range 4 {
		p := e.start(t, job{Role: "groups", Keys: keys, TTL: e.ttl})
		p.expect("held")
		// Now and then it must wait in the middle.
		l := acquire(t, c, keys[2+rand.IntN(2)])
		time.Sleep(rand.N(30 * time.Millisecond))
		p.kill()
		release1(t, l)
		endAll(t, allOf(t, c, keys))
	}
}

// groups takes all keys and releases them, until it is killed. It says "held" when it has
// them for the first time.
func (j job) groups(ctx context.Context, c *rowlock.Client) error {
	for first := true; ctx.Err() == nil; first = false {
		g, err := c.AcquireAll(ctx, rowlock.Keys(j.Keys...))
		if err != nil {
			return err
		}
		if first {
			fmt.Println("held")
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		if err := g.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// guardOverAGroup ends each key of a group by force inside a guarded transaction of all of
// them, before its client can know: the transaction commits only where nobody else was
// granted the key.
func guardOverAGroup(t *testing.T, e *env) {
	s := e.Open(t)
	c, other := e.clientOn(t, s, rowlock.Options{}), e.client(t, rowlock.Options{})
	operator := e.Open(t)
	keys := e.sortedKeys(t, 3)
	for _, stolen := range keys {
		g := allOf(t, c, []string{keys[1], keys[2], keys[0]}, rowlock.Guarded())
		leases := g.Leases()
		var granted atomic.Bool
		once := sync.OnceFunc(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience(t))
			defer cancel()
			_, _ = operator.(driver.Forcer).ForceRelease(ctx, stolen) // pinned: an error, or not
			if l, err := other.TryAcquire(ctx, stolen); err == nil {
				granted.Store(true)
				_ = l.Release(ctx)
			}
		})
		err := e.InTx(soon(t), s, func(context.Context) error { once(); return nil }, leases...)
		if err == nil && granted.Load() {
			Breach(t, "P4", "a guarded transaction over a group was committed after %q was granted to another", stolen)
		}
		t.Logf("%q by force: granted %v, the transaction: %v", stolen, granted.Load(), err)
		_ = g.Release(context.Background())
		release1(t, acquire(t, other, stolen))
	}
	g := allOf(t, c, keys, rowlock.Guarded())
	leases := g.Leases()
	v := leases[1]
	if err := e.InTx(soon(t), s, func(context.Context) error { return nil }, leases[0], v, leases[2], v); err != nil {
		t.Errorf("a guarded transaction over a group, with one lease given twice: %v", err)
	}
	endAll(t, g)
	if err := e.InTx(soon(t), s, func(context.Context) error { return nil }, leases...); !errors.Is(err, rowlock.ErrReleased) {
		t.Errorf("a guarded transaction over a group that was released: %v, want ErrReleased", err)
	}
}
