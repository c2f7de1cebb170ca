package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// seen is one value of Observe.
type seen struct {
	rowlock.Leader
	err error
	at  time.Time
}

// follow observes in a goroutine, which ends with ctx.
type follow struct {
	mu   sync.Mutex
	seen []seen
	done chan struct{}
}

func newFollow(ctx context.Context, c *rowlock.Client, key string) *follow {
	f := &follow{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for l, err := range c.Observe(ctx, key) {
			f.mu.Lock()
			f.seen = append(f.seen, seen{l, err, time.Now()})
			f.mu.Unlock()
		}
	}()
	return f
}

// text is what was seen: "owner token", "-" where nobody leads, "!" where there was an error.
func (f *follow) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for _, s := range f.seen {
		text := "-"
		if s.Held {
			text = s.Owner
		}
		if s.err != nil {
			text += "!"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func (f *follow) last() seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) == 0 {
		return seen{}
	}
	return f.seen[len(f.seen)-1]
}

// rising fails the test if a term follows a newer one.
func (f *follow) rising(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := 1; i < len(f.seen); i++ {
		if f.seen[i].Token < f.seen[i-1].Token {
			t.Errorf("P24: term %d was observed after %d", f.seen[i].Token, f.seen[i-1].Token)
		}
	}
}

// TestP24_Observe: nobody, A, nobody, B, a forced release, and C.
func TestP24_Observe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a, b := newClient(t, f.Store, rowlock.Options{Owner: "a"}), newClient(t, f.Store, rowlock.Options{Owner: "b"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watch := newFollow(ctx, newClient(t, f), "k")
		late := func(what string, since time.Time) {
			t.Helper()
			if d := watch.last().at.Sub(since); d > 1100*time.Millisecond || d < 0 {
				t.Errorf("%s was observed after %v", what, d)
			}
		}
		synctest.Wait()
		if s := watch.last(); watch.text() != "-" || s.Token != 0 || s.Key != "k" {
			t.Errorf("a key that was never locked: %q %+v", watch.text(), s)
		}
		time.Sleep(10 * time.Second)
		now := time.Now()
		l := acquire(t, a, "k")
		time.Sleep(time.Minute)
		if s := watch.last(); watch.text() != "- a" || s.Token != l.Token() || s.Left > 30*time.Second || s.Left < 19*time.Second || !s.Since.Equal(now) {
			t.Errorf("a leads: %q %+v", watch.text(), s)
		}
		late("a", now)
		now = time.Now()
		l.Release(ctx)
		time.Sleep(2 * time.Second)
		if n := len(f.seen("inspect")); n < 75 || n > 85 {
			t.Errorf("%d probes in 72 s", n)
		}
		time.Sleep(3 * time.Second)
		if s := watch.last(); watch.text() != "- a -" || s.Token != l.Token() || s.Left != 0 || s.Owner != "a" {
			t.Errorf("nobody leads: %q %+v", watch.text(), s)
		}
		late("the release", now)
		now = time.Now()
		l = acquire(t, b, "k", rowlock.NoRenew())
		time.Sleep(29 * time.Second)
		if s := watch.last(); watch.text() != "- a - b" || s.Token != l.Token() {
			t.Errorf("b leads: %q %+v", watch.text(), s)
		}
		time.Sleep(1300 * time.Millisecond)
		if watch.text() != "- a - b -" {
			t.Errorf("b's lease is over: %q", watch.text())
		}
		if d := watch.last().at.Sub(now); d > 30*time.Second+300*time.Millisecond {
			t.Errorf("the end of a hold of 30 s was observed after %v", d)
		}
		l = acquire(t, b, "k")
		time.Sleep(5 * time.Second)
		f.ForceRelease(ctx, "k")
		time.Sleep(2 * time.Second)
		next := acquire(t, a, "k", rowlock.MinHold(time.Minute))
		time.Sleep(2 * time.Second)
		next.Release(ctx)
		time.Sleep(2 * time.Second)
		if watch.text() != "- a - b - b - a -" || watch.last().Token != next.Token() || next.Token() <= l.Token() {
			t.Errorf("after a forced release, and a hold with MinHold: %q %+v", watch.text(), watch.last())
		}
		watch.rising(t)
		cancel()
		<-watch.done
		if watch.text() != "- a - b - b - a -" {
			t.Errorf("the end of ctx: %q", watch.text())
		}
	})
}

// TestP24_ObserveStaleAnswers: a server that is behind answers with older states.
func TestP24_ObserveStaleAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		s := &staleStore{faultStore: f}
		a := newClient(t, f.Store, rowlock.Options{Owner: "a"})
		b := newClient(t, f.Store, rowlock.Options{Owner: "b"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := acquire(t, a, "k")
		watch := newFollow(ctx, newClient(t, s), "k")
		time.Sleep(2500 * time.Millisecond)
		s.keep(t, "k")
		l.Release(ctx)
		l = acquire(t, b, "k")
		time.Sleep(2 * time.Second)
		for range 5 {
			s.stale.Store(true)
			time.Sleep(3 * time.Second)
			s.stale.Store(false)
			time.Sleep(3 * time.Second)
		}
		l.Release(ctx)
		time.Sleep(2 * time.Second)
		s.gone.Store(true) // the row was reaped
		time.Sleep(2 * time.Second)
		if watch.text() != "a b -" || watch.last().Token != l.Token() {
			t.Errorf("observed %q %+v", watch.text(), watch.last())
		}
		watch.rising(t)
	})
}

// staleStore answers an Inspect with what it found before, as a replica does.
type staleStore struct {
	*faultStore
	old         driver.Info
	stale, gone atomic.Bool
}

func (s *staleStore) keep(t *testing.T, key string) {
	infos, err := s.Store.Inspect(t.Context(), []string{key})
	if err != nil {
		t.Fatal(err)
	}
	s.old = infos[0]
}

func (s *staleStore) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	infos, err := s.faultStore.Inspect(ctx, keys)
	for i := range infos {
		switch {
		case s.gone.Load():
			infos[i] = driver.Info{Key: keys[i]}
		case s.stale.Load():
			infos[i] = s.old
		}
	}
	return infos, err
}

// TestObserveErrors: a failure is told once for an outage, beside the last state, and the
// state when it is over.
func TestObserveErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a := newClient(t, f.Store, rowlock.Options{Owner: "a"})
		l := acquire(t, a, "k")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watch := newFollow(ctx, newClient(t, f), "k")
		time.Sleep(3 * time.Second)
		var asked atomic.Int64 // by two clients
		f.set(func(c call) verdict {
			n := asked.Add(1)
			if n < 20 {
				return verdict{err: fmt.Errorf("read tcp 127.0.0.1:%d: connection reset", 40000+n)}
			}
			return verdict{err: &driver.Error{Lasting: true, Err: fmt.Errorf("%w: %d", rowlock.ErrSchema, n)}}
		})
		time.Sleep(10 * time.Second)
		if s := watch.last(); watch.text() != "a a!" || s.Token != l.Token() || !strings.Contains(s.err.Error(), "connection reset") || !strings.Contains(s.err.Error(), `"k"`) {
			t.Errorf("in an outage: %q %+v", watch.text(), s)
		}
		time.Sleep(30 * time.Second)
		if s := watch.last(); watch.text() != "a a! a!" || !errors.Is(s.err, rowlock.ErrSchema) {
			t.Errorf("in one that will not pass: %q %+v", watch.text(), s)
		}
		later := newFollow(ctx, newClient(t, f), "k")
		time.Sleep(3 * time.Second)
		if later.text() != "-!" {
			t.Errorf("a loop that begins in an outage: %q", later.text())
		}
		f.set(nil)
		time.Sleep(3 * time.Second)
		if watch.text() != "a a! a! a" || later.text() != "-! a" {
			t.Errorf("after the outage: %q, %q", watch.text(), later.text())
		}
	})
}

// TestObserveEnds: what ends a sequence, and its last value.
func TestObserveEnds(t *testing.T) {
	all := func(seq iter.Seq2[rowlock.Leader, error]) (text string) {
		for l, err := range seq {
			text += fmt.Sprintf("%s %v %v %v; ", l.Key, errors.Is(err, rowlock.ErrInvalid), errors.Is(err, rowlock.ErrClosed), err == nil)
		}
		return text
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		var none *rowlock.Client
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for name, seq := range map[string]iter.Seq2[rowlock.Leader, error]{
			"empty key":  c.Observe(t.Context(), ""),
			"long key":   c.Observe(t.Context(), strings.Repeat("x", 256)),
			"nil ctx":    c.Observe(nil, "k"), //lint:ignore SA1012 bad input
			"nil client": none.Observe(t.Context(), "k"),
		} {
			if text := all(seq); strings.Count(text, ";") != 1 || !strings.Contains(text, " true false false;") {
				t.Errorf("%s: %q, want ErrInvalid once", name, text)
			}
		}
		if text := all(c.Observe(over, "k")); text != "" {
			t.Errorf("with a context that is over: %q", text)
		}
		if n := len(f.seen("inspect")); n != 0 {
			t.Errorf("%d statements", n)
		}
		time.AfterFunc(10*time.Second, func() { c.Close(context.Background()) })
		start := time.Now()
		if text := all(c.Observe(t.Context(), "k")); text != "k false false true; k false true false; " || time.Since(start) != 10*time.Second {
			t.Errorf("when the client is closed: %q after %v", text, time.Since(start))
		}
		if text := all(c.Observe(t.Context(), "k")); text != "k false true false; " {
			t.Errorf("of a closed client: %q", text)
		}
	})
}

// TestObserversShare: many loops over many keys, and callers that wait for some of them, share
// statements; no key is asked for twice in one.
func TestObserversShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withLimits(driver.Limits{Batch: 40, InFlight: 2, SlowBatch: time.Millisecond})
		c, other := newClient(t, f), newClient(t, f.Store)
		ctx, cancel := context.WithCancel(t.Context())
		const keys, loops, waited = 100, 5, 10
		var wg sync.WaitGroup
		var told atomic.Int32
		for i := range keys {
			key := fmt.Sprint("k", i)
			if i < waited {
				acquire(t, other, key)
				wg.Go(func() { _, _ = c.Acquire(ctx, key) })
			}
			for range loops {
				wg.Go(func() {
					for l, err := range c.Observe(ctx, key) {
						if err != nil || l.Key != key || l.Held != (i < waited) {
							t.Errorf("%q: %+v, %v", key, l, err)
						}
						told.Add(1)
					}
				})
			}
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if n := told.Load(); n != keys*loops {
			t.Errorf("%d values for %d loops", n, keys*loops)
		}
		before := len(f.seen("inspect")) + len(f.seen("acquire"))
		const seconds = 60
		time.Sleep(seconds * time.Second)
		if n := len(f.seen("inspect")) + len(f.seen("acquire")) - before; n > 20*seconds {
			t.Errorf("%d statements in %d s", n, seconds)
		}
		asked := make(map[string]int)
		for _, call := range f.seen("inspect") {
			twice := make(map[string]bool)
			for _, k := range call.keys {
				if twice[k] {
					t.Fatalf("%q is asked for twice in a statement", k)
				}
				twice[k] = true
				asked[k]++
			}
			if len(call.keys) > 40 {
				t.Errorf("%d keys in a statement", len(call.keys))
			}
		}
		for i := range keys {
			if n := asked[fmt.Sprint("k", i)]; n < seconds/2 {
				t.Errorf("key %d was asked for %d times in %d s", i, n, seconds)
			}
		}
		cancel()
		wg.Wait()
	})
}

// TestObserveIsCheap: keys that are only observed cost a statement a second, or a few.
func TestObserveIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f), newClient(t, f.Store)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 50 {
			key := fmt.Sprint("k", i)
			acquire(t, other, key)
			newFollow(ctx, c, key)
			time.Sleep(11 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		before := len(f.seen("inspect"))
		time.Sleep(time.Minute)
		if n := len(f.seen("inspect")) - before; n > 75 {
			t.Errorf("%d statements in a minute", n)
		}
	})
}

// TestObserveOwnHolds: the client's own holds are seen sooner than by the next probe, and a
// crowd of them does not use up the statements of the client.
func TestObserveOwnHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f, rowlock.Options{Owner: "me"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watch := newFollow(ctx, c, "k")
		time.Sleep(5*time.Second + 500*time.Millisecond)
		l := acquire(t, c, "k")
		synctest.Wait()
		if watch.text() != "- me" {
			t.Errorf("observed %q", watch.text())
		}
		l.Release(ctx)
		before := len(f.seen("inspect"))
		for range 1000 {
			acquire(t, c, "k").Release(ctx)
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(f.seen("inspect")) - before; n > 45 {
			t.Errorf("%d probes in 10 s", n)
		}
		watch.rising(t)
	})
}

// TestObservePush: a release is seen as soon as the stream tells of it.
func TestObservePush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newStreamStore()
		a, b := newClient(t, p, rowlock.Options{Owner: "a"}), newClient(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		l := acquire(t, a, "k")
		watch := newFollow(ctx, b, "k")
		time.Sleep(30*time.Second + 400*time.Millisecond)
		l.Release(ctx)
		synctest.Wait()
		time.Sleep(250 * time.Millisecond)
		if watch.text() != "a -" {
			t.Errorf("250 ms after the release: %q", watch.text())
		}
		cancel()
		<-watch.done
		time.Sleep(time.Minute)
		if n := p.breakAll(nil); n != 0 {
			t.Errorf("%d streams are open though nobody observes", n)
		}
	})
}

// TestP12_ObserveLeavesNothing: when a loop ends, however that is, no goroutine is left and
// nothing more is sent; the client goes on.
func TestP12_ObserveLeavesNothing(t *testing.T) {
	for name, loop := range map[string]func(context.Context, *rowlock.Client){
		"break": func(ctx context.Context, c *rowlock.Client) {
			for range c.Observe(ctx, "k") {
				break
			}
		},
		"panic": func(ctx context.Context, c *rowlock.Client) {
			defer func() { recover() }()
			for range c.Observe(ctx, "k") {
				panic("boom")
			}
		},
		"pull": func(ctx context.Context, c *rowlock.Client) {
			next, stop := iter.Pull2(c.Observe(ctx, "k"))
			if l, err, ok := next(); l.Held || err != nil || !ok {
				t.Errorf("%+v, %v, %v", l, err, ok)
			}
			stop()
		},
		"context": func(ctx context.Context, c *rowlock.Client) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			for range c.Observe(ctx, "k") {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				mark := "observe " + name
				pprof.Do(t.Context(), pprof.Labels("test", mark), func(ctx context.Context) { loop(ctx, c) })
				time.Sleep(3 * time.Second) // goroutines wait for more work a little longer
				synctest.Wait()
				var b bytes.Buffer
				if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(b.String(), mark) {
					t.Errorf("a goroutine is left:\n%s", b.String())
				}
				n := len(f.seen("inspect"))
				time.Sleep(time.Minute)
				if len(f.seen("inspect")) != n {
					t.Error("a key is probed that nobody observes")
				}
				loop(t.Context(), c)
				if len(f.seen("inspect")) == n {
					t.Error("a second loop asks nobody")
				}
			})
		})
	}
}

// TestObserveBeginsWithTheStateNow: a loop that begins beside others waits for an answer of
// its own.
func TestObserveBeginsWithTheStateNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := memory.New()
		c, other := newClient(t, space), newClient(t, space, rowlock.Options{Owner: "a"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		newFollow(ctx, c, "k")
		time.Sleep(5*time.Second + 400*time.Millisecond)
		acquire(t, other, "k")
		for l, err := range c.Observe(ctx, "k") {
			if !l.Held || err != nil {
				t.Errorf("%+v, %v: the state of before", l, err)
			}
			break
		}
	})
}

// TestObserveOfModes: a key in a phase is held, by nobody in particular, as one term; a change in
// any mode is seen at once where this client made it.
func TestObserveOfModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other := newClient(t, f, rowlock.Options{Owner: "c"}), newClient(t, f.Store, rowlock.Options{Owner: "other"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		watch := newFollow(ctx, c, "k")
		synctest.Wait()
		soon := func(what, text string) {
			t.Helper()
			time.Sleep(300 * time.Millisecond) // two probes of a key are not closer than 250 ms
			if watch.text() != text {
				t.Errorf("%s: %q, want %q", what, watch.text(), text)
			}
		}
		time.Sleep(10 * time.Second)
		reader := acquire(t, c, "k", rowlock.Shared())
		soon("a reader of this client", "- ")
		if s := watch.last(); !s.Held || s.Token != reader.Token() {
			t.Errorf("a phase: %+v, want token %d", s, reader.Token())
		}
		slot := acquire(t, other, "k", rowlock.Slots(2))
		more := acquire(t, other, "k", rowlock.Shared())
		time.Sleep(5 * time.Second)
		release(t, reader)
		time.Sleep(5 * time.Second)
		release(t, more)
		time.Sleep(5 * time.Second)
		soon("others come and go in the phase", "- ")
		own := acquire(t, c, "k", rowlock.Slots(2))
		release(t, slot)
		time.Sleep(5 * time.Second)
		release(t, own)
		soon("the last of the phase has gone", "-  -")
		writer := acquire(t, c, "k")
		time.Sleep(time.Second)
		soon("an exclusive holder", "-  - c")
		if s := watch.last(); s.Token != writer.Token() {
			t.Errorf("the writer: %+v, want token %d", s, writer.Token())
		}
		release(t, writer)
		time.Sleep(time.Second)
		watch.rising(t)
	})
}
