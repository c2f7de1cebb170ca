// P22 with P16 to P21: groups whose keys are held in several modes.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var groupModes = []testCase{
	{name: "P22_MixedModes", engine: true, run: mixedGroups, needs: modes},
	{name: "P22_MixedModesAmongMany", engine: true, run: mixedGroupsAmongMany, needs: modes},
	{name: "P22_GuardOverMixedModes", run: guardOverMixedModes, needs: func(e *env) bool { return modes(e) && guarding(e) }},
}

// reportOf is what a job wants that reads a tenant and writes a report of it.
func reportOf(tenant string, report any) []rowlock.Want {
	return []rowlock.Want{
		{Key: fmt.Sprint(tenant, "/", report)},
		{Key: tenant, Options: []rowlock.Option{rowlock.Shared()}},
	}
}

// mixedGroups has two groups that read the same key, of two programs, and one that writes it.
func mixedGroups(t *testing.T, e *env) {
	a, b, w := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	tenant := e.key(t)
	get := func(c *rowlock.Client, wants []rowlock.Want) *rowlock.Group {
		g, err := c.AcquireAll(soon(t), wants)
		if err != nil {
			t.Errorf("AcquireAll: %v", err)
		}
		return g
	}
	first, second := get(a, reportOf(tenant, 1)), get(b, reportOf(tenant, 2))
	if first == nil || second == nil {
		return
	}
	var held *rowlock.HeldError
	for _, wants := range [][]rowlock.Want{rowlock.Keys(tenant, tenant+"/3"), {{Key: tenant + "/2"}, {Key: tenant, Options: []rowlock.Option{rowlock.Shared()}}}} {
		if _, err := w.TryAcquireAll(soon(t), wants); !errors.As(err, &held) || held.Key != wants[0].Key {
			t.Errorf("P22: a try of what others have: %v, want a *HeldError of %q", err, wants[0].Key)
		}
	}
	var over atomic.Bool
	wrote := make(chan *rowlock.Group, 1)
	go func() {
		g := get(w, rowlock.Keys(tenant+"/3", tenant))
		if !over.Load() {
			t.Error("P16: a writer of what two groups read")
		}
		wrote <- g
	}()
	time.Sleep(300 * time.Millisecond)
	endAll(t, first)
	time.Sleep(300 * time.Millisecond)
	over.Store(true)
	endAll(t, second)
	g := <-wrote
	if g == nil {
		return
	}
	if r, w := second.Leases()[1].Token(), g.Leases()[1].Token(); w <= r {
		Breach(t, "P20", "the writer has token %d after a reader's %d", w, r)
	}
	if _, err := a.TryAcquireAll(soon(t), reportOf(tenant, 1)); !errors.As(err, &held) || held.Key != tenant {
		t.Errorf("P16: a reader beside a writer: %v", err)
	}
	endAll(t, g)
	if g := get(a, reportOf(tenant, 1)); g != nil {
		endAll(t, g)
	}
}

// mixedGroupsAmongMany has many groups in several programs: of tenants that they read, write, or
// work on in slots, and of reports of them.
func mixedGroupsAmongMany(t *testing.T, e *env) {
	const programs, rounds, tenants = 3, 5, 3
	names := e.sortedKeys(t, tenants)
	rooms := make(map[string]*room)
	for _, tenant := range names {
		for _, key := range []string{tenant, tenant + "/r"} {
			rooms[key] = newRoom()
		}
	}
	kinds := []member{{mode: driver.Shared}, {mode: driver.Shared}, {mode: driver.Slot, n: 3}, {}}
	var wg sync.WaitGroup
	for range programs {
		c := e.client(t, rowlock.Options{})
		for range e.load(24) / programs {
			wg.Go(func() {
				for range rounds {
					var wants []rowlock.Want
					var members []member
					for _, i := range rand.Perm(tenants)[:2] {
						m := kinds[rand.IntN(len(kinds))]
						wants = append(wants, rowlock.Want{Key: names[i], Options: m.options()})
						members = append(members, m)
					}
					wants = append(wants, rowlock.Want{Key: wants[0].Key + "/r"})
					members = append(members, member{})
					g, err := c.AcquireAll(soon(t), wants)
					if err != nil {
						t.Errorf("P22: AcquireAll: %v", err)
						return
					}
					for i, l := range g.Leases() {
						rooms[l.Key()].enter(t, l, members[i])
					}
					time.Sleep(rand.N(3 * time.Millisecond))
					for _, l := range g.Leases() {
						rooms[l.Key()].leave(l)
					}
					endAll(t, g)
				}
			})
		}
	}
	wg.Wait()
}

// guardOverMixedModes ends each key of a group by force inside a guarded transaction of all of
// them, a reader's, a slot's and two exclusive ones: it commits only where nobody was granted
// the key in a mode that excludes the group's. What may be beside the group is not kept out.
func guardOverMixedModes(t *testing.T, e *env) {
	s := e.Open(t)
	c, other := e.clientOn(t, s, rowlock.Options{}), e.client(t, rowlock.Options{})
	operator := e.Open(t).(driver.Forcer)
	keys := e.sortedKeys(t, 4)
	wants := []rowlock.Want{
		{Key: keys[2]}, {Key: keys[0], Options: []rowlock.Option{rowlock.Shared()}},
		{Key: keys[1], Options: []rowlock.Option{rowlock.Slots(1)}}, {Key: keys[3]},
	}
	get := func() *rowlock.Group {
		g, err := c.AcquireAll(soon(t), wants, rowlock.Guarded())
		if err != nil {
			t.Fatalf("AcquireAll: %v", err)
		}
		return g
	}
	type theft struct {
		key  string
		next []rowlock.Option
	}
	thefts := []theft{{keys[1], []rowlock.Option{rowlock.Slots(1)}}, {keys[2], []rowlock.Option{rowlock.Shared()}}}
	for _, key := range keys {
		thefts = append(thefts, theft{key: key})
	}
	for _, stolen := range thefts {
		g := get()
		var granted atomic.Bool
		once := sync.OnceFunc(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience(t))
			defer cancel()
			_, _ = operator.ForceRelease(ctx, stolen.key) // pinned: an error, or not
			if l, err := other.TryAcquire(ctx, stolen.key, stolen.next...); err == nil {
				granted.Store(true)
				_ = l.Release(ctx)
			}
		})
		err := e.InTx(soon(t), s, func(context.Context) error { once(); return nil }, g.Leases()...)
		if err == nil && granted.Load() {
			t.Errorf("P21: a guarded transaction over a group was committed after %q was granted to another", stolen.key)
		}
		t.Logf("%q by force, %d options: granted %v, the transaction: %v", stolen.key, len(stolen.next), granted.Load(), err)
		_ = g.Release(context.Background())
		release1(t, acquire(t, other, stolen.key))
	}
	g := get()
	err := e.InTx(soon(t), s, func(context.Context) error {
		l, err := other.Acquire(soon(t), keys[0], rowlock.Shared())
		if err != nil {
			return err
		}
		return l.Release(context.Background())
	}, g.Leases()...)
	if err != nil {
		t.Errorf("P21: a guarded transaction over a group with a reader, beside another reader: %v", err)
	}
	leases := g.Leases()
	endAll(t, g)
	if err := e.InTx(soon(t), s, func(context.Context) error { return nil }, leases...); !errors.Is(err, rowlock.ErrReleased) {
		t.Errorf("a guarded transaction over a group that was released: %v, want ErrReleased", err)
	}
}
