package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// ownCode is code of the program's that a client calls: all of it calls f, with its name and the
// key that it is about, if that is known.
type ownCode struct {
	f func(what, key string)
}

// options are those of a client that calls it.
func (o ownCode) options() rowlock.Options {
	return rowlock.Options{
		TTL: time.Second, Margin: 100 * time.Millisecond, ReapInterval: time.Second,
		Name:    "tested",
		Logger:  slog.New(ownHandler{o}),
		KeyName: func(key string) string { o.f("KeyName", key); return key },
		Observers: []*rowlock.Observer{{
			AcquireStart: func(ctx context.Context, e rowlock.AcquireStart) context.Context {
				o.f("AcquireStart", e.Key)
				return ctx
			},
			AcquireEnd: func(_ context.Context, e rowlock.AcquireEnd) { o.f("AcquireEnd", e.Key) },
			HoldStart: func(ctx context.Context, l *rowlock.Lease) context.Context {
				o.f("HoldStart", l.Key())
				return ctx
			},
			LeaseEnd: func(context.Context, rowlock.LeaseEnd) { o.f("LeaseEnd", "") },
			Renewed:  func(rowlock.Renewed) { o.f("Renewed", "") },
			Called:   func(rowlock.Called) { o.f("Called", "") },
			Reaped:   func(rowlock.Reaped) { o.f("Reaped", "") },
		}},
	}
}

// names are those that f is called with.
func (ownCode) names() []string {
	return []string{
		"Enabled", "Handle", "KeyName", "AcquireStart", "AcquireEnd", "HoldStart", "LeaseEnd", "Renewed", "Called",
		"Done", "Err", "Value", "Deadline",
	}
}

// ownHandler is the handler of a Logger.
type ownHandler struct{ o ownCode }

func (h ownHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h ownHandler) WithGroup(string) slog.Handler      { return h }

func (h ownHandler) Enabled(context.Context, slog.Level) bool {
	h.o.f("Enabled", "")
	return true
}

func (h ownHandler) Handle(context.Context, slog.Record) error {
	h.o.f("Handle", "")
	return nil
}

// ownMethods is a context with methods of its own.
type ownMethods struct {
	context.Context
	o   ownCode
	key string
}

func (c ownMethods) Deadline() (time.Time, bool) {
	c.o.f("Deadline", c.key)
	return c.Context.Deadline()
}

func (c ownMethods) Done() <-chan struct{} {
	c.o.f("Done", c.key)
	return c.Context.Done()
}

func (c ownMethods) Err() error {
	c.o.f("Err", c.key)
	return c.Context.Err()
}

func (c ownMethods) Value(key any) any {
	c.o.f("Value", c.key)
	return c.Context.Value(key)
}

// traffic does with the client, in many goroutines, what programs do: leases that are handed off,
// shared, in groups, under Do, views of others, released and lost. Contexts of leases are children of ctx.
// It ends the test where that does not end.
func traffic(t *testing.T, c *rowlock.Client, ctx context.Context) {
	t.Helper()
	end, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	step := func(err error) bool {
		if err != nil && end.Err() == nil {
			t.Error(err)
		}
		return err == nil
	}
	for range 4 {
		wg.Go(func() {
			for i := range 30 {
				l, err := c.Acquire(ctx, "handed off")
				if !step(err) {
					return
				}
				inner := l.Context(ctx)
				if i%3 == 0 {
					v, err := c.Acquire(inner, "handed off", rowlock.Reentrant())
					step(err)
					v.Context(ctx)
				}
				step(l.Release(ctx))
				<-inner.Done()
			}
		})
		wg.Go(func() {
			for range 10 {
				g, err := c.AcquireAll(ctx, rowlock.Keys("a", "b"))
				if !step(err) {
					return
				}
				inner := g.Context(ctx)
				step(g.Release(ctx))
				<-inner.Done()
				l, err := c.Acquire(ctx, "shared", rowlock.Shared())
				if !step(err) {
					return
				}
				l.Context(ctx)
				step(l.Release(ctx))
				step(rowlock.Do(ctx, c, "done", func(ctx context.Context, _ *rowlock.Lease) error { return ctx.Err() }))
			}
		})
	}
	wg.Go(func() {
		l, err := c.Acquire(ctx, "lost", rowlock.NoRenew(), rowlock.TTL(200*time.Millisecond))
		if step(err) {
			inner := l.Context(ctx)
			<-l.Done()
			<-inner.Done()
		}
	})
	wg.Go(func() {
		l, err := c.Acquire(ctx, "renewed")
		if step(err) {
			step(l.Renew(ctx))
			inner := l.Context(ctx)
			_, err := c.ForceRelease(ctx, "renewed")
			step(err)
			<-l.Done() // a renewal tells
			<-inner.Done()
		}
	})
	within(t, end, wg.Wait)
}

// within ends the test where f does not return before ctx ends.
func within(t *testing.T, ctx context.Context, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("nothing moves any more")
	}
}

// TestOwnCodeThatUsesTheClient: whatever code of its own a program gives to a client may use the
// client. So none is called under a lock of the client.
func TestOwnCodeThatUsesTheClient(t *testing.T) {
	var client atomic.Pointer[rowlock.Client]
	var mu sync.Mutex
	busy, uses, all := make(map[string]bool), make(map[string]int), make(map[string]int)
	o := ownCode{func(what, _ string) {
		c := client.Load()
		mu.Lock()
		if c == nil || busy[what] || uses[what] >= 20 { // the use calls it again
			mu.Unlock()
			return
		}
		busy[what] = true
		uses[what]++
		all[what]++
		mu.Unlock()
		c.Stats()
		c.Leases()
		if _, err := c.Inspect(context.Background(), "handed off"); err != nil && !errors.Is(err, rowlock.ErrClosed) {
			t.Errorf("Inspect in %s: %v", what, err)
		}
		if l, err := c.TryAcquire(context.Background(), fmt.Sprint("of ", what)); err == nil {
			l.Release(context.Background())
		}
		mu.Lock()
		busy[what] = false
		mu.Unlock()
	}}
	c, err := rowlock.New(memory.New(), o.options())
	if err != nil {
		t.Fatal(err)
	}
	client.Store(c)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	own := ownMethods{Context: ctx, o: o}
	traffic(t, c, own)
	if err := rowlock.Do(own, c, "closed", func(ctx context.Context, _ *rowlock.Lease) error {
		if err := c.Close(ctx); err == nil {
			t.Error("Close waited for the function that called it")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	clear(uses)
	mu.Unlock()
	within(t, ctx, func() { err = c.Close(own) })
	if err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, what := range o.names() {
		if all[what] == 0 {
			t.Errorf("%s was never called", what)
		}
	}
}

// TestOwnCodeThatBlocks: it stops its own caller at the most, and not where the client calls it
// by itself: others get their leases, losses are told, and leases are renewed.
func TestOwnCodeThatBlocks(t *testing.T) {
	for _, name := range (ownCode{}).names() {
		if name == "Deadline" {
			continue // only Close asks for it, in its caller's goroutine
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const blocked = "blocked"
			open := make(chan struct{})
			var armed, hit atomic.Bool
			o := ownCode{func(what, key string) {
				if armed.Load() && what == name && (key == "" || key == blocked) {
					hit.Store(true)
					<-open
				}
			}}
			c, err := rowlock.New(memory.New(), o.options())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			healthy := acquire(t, c, "healthy")
			own := ownMethods{ctx, o, blocked}
			for i := range 4 { // their contexts end while it blocks
				acquire(t, c, fmt.Sprint("released", i)).Context(own)
			}
			handedOff := acquire(t, c, "handed off")
			handedOff.Context(own)
			short := acquire(t, c, "short", rowlock.NoRenew(), rowlock.TTL(time.Second))
			short.Context(own)
			armed.Store(true)
			var wg sync.WaitGroup
			wg.Go(func() {
				_ = rowlock.Do(own, c, blocked, func(context.Context, *rowlock.Lease) error { return nil })
			})
			wg.Go(func() { // the next caller waits for it
				handedOff.Release(context.Background())
			})
			traffic(t, c, ctx)
			<-short.Done()
			for range 3 {
				if err := healthy.Renew(context.Background()); err != nil {
					t.Error(err)
				}
			}
			for _, l := range c.Leases() {
				if l.Key == "healthy" && l.Left <= 0 {
					t.Errorf("%+v", l)
				}
			}
			if !hit.Load() {
				t.Error("it did not block")
			}
			close(open)
			wg.Wait()
			end, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			if err := c.Close(end); err != nil {
				t.Error(err)
			}
		})
	}
}
