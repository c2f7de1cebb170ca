// P29, P17, P19: readers, slots and groups among programs that stand in line.

package locktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var lineModeCases = []testCase{
	{name: "P29_ModesInOrder", run: modesInOrder, needs: linesOfModes},
	{name: "P17_KeptSlotHidesNoFreeOne", run: keptSlotHidesNone, needs: linesOfModes},
	{name: "P17_MoreSlotsBesideFewer", run: moreSlotsBesideFewer, needs: linesOfModes},
	{name: "P19_FreeAfterReadersThatWaited", engine: true, run: freeAfterReaders, needs: linesOfModes},
	{name: "P19_RareReader", engine: true, run: rareReader, needs: linesOfModes, alone: true},
	{name: "P29_GroupBesideSingles", run: groupBesideSingles, needs: func(e *env) bool { return lines(e) && e.room == 0 }},
}

// modesInOrder: programs of different modes are served in the order in which they stand, where neighbours exclude each other.
func modesInOrder(t *testing.T, e *env) {
	s := e.Open(t)
	modes := [][]rowlock.Option{nil, {rowlock.Shared()}, nil, {rowlock.Slots(2)}, nil}
	var clients []*rowlock.Client
	for range modes {
		clients = append(clients, e.client(t, rowlock.Options{}))
	}
	holder := e.client(t, rowlock.Options{})
	steadily(t, s, func() string {
		key := e.key(t)
		first := acquire(t, holder, key, rowlock.Shared())
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() {
				l, err := c.Acquire(soon(t), key, modes[i]...)
				if err != nil {
					t.Errorf("program %d: %v", i, err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				release1(t, l)
			})
			inLine(t, s, key, i+1)
		}
		release1(t, first)
		wg.Wait()
		if !slices.IsSorted(order) {
			return fmt.Sprintf("P29: programs of all modes are served in the order %v", order)
		}
		return ""
	})
}

// keptSlotHidesNone: one of two slots is kept by MinHold. The other one becomes free by its expiry, which wakes nobody.
func keptSlotHidesNone(t *testing.T, e *env) {
	s := e.Open(t)
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	for range 3 {
		key := e.key(t)
		kept := acquire(t, a, key, rowlock.Slots(2), rowlock.MinHold(longTTL))
		dead := grant(t, s, with(slotOf(key, 2), func(q *driver.Request) { q.TTL = 2 * e.short }))
		lease := acquiring(t, b, key, rowlock.Slots(2))
		until(t, "a caller waits", func() bool { return b.Stats().Waiting > 0 })
		release1(t, kept)
		l := lease()
		if l.Slot() != dead.Slot {
			t.Errorf("P17: slot %d was granted while %d is kept", l.Slot(), kept.Slot())
		}
		release1(t, l)
	}
}

// moreSlotsBesideFewer: a caller that wants one of ten slots does not wait for a program that wants one of two.
func moreSlotsBesideFewer(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	a, b, c := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	low := []*rowlock.Lease{acquire(t, a, key, rowlock.Slots(2)), acquire(t, a, key, rowlock.Slots(2))}
	lease := acquiring(t, b, key, rowlock.Slots(2))
	inLine(t, s, key, 1)
	for _, do := range []func(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error){c.TryAcquire, c.Acquire} {
		l, err := do(soon(t), key, rowlock.Slots(10))
		if err != nil {
			t.Fatalf("P17: a slot of ten with two taken, for which another stands: %v", err)
		}
		if l.Slot() < 2 {
			t.Errorf("P29: slot %d was granted while another stands for the first two", l.Slot())
		}
		release1(t, l)
	}
	for _, l := range low {
		release1(t, l)
	}
	release1(t, lease())
}

// freeAfterReaders: a key is free at once when a reader has gone that had waited.
func freeAfterReaders(t *testing.T, e *env) {
	s := e.Open(t)
	a, b, c := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	for range 10 {
		key := e.key(t)
		first := acquire(t, a, key)
		lease := acquiring(t, b, key, rowlock.Shared())
		inLine(t, s, key, 1)
		release1(t, first)
		release1(t, lease())
		l, err := c.TryAcquire(soon(t), key)
		if err != nil {
			t.Fatalf("P19: try a key that nobody has, after a reader that had waited: %v", err)
		}
		release1(t, l)
	}
}

// rareReader: beside a writer that takes the key again and again a reader is no worse off than an exclusive caller.
func rareReader(t *testing.T, e *env) {
	const reads, pause = 10, 50 * time.Millisecond
	s := e.Open(t)
	w, r := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	steadily(t, s, func() string {
		key := e.key(t)
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for !stop.Load() {
				l, err := w.Acquire(soon(t), key)
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				time.Sleep(2 * time.Millisecond)
				_ = l.Release(context.Background())
			}
		})
		defer wg.Wait()
		defer stop.Store(true)
		waits := func(opts ...rowlock.Option) time.Duration {
			time.Sleep(pause)
			began := time.Now()
			l := acquire(t, r, key, opts...)
			took := time.Since(began)
			release1(t, l)
			return took
		}
		waits() // connections are open
		var exclusive, shared time.Duration
		for range reads { // in turn, so that what else the machine does slows both down
			exclusive += waits()
			shared += waits(rowlock.Shared())
		}
		if shared > 3*exclusive+reads*pause {
			return fmt.Sprintf("P19: %d reads waited %v, as many exclusive callers %v", reads, shared, exclusive)
		}
		return ""
	})
}

// groupBesideSingles: AcquireAll beside programs that each take one of its keys again and again. It waits for about one
// turn of each, while those of the keys that it does not have yet go on.
func groupBesideSingles(t *testing.T, e *env) {
	const keys, most = 6, 150 // turns of the others, for one AcquireAll
	s, all := e.Open(t), e.sortedKeys(t, keys)
	c := e.client(t, rowlock.Options{})
	var stop atomic.Bool
	var turns atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	for _, key := range all {
		single := e.client(t, rowlock.Options{})
		wg.Go(func() {
			for !stop.Load() {
				l, err := single.Acquire(soon(t), key)
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				turns.Add(1)
				time.Sleep(20 * time.Millisecond)
				_ = l.Release(context.Background())
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	until(t, "the others have had their turns", func() bool { return turns.Load() > 2*keys })
	steadily(t, s, func() string {
		for range 3 {
			before, began := turns.Load(), time.Now()
			g := allOf(t, c, all)
			took, n := time.Since(began), turns.Load()-before
			endAll(t, g)
			if n > most {
				return fmt.Sprintf("P29: AcquireAll of %d keys waited %v, for %d turns of others, at most %d", keys, took, n, most)
			}
			t.Logf("AcquireAll of %d keys waited %v, for %d turns of others", keys, took, n)
		}
		return ""
	})
}
