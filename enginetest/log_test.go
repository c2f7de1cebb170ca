package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestP26_ABlockingLogHandler: a handler that takes three seconds for each record
// delays no signal and no renewal.
func TestP26_ABlockingLogHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		h := &logged{on: func(context.Context, slog.Record) { time.Sleep(3 * time.Second) }}
		f := newFaultStore()
		c := newClient(t, f, logTo(h, rowlock.Options{TTL: ttl}))
		healthy := acquire(t, c, "healthy")
		var dying []*rowlock.Lease
		var late time.Duration
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 3 {
			l := acquire(t, c, fmt.Sprint("dying", i), rowlock.NoRenew(), rowlock.TTL(time.Duration(4+i)*time.Second))
			dying = append(dying, l)
			until := l.Until()
			wg.Go(func() {
				<-l.Done()
				mu.Lock()
				defer mu.Unlock()
				late = max(late, time.Since(until))
			})
		}
		wg.Wait()
		time.Sleep(5 * ttl)
		if late > 0 {
			t.Errorf("Done was closed %v late", late)
		}
		if err := healthy.Err(); err != nil {
			t.Errorf("a healthy lease was lost: %v", err)
		}
		for _, l := range dying {
			if reason(l.Err()) != rowlock.ReasonExpired {
				t.Error(l.Err())
			}
		}
		if n := len(h.lines("lease lost")); n != len(dying) {
			t.Errorf("%d losses logged, want %d", n, len(dying))
		}
	})
}

// TestALogHandlerThatCallsTheClient: a handler may use the client and the lease that
// its record is about; also one that closes the client ends.
func TestALogHandlerThatCallsTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFaultStore()
		var c *rowlock.Client
		var held atomic.Pointer[rowlock.Lease]
		h := &logged{least: slog.LevelDebug, on: func(_ context.Context, r slog.Record) {
			c.Stats()
			c.Inspect(ctx, "k")
			if l := held.Load(); l != nil {
				l.Err()
				l.Until()
				l.Renew(ctx)
			}
			if r.Message != "acquired" && r.Message != "released" { // it would log for ever
				if l, err := c.TryAcquire(ctx, "of the handler"); err == nil {
					l.Release(ctx)
				}
			}
			if strings.HasPrefix(r.Message, "client closed") {
				c.Close(ctx)
			}
		}}
		c = newClient(t, f, logTo(h))
		l := acquire(t, c, "k", rowlock.TTL(5*time.Second))
		held.Store(l)
		acquire(t, c, "stays")
		f.set(func(c call) verdict {
			if c.op == "renew" || c.op == "acquire" && c.keys[0] == "other" {
				return verdict{err: errors.New("connection refused")}
			}
			return verdict{}
		})
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := c.Acquire(short, "other"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v", err)
		}
		<-l.Done()
		f.set(nil)
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
		synctest.Wait()
		for _, m := range []string{"acquired", "lease lost", "renewal failed, lease still trusted", "acquire failed, trying again", "client closed with a lease held; releasing it"} {
			if len(h.lines(m)) == 0 {
				t.Errorf("nothing was logged as %q", m)
			}
		}
	})
}

// TestCloseWaitsForTheLog: what was logged before Close returns has reached the
// handler; one that takes no record ends the wait with ctx.
func TestCloseWaitsForTheLog(t *testing.T) {
	for _, each := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := &logged{on: func(context.Context, slog.Record) { time.Sleep(each) }}
			f := newFaultStore()
			c := newClient(t, f, logTo(h))
			for i := range 30 {
				acquire(t, c, fmt.Sprint("k", i))
			}
			if err := c.Close(context.Background()); err != nil {
				t.Errorf("Close = %v", err)
			}
			lines, more := h.lines("client closed with a lease held; releasing it"), h.sum("client closed with more leases held; releasing them", "n")
			if len(lines) != 20 || more != 10 {
				t.Errorf("%d lines, and a sum of %d, reached the handler before Close returned, want 20 and 10", len(lines), more)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		h := &logged{on: func(context.Context, slog.Record) { <-open }}
		f := newFaultStore()
		c := newClient(t, f, logTo(h))
		acquire(t, c, "k")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close = %v: every lease was released", err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("Close waited for %v with a ctx of a second", d)
		}
		close(open)
		synctest.Wait()
		if n := h.count(); n != 1 {
			t.Errorf("%d records reached the handler in the end, want 1", n)
		}
	})
}

// TestLogQueueIsBounded: a handler that takes nothing costs memory for so many records
// only; it is told how many it did not get, and steps make room for warnings.
func TestLogQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cycles = 5000
		open := make(chan struct{})
		h := &logged{least: slog.LevelDebug, on: func(context.Context, slog.Record) { <-open }}
		f := newFaultStore()
		c := newClient(t, f, logTo(h))
		ctx := context.Background()
		for range cycles {
			acquire(t, c, "k").Release(ctx)
		}
		lost := acquire(t, c, "lost", rowlock.NoRenew())
		<-lost.Done()
		close(open)
		synctest.Wait()
		steps := len(h.lines("acquired")) + len(h.lines("released"))
		dropped := h.sum("log records were dropped: the handler took them too slowly", "n")
		if steps >= 2*cycles || steps+dropped < 2*cycles {
			t.Errorf("%d of %d steps logged, %d records dropped", steps, 2*cycles, dropped)
		}
		if len(h.lines("lease lost")) != 1 {
			t.Error("the loss was dropped among steps")
		}
	})
}

// TestLogOfAnOutage: the database is away for four seconds. That is a line of each kind when it begins,
// not one for each lease and try, and one that says how it ended.
func TestLogOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, waiting = 100, 50
		h := &logged{}
		f := newFaultStore()
		c := newClient(t, f, logTo(h, rowlock.Options{TTL: 9 * time.Second}))
		for i := range leases {
			acquire(t, c, fmt.Sprint("k", i))
		}
		ctx := context.Background()
		time.Sleep(10 * time.Second)
		var wg sync.WaitGroup
		f.set(func(call) verdict { return verdict{err: errors.New("connection refused"), slow: time.Millisecond} })
		for i := range waiting {
			wg.Go(func() {
				l, err := c.Acquire(ctx, fmt.Sprint("w", i))
				if err != nil {
					t.Error(err)
					return
				}
				l.Release(ctx)
			})
		}
		time.Sleep(4 * time.Second)
		f.set(nil)
		wg.Wait()
		time.Sleep(5 * time.Second)
		for message, least := range map[string]int{
			"renewal failed, lease still trusted":                                 leases,
			"acquire failed, trying again":                                        waiting,
			"outcome of an acquire is unknown; undoing it":                        waiting,
			"a hold could not be undone yet; trying again":                        waiting,
			"renewals are acknowledged again":                                     leases,
			"acquires are answered again":                                         waiting,
			"holds can be undone again":                                           waiting,
			"lease lost":                                                          0,
			"releases are answered again":                                         0,
			"release not answered; repeating it":                                  0,
			"the stream for Observe ended; asking once a second until it is back": 0,
		} {
			lines := h.lines(message)
			if want := min(least, 1); len(lines) != want {
				t.Errorf("%q: %d lines in an outage of 4 s, want %d", message, len(lines), want)
			}
			if n := h.sum(message, "n"); strings.Contains(message, "again") && !strings.Contains(message, "trying") && n < least {
				t.Errorf("%q: the line counts %d, want at least %d: %v", message, n, least, lines)
			}
		}
		if n := h.count(); n > 10 {
			t.Errorf("%d lines in all", n)
		}
	})
}

// TestLogDoesNotFlap: the renewals of one lease fail while those of others work. That is
// no end of the failure.
func TestLogDoesNotFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &logged{}
		f := newFaultStore()
		fails := failRenewals(func(key string, _ int) bool { return key == "bad" })
		f.set(func(c call) verdict {
			v := fails(c)
			if c.op == "renew" && c.keys[0] == "bad" {
				v.slow = 2500 * time.Millisecond
			}
			return v
		})
		c := newClient(t, f, logTo(h))
		bad := acquire(t, c, "bad")
		for i := range 20 {
			acquire(t, c, fmt.Sprint("k", i), rowlock.TTL(3*time.Second))
		}
		<-bad.Done()
		time.Sleep(5 * time.Second)
		warned, over := h.lines("renewal failed, lease still trusted"), h.lines("renewals are acknowledged again")
		if len(warned) == 0 || len(warned) > 30 || len(over) != 1 {
			t.Errorf("%d warnings, %d ends", len(warned), len(over))
		}
		for _, line := range warned {
			if !strings.Contains(line, " n=1 ") {
				t.Errorf("one lease fails, the line counts others: %s", line)
			}
		}
	})
}

// TestLogOfManyLosses: the first losses have a line each, the others are added up.
func TestLogOfManyLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 1000
		h := &logged{}
		f := newFaultStore()
		c := newClient(t, f, logTo(h))
		for i := range leases {
			acquire(t, c, fmt.Sprint("k", i), rowlock.NoRenew())
		}
		time.Sleep(time.Minute)
		lines := h.lines("lease lost")
		if len(lines) != 20 {
			t.Errorf("%d losses have a line, want 20", len(lines))
		}
		if n := h.sum("more leases lost", "n"); n != leases-len(lines) {
			t.Errorf("the sum is %d, want %d: %v", n, leases-len(lines), h.lines("more leases lost"))
		}
		acquire(t, c, "later", rowlock.NoRenew())
		time.Sleep(time.Minute)
		if n := len(h.lines("lease lost")); n != 21 {
			t.Errorf("a later loss has no line of its own")
		}
	})
}

// TestLogHasTheCallersContext: what is logged of a call has the context of the call, so
// that it joins the caller's trace.
func TestLogHasTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &logged{least: slog.LevelDebug}
		f := newFaultStore()
		c := newClient(t, f, logTo(h))
		traced := func(s string) context.Context { return context.WithValue(context.Background(), traceID{}, s) }
		f.set(func(c call) verdict {
			if c.op == "acquire" && c.n == 0 || c.op == "release" && c.n == 0 {
				return verdict{err: errors.New("connection reset")}
			}
			return verdict{}
		})
		l, err := c.Acquire(traced("acquire"), "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		l.Release(traced("release"))
		l, err = c.TryAcquire(traced("acquire"), "k2")
		if err != nil {
			t.Fatal(err)
		}
		f.set(func(c call) verdict {
			if c.op == "release" && c.keys[0] == "k2" && c.n < 100 {
				return verdict{hang: c.n == 0, err: errors.New("reset")}
			}
			return verdict{}
		})
		l.Release(traced("release"))
		l, err = c.TryAcquire(traced("acquire"), "k3")
		if err != nil {
			t.Fatal(err)
		}
		f.set(on("release", verdict{err: errDenied}))
		l.Release(traced("release"))
		f.set(nil)
		time.Sleep(time.Minute)
		want := map[string]string{
			"acquired": "acquire", "outcome of an acquire is unknown; undoing it": "acquire", "acquire failed, trying again": "acquire",
			"released": "release", "release not answered; repeating it": "release", refusal: "release",
			"a hold could not be undone yet; trying again": "acquire or release", "hold undone": "acquire or release",
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		seen := make(map[string]bool)
		for i, r := range h.records {
			if w, ok := want[r.Message]; ok {
				seen[r.Message] = true
				if trace, ok := h.traces[i].(string); !ok || !strings.Contains(w, trace) {
					t.Errorf("%q has the trace %v, want %q", r.Message, h.traces[i], w)
				}
			}
		}
		if len(seen) != len(want) {
			t.Errorf("seen only %v", seen)
		}
	})
}
