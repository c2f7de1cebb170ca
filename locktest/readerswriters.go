// P19: neither readers nor writers starve.

package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var phaseCases = []testCase{
	{name: "P19_WriterAmongReaders", engine: true, run: writerAmongReaders, needs: modes},
	{name: "P19_ReadersAmongWriters", run: readersAmongWriters, needs: modes},
	{name: "P19_WriterGivesUp", engine: true, run: writerGivesUp, needs: modes},
	{name: "P19_WriterKilled", long: true, run: writerKilled, needs: func(e *env) bool { return modes(e) && processes(e) }},
}

// stream has readers of several programs come one after the other, without a moment in which
// none is there, until stop is called.
func stream(t testing.TB, e *env, key string, m member, programs, callers int) (grants *atomic.Int64, stop func()) {
	grants = new(atomic.Int64)
	var end atomic.Bool
	var wg sync.WaitGroup
	for range programs {
		c := e.client(t, rowlock.Options{})
		for range callers {
			wg.Go(func() {
				for !end.Load() {
					lease, err := c.Acquire(soon(t), key, m.options()...)
					if err != nil {
						t.Errorf("mode %v: %v", m.mode, err)
						return
					}
					grants.Add(1)
					time.Sleep(10*time.Millisecond + rand.N(10*time.Millisecond))
					_ = lease.Release(context.Background())
				}
			})
		}
	}
	return grants, func() { end.Store(true); wg.Wait() }
}

// writerAmongReaders: readers and slots that come without end do not starve a writer.
func writerAmongReaders(t *testing.T, e *env) {
	for _, m := range []member{{mode: driver.Shared}, {mode: driver.Slot, n: 8}} {
		key := e.key(t)
		grants, stop := stream(t, e, key, m, 3, 4)
		until(t, "the stream flows", func() bool { return grants.Load() > 12 })
		w := e.client(t, rowlock.Options{})
		for range 3 {
			began, before := time.Now(), grants.Load()
			lease := acquire(t, w, key)
			t.Logf("a writer among mode %v: granted after %v and %d of their grants", m.mode, time.Since(began), grants.Load()-before)
			release1(t, lease)
		}
		n := grants.Load()
		until(t, "the stream flows after the writer", func() bool { return grants.Load() > n })
		stop()
	}
}

// readersAmongWriters: writers that come without end do not starve readers and slots.
func readersAmongWriters(t *testing.T, e *env) {
	key := e.key(t)
	grants, stop := stream(t, e, key, member{}, 3, 2)
	defer stop()
	until(t, "the writers get the key", func() bool { return grants.Load() > 6 })
	for _, m := range []member{{mode: driver.Shared}, {mode: driver.Slot, n: 2}} {
		c := e.client(t, rowlock.Options{})
		for range 3 {
			began, before := time.Now(), grants.Load()
			lease := acquire(t, c, key, m.options()...)
			t.Logf("mode %v among writers: granted after %v and %d of their grants", m.mode, time.Since(began), grants.Load()-before)
			release1(t, lease)
		}
	}
}

// writerGivesUp: it leaves no gate behind, because its client sends the undo of the attempt that
// left it. (It would end by itself, so that is what is looked for.)
func writerGivesUp(t *testing.T, e *env) {
	a := e.client(t, rowlock.Options{})
	b, f := e.faulty(t, rowlock.Options{})
	var undone atomic.Bool
	f.On(OpRelease, func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
		for _, h := range c.Holds {
			if h.Undo && h.Mode == driver.Exclusive {
				undone.Store(true)
			}
		}
		return send(ctx)
	})
	key := e.key(t)
	lease := acquire(t, a, key, rowlock.Shared())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, key)
		done <- err
	}()
	gated := func() bool { return keepsReadersOut(t, a, key) }
	until(t, "the writer's gate stands", gated)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a writer that gave up: %v", err)
	}
	until(t, "the undo of the attempt that left the gate is sent", undone.Load)
	until(t, "the gate is gone", func() bool { return b.Stats().Unresolved == 0 && !gated() })
	other := acquire(t, b, key, rowlock.Shared())
	release1(t, other)
	release1(t, lease)
}

// keepsReadersOut reports whether a writer that waits keeps readers out: by its gate, or because it stands in the line.
func keepsReadersOut(t testing.TB, c *rowlock.Client, key string) bool {
	info, err := c.Inspect(soon(t), key)
	return err == nil && (info.Gated || info.Waiting > 0)
}

// writerKilled: one that dies while it waits delays readers by no more than its gate.
func writerKilled(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key, rowlock.Shared())
	p := e.start(t, job{Role: "hold", Key: key, TTL: longTTL})
	until(t, "the writer's gate stands", func() bool { return keepsReadersOut(t, a, key) })
	p.kill()
	began := time.Now()
	other := acquire(t, b, key, rowlock.Shared())
	t.Logf("a reader was granted %v after a waiting writer was killed", time.Since(began))
	release1(t, other)
	release1(t, lease)
	freeSoon(t, b, key)
}
