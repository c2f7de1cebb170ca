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
	"github.com/rowlock/rowlock/memory"
)

// TestObserverOfDo: what an observer is told of one Do, in which order, and with which contexts.
func TestObserverOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(audit)
		o := observed(a)
		o.Name, o.KeyName = "jobs", rowlock.UpTo("/")
		c, err := rowlock.New(newFaultStore(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		err = rowlock.Do(ctx, c, "import/42", func(ctx context.Context, l *rowlock.Lease) error {
			if ctx.Value(spanKey("hold")) != "hold of import/42" || ctx.Value(spanKey("acquire")) != nil {
				t.Errorf("the function's context has %v and %v", ctx.Value(spanKey("hold")), ctx.Value(spanKey("acquire")))
			}
			time.Sleep(25 * time.Second)
			cancel()
			return nil
		}, rowlock.TTL(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		a.want(t, []string{""},
			"client start jobs",
			"acquire start import/42",
			"acquire end import/42 (acquire of import/42)",
			"hold start import/42 (<nil>)",
			"called acquire", "called renew", "renewed import/42", "called renew", "renewed import/42", "called release",
			"lease end import/42 (acquire of import/42, hold of import/42, <nil>)",
			"client end jobs",
		)
		start, end, lease, renewed := a.starts[0], a.acquires[0], a.leases[0], a.renewals[1]
		if want := (rowlock.AcquireStart{Client: "jobs", Key: "import/42", Name: "import", TTL: 30 * time.Second}); start != want {
			t.Errorf("started %+v, want %+v", start, want)
		}
		if end.Client != "jobs" || end.Name != "import" || end.Lease.Token() != lease.Token || end.Err != nil || end.Local || end.Attempts != 1 || end.Ahead != 0 {
			t.Errorf("acquired %+v", end)
		}
		if lease.Client != "jobs" || lease.Name != "import" || lease.Held != 25*time.Second || lease.Err != nil || lease.Renewals != 2 || lease.Least != 17*time.Second || lease.Late {
			t.Errorf("ended %+v", lease)
		}
		if renewed.Left != 17*time.Second || renewed.Trust != 27*time.Second || renewed.TTL != 30*time.Second || renewed.Err != nil || renewed.Token != lease.Token {
			t.Errorf("renewed %+v", renewed)
		}
		if used := renewed.TrustUsed(); used < 0.37 || used > 0.38 {
			t.Errorf("%.3f of the trust was used, want 0.37", used)
		}
	})
}

// TestObserverOfErrors: an acquire that fails has an end with the error that its caller gets; one whose
// arguments are bad is not told of, nor is a view.
func TestObserverOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		a, f := new(audit), newFaultStore()
		c := newClient(t, f, observed(a))
		if _, err := c.Acquire(ctx, ""); !errors.Is(err, rowlock.ErrInvalid) {
			t.Error(err)
		}
		l := acquire(t, c, "k")
		if _, err := c.Acquire(l.Context(ctx), "k"); !errors.Is(err, rowlock.ErrSelfDeadlock) {
			t.Error(err)
		}
		view, err := c.Acquire(l.Context(ctx), "k", rowlock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		view.Release(ctx)
		_, held := newClient(t, f.Store, observed(a)).TryAcquire(ctx, "k")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, late := c.Acquire(short, "k")
		lasting := &driver.Error{Lasting: true, Err: errors.New("access denied")}
		f.set(on("acquire", verdict{err: lasting}))
		_, denied := c.Acquire(ctx, "other")
		l.Release(ctx)
		a.want(t, []string{"acquire", "lease"},
			"acquire start k", "acquire end k (acquire of k)",
			"acquire start k", "acquire end k (acquire of k)",
			"acquire start k", "acquire end k (acquire of k)",
			"acquire start other", "acquire end other (acquire of other)",
			"lease end k (acquire of k, <nil>, <nil>)",
		)
		for i, want := range []error{held, late, denied} {
			if got := a.acquires[i+1]; got.Err != want || got.Lease != nil {
				t.Errorf("end %d: %v and %v, want %v", i, got.Err, got.Lease, want)
			}
		}
		if !a.starts[1].Try || a.starts[2].Try || a.acquires[2].Waited != time.Second {
			t.Errorf("%+v, %+v", a.starts, a.acquires[2])
		}
	})
}

// TestObserverOfLosses: each loss is told once, with its reason, also one that comes out at the release only.
func TestObserverOfLosses(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		want rowlock.Reason
		lose func(t *testing.T, f *faultStore, c *rowlock.Client)
		opts []rowlock.Option
	}{
		{rowlock.ReasonExpired, func(_ *testing.T, f *faultStore, _ *rowlock.Client) {
			f.set(on("renew", verdict{hang: true}))
			time.Sleep(time.Minute)
		}, nil},
		{rowlock.ReasonForced, func(_ *testing.T, f *faultStore, _ *rowlock.Client) {
			f.Store.ForceRelease(ctx, "k")
			time.Sleep(time.Minute)
		}, nil},
		{rowlock.ReasonTaken, func(t *testing.T, f *faultStore, _ *rowlock.Client) {
			f.Store.ForceRelease(ctx, "k")
			acquire(t, newClient(t, f.Store), "k")
			time.Sleep(time.Minute)
		}, nil},
		{rowlock.ReasonMaxHold, func(*testing.T, *faultStore, *rowlock.Client) { time.Sleep(2 * time.Minute) }, []rowlock.Option{rowlock.MaxHold(time.Minute)}},
		{rowlock.ReasonClosed, func(t *testing.T, _ *faultStore, c *rowlock.Client) {
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		}, nil},
	} {
		t.Run(string(c.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, f := new(audit), newFaultStore()
				client := newClient(t, f, observed(a))
				l := acquire(t, client, "k", c.opts...)
				c.lose(t, f, client)
				<-l.Done()
				l.Release(ctx)
				l.Release(ctx)
				ended := a.ended()
				if len(ended) != 1 || reason(ended[0].Err) != c.want || ended[0].Err != l.Err() {
					t.Errorf("told of %+v, want one %s", ended, c.want)
				}
			})
		})
	}
	for name, o := range map[string]rowlock.Options{"at the release": {}, "at the release, which nobody waits for": {ReleaseAsync: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, f := new(audit), newFaultStore()
				o.Observers = observed(a).Observers
				l := acquire(t, newClient(t, f, o), "k")
				f.Store.ForceRelease(ctx, "k")
				l.Release(ctx)
				if ended := a.ended(); len(ended) != 1 || reason(ended[0].Err) != rowlock.ReasonForced {
					t.Errorf("told of %+v", ended)
				}
			})
		})
	}
}

// TestObserverOfALateRelease: a release without an answer is told as late, when it is given up.
func TestObserverOfALateRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := new(audit), newFaultStore()
		l := acquire(t, newClient(t, f, observed(a)), "k")
		f.set(on("release", verdict{hang: true}))
		time.Sleep(time.Second)
		l.Release(context.Background())
		ended := a.ended()
		if len(ended) != 1 || ended[0].Err != nil || !ended[0].Late || ended[0].Held != time.Second {
			t.Errorf("told of %+v", ended)
		}
	})
}

// TestObserverOfFailedRenewals: each failure is told with its cause, a loss with the lease's error.
func TestObserverOfFailedRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := new(audit), newFaultStore()
		c := newClient(t, f, observed(a))
		refused := errors.New("connection refused")
		f.set(func(c call) verdict {
			if c.op == "renew" && c.n == 0 {
				return verdict{err: refused}
			}
			return verdict{}
		})
		l := acquire(t, c, "k")
		time.Sleep(15 * time.Second)
		f.Store.ForceRelease(context.Background(), "k")
		<-l.Done()
		a.got()
		if len(a.renewals) != 3 {
			t.Fatalf("%d renewals were told: %+v", len(a.renewals), a.renewals)
		}
		failed, again, lost := a.renewals[0], a.renewals[1], a.renewals[2]
		if !errors.Is(failed.Err, refused) || again.Err != nil || !errors.Is(lost.Err, rowlock.ErrLost) {
			t.Errorf("%v, %v, %v", failed.Err, again.Err, lost.Err)
		}
		if again.Left >= failed.Left || again.TrustUsed() <= failed.TrustUsed() {
			t.Errorf("left %v, then %v", failed.Left, again.Left)
		}
		if ended := a.ended(); len(ended) != 1 || ended[0].Renewals != 1 || ended[0].Least != again.Left {
			t.Errorf("%+v", ended)
		}
	})
}

// TestObserverOfLocalCallers: a lease that was handed off or joined is local, without an attempt; each has one end.
func TestObserverOfLocalCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(audit)
		o := observed(a)
		o.Handoff = time.Minute
		c := newClient(t, memory.New(), o)
		x, y := two(t, c, 2*time.Second, nil, nil)
		y.Release(context.Background())
		if len(a.acquires) != 2 || a.acquires[0].Local || !a.acquires[1].Local || a.acquires[1].Waited != 2*time.Second {
			t.Errorf("%+v", a.acquires)
		}
		if ended := a.ended(); len(ended) != 2 || ended[0].Token != x.Token() || ended[1].Token != y.Token() || ended[0].Held != 2*time.Second || ended[1].Err != nil {
			t.Errorf("%+v", ended)
		}
		r1, r2 := acquire(t, c, "r", rowlock.Shared()), acquire(t, c, "r", rowlock.Shared())
		if got := a.acquires[3]; !got.Local || got.Attempts != 0 {
			t.Errorf("a reader beside another: %+v", got)
		}
		time.Sleep(11 * time.Second)
		r1.Release(context.Background())
		r2.Release(context.Background())
		if ended := a.ended(); len(ended) != 4 || ended[2].Renewals != 1 || ended[3].Renewals != 1 {
			t.Errorf("%+v", ended)
		}
		if n := len(a.renewals); n != 2 {
			t.Errorf("%d renewals of two leases on one hold were told, want 2", n)
		}
	})
}

// TestObserverOfWaiters: how many waited before, and how many attempts it took.
func TestObserverOfWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := new(audit), newFaultStore()
		c := newClient(t, f, observed(a))
		other := acquire(t, newClient(t, f.Store), "k")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { acquire(t, c, "k").Release(context.Background()) })
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		other.Release(context.Background())
		wg.Wait()
		var ahead []int
		for _, e := range a.acquires {
			ahead = append(ahead, e.Ahead)
		}
		if !slices.Equal(ahead, []int{0, 1, 2}) || a.acquires[0].Attempts < 2 {
			t.Errorf("ahead %v, attempts %d", ahead, a.acquires[0].Attempts)
		}
	})
}

// TestObserverOfGroups: AcquireAll is an acquire of each key; one that fails has an end for each.
func TestObserverOfGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		a, f := new(audit), newFaultStore()
		c := newClient(t, f, observed(a))
		g, err := c.AcquireAll(ctx, rowlock.Keys("b", "a"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newClient(t, f.Store, observed(a)).TryAcquireAll(ctx, rowlock.Keys("a", "c")); !errors.Is(err, rowlock.ErrHeld) {
			t.Fatal(err)
		}
		g.Release(ctx)
		a.want(t, []string{"acquire", "lease"},
			"acquire start a", "acquire start b", "acquire end a (acquire of a)", "acquire end b (acquire of b)",
			"acquire start a", "acquire start c", "acquire end a (acquire of a)", "acquire end c (acquire of c)",
			"lease end b (acquire of b, <nil>, <nil>)", "lease end a (acquire of a, <nil>, <nil>)",
		)
		for i, e := range a.acquires {
			if failed := i >= 2; failed != errors.Is(e.Err, rowlock.ErrHeld) || failed != (e.Lease == nil) {
				t.Errorf("end %d: %+v", i, e)
			}
		}
	})
}

// TestObserverOfCalls: every call of the store has its op, with its keys and its error.
func TestObserverOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		a, f := new(audit), newFaultStore()
		o := observed(a)
		o.ReapInterval = time.Minute
		c := newClient(t, f, o)
		l := acquire(t, c, "k")
		c.Inspect(ctx, "k")
		c.List(ctx, "", "", 10)
		c.ForceRelease(ctx, "none")
		fair, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		newClient(t, f.Store, observed(a)).Acquire(fair, "k", rowlock.Fair())
		f.set(on("acquire", verdict{hang: true}))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		c.Acquire(short, "hangs") // is undone
		time.Sleep(2 * time.Minute)
		l.Release(ctx)
		a.got()
		seen := map[string]int{}
		for _, e := range a.calls {
			if !slices.Contains(rowlock.Ops(), e.Op) {
				t.Errorf("op %q is none of Ops", e.Op)
			}
			seen[e.Op]++
			if (e.Err != nil) != (e.Op == "acquire" && e.Took > 20*time.Second) || e.Keys != 1 && e.Op != "reap" {
				t.Errorf("%+v", e)
			}
		}
		for _, op := range rowlock.Ops() {
			if seen[op] == 0 && op != "wait" { // of a store with a queue
				t.Errorf("no call %q in %v", op, seen)
			}
		}
		if len(a.reaped) == 0 || a.reaped[0].Err != nil {
			t.Errorf("reaped %+v", a.reaped)
		}
	})
}

// TestObserverThatBlocks: one that does not return from LeaseEnd delays no caller, no renewal and no other lease; what
// it does not take is dropped and counted, ends of leases last, and Close gives up on it.
func TestObserverThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		free := make(chan struct{})
		a := &audit{on: func(what string) {
			if strings.HasPrefix(what, "lease end") {
				<-free
			}
		}}
		c, err := rowlock.New(newFaultStore(), observed(a))
		if err != nil {
			t.Fatal(err)
		}
		kept := acquire(t, c, "kept")
		acquire(t, c, "first").Release(ctx)
		time.Sleep(time.Minute)
		start := time.Now()
		const n = 1200 // each is two calls and an end of a lease
		for i := range n {
			acquire(t, c, fmt.Sprint("k", i)).Release(ctx)
		}
		if time.Since(start) != 0 || kept.Err() != nil {
			t.Errorf("%v for %d cycles; %v", time.Since(start), n, kept.Err())
		}
		if d := c.Stats().DroppedEvents; d == 0 {
			t.Error("nothing was dropped")
		}
		kept.Release(ctx)
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("Close waited for the observer: %v", took)
		}
		close(free)
		ended := a.ended()
		if d := c.Stats().DroppedEvents; len(ended)+len(a.calls)+len(a.renewals)+int(d) < 3*n {
			t.Errorf("%d ends, %d calls, %d dropped of %d", len(ended), len(a.calls), d, 3*n)
		}
		if len(ended) < 900 { // a third of the room that all have, and what is left for them alone
			t.Errorf("%d ends of leases were told: calls took their room", len(ended))
		}
	})
}

// TestObserverThatPanics: whichever function panics, the call goes on, the observer is told nothing more, the next one all, and
// the log has one line.
func TestObserverThatPanics(t *testing.T) {
	for _, in := range []string{"client start", "acquire start", "acquire end", "hold start", "lease end", "renewed", "called", "reaped"} {
		t.Run(in, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := new(logged)
				bad, good := new(audit), new(audit)
				bad.on = func(what string) {
					if strings.HasPrefix(what, in) {
						panic("broken " + in)
					}
				}
				o := observed(bad, good)
				o.ReapInterval = 10 * time.Second
				c := newClient(t, memory.New(), logTo(h, o))
				for range 2 {
					err := rowlock.Do(context.Background(), c, "k", func(context.Context, *rowlock.Lease) error {
						time.Sleep(time.Minute)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
				if n := len(bad.got(in)); n != 1 {
					t.Errorf("told %d times after a panic", n-1)
				}
				if n := len(good.got(in)); in != "client start" && n < 2 {
					t.Errorf("the other observer was told %d times", n)
				}
				lines := h.lines("an observer panicked and is switched off")
				if len(lines) != 1 || !strings.Contains(lines[0], "observer=1 panic=broken "+in) {
					t.Errorf("logged %q", lines)
				}
			})
		})
	}
}

// TestObserverThatBlocksACaller: AcquireStart, AcquireEnd and HoldStart run in the caller's goroutine: others go on.
func TestObserverThatBlocksACaller(t *testing.T) {
	for _, in := range []string{"acquire start", "acquire end", "hold start"} {
		t.Run(in, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				free := make(chan struct{})
				a := &audit{on: func(what string) {
					if strings.HasPrefix(what, in+" slow") {
						<-free
					}
				}}
				c := newClient(t, memory.New(), observed(a))
				run := func(key string) {
					if err := rowlock.Do(ctx, c, key, func(context.Context, *rowlock.Lease) error { return nil }); err != nil {
						t.Error(err)
					}
				}
				done := make(chan struct{})
				go func() { run("slow"); close(done) }()
				synctest.Wait()
				run("other")
				if n := len(a.got("lease end other")); n != 1 {
					t.Errorf("%d ends of the other lease", n)
				}
				time.Sleep(5 * time.Minute) // the lease of the slow one is renewed meanwhile
				close(free)
				<-done
				if ended := a.ended(); len(ended) != 2 || ended[1].Err != nil {
					t.Errorf("%+v", ended)
				}
			})
		})
	}
}

// TestHoldLostBeforeItsFunction: a lease that is lost while HoldStart runs has one end, with the context of the hold.
func TestHoldLostBeforeItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := new(audit), newFaultStore()
		f.set(on("renew", verdict{hang: true}))
		a.on = func(what string) {
			if strings.HasPrefix(what, "hold start") {
				time.Sleep(time.Minute)
			}
		}
		err := rowlock.Do(context.Background(), newClient(t, f, observed(a)), "k", func(context.Context, *rowlock.Lease) error { return nil })
		if !errors.Is(err, rowlock.ErrLost) {
			t.Error(err)
		}
		a.want(t, []string{"lease end"}, "lease end k (acquire of k, hold of k, <nil>)")
	})
}

// TestObserverContextInLog: what is logged of an acquire has the context of AcquireStart.
func TestObserverContextInLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, f := new(logged), newFaultStore()
		o := logTo(h, rowlock.Options{Observers: []*rowlock.Observer{{
			AcquireStart: func(ctx context.Context, _ rowlock.AcquireStart) context.Context {
				return context.WithValue(ctx, traceID{}, "trace 7")
			},
		}}})
		o.Name = "jobs"
		f.set(func(c call) verdict {
			if c.op == "acquire" && c.n == 0 {
				return verdict{err: &driver.Error{NotApplied: true, Err: errors.New("connection refused")}}
			}
			return verdict{}
		})
		acquire(t, newClient(t, f, o), "k")
		time.Sleep(5 * time.Second)
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.traces) == 0 || h.traces[0] != "trace 7" {
			t.Errorf("the lines have the traces %v", h.traces)
		}
	})
}

// TestKeyNameThatPanics: it is switched off; keys have no names then.
func TestKeyNameThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, h := new(audit), new(logged)
		o := logTo(h, observed(a))
		o.KeyName = func(string) string { panic("no names") }
		c := newClient(t, memory.New(), o)
		acquire(t, c, "a").Release(context.Background())
		acquire(t, c, "b").Release(context.Background())
		if ended := a.ended(); len(ended) != 2 || ended[0].Name != "" {
			t.Errorf("%+v", ended)
		}
		if n := len(h.lines("KeyName panicked and is switched off")); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}

// TestLeasesAndWaits: what a client has and waits for, the oldest first.
func TestLeasesAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		o := rowlock.Options{Name: "jobs", KeyName: rowlock.UpTo("/")}
		f := newFaultStore()
		c := newClient(t, f, o)
		old := acquire(t, c, "import/1", rowlock.Owner("nightly"))
		time.Sleep(25 * time.Second)
		acquire(t, c, "s", rowlock.Slots(3))
		acquire(t, newClient(t, f.Store), "busy")
		waiting, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for _, key := range []string{"import/1", "busy"} {
			wg.Go(func() { c.Acquire(waiting, key) })
			time.Sleep(time.Second)
		}
		leases, waits := c.Leases(), c.Waits()
		if len(leases) != 2 || len(waits) != 2 || len(leases) != c.Stats().Held || len(waits) != c.Stats().Waiting {
			t.Fatalf("%+v, %+v, %+v", leases, waits, c.Stats())
		}
		first := leases[0]
		want := rowlock.Held{
			Key: "import/1", Name: "import", Token: old.Token(), Mode: driver.Exclusive, Slot: -1, Owner: "nightly",
			Since: time.Now().Add(-27 * time.Second), For: 27 * time.Second, TTL: 30 * time.Second,
			Left: 20 * time.Second, Trust: 27 * time.Second, Renewed: time.Now().Add(-7 * time.Second),
		}
		if !first.Since.Equal(want.Since) || !first.Renewed.Equal(want.Renewed) {
			t.Errorf("since %v and renewed at %v, want %v and %v", first.Since, first.Renewed, want.Since, want.Renewed)
		}
		first.Since, first.Renewed = want.Since, want.Renewed
		if first != want {
			t.Errorf("%+v, want %+v", first, want)
		}
		if s := leases[1]; s.Key != "s" || s.Slot != 0 || s.Mode != driver.Slot || s.For != 2*time.Second {
			t.Errorf("%+v", s)
		}
		if w := waits[0]; w.Key != "import/1" || w.Name != "import" || w.For != 2*time.Second || w.Mode != driver.Exclusive {
			t.Errorf("%+v", w)
		}
		if w := waits[1]; w.Key != "busy" || w.For != time.Second || !errors.Is(w.Err, rowlock.ErrHeld) {
			t.Errorf("%+v", w)
		}
		cancel()
		wg.Wait()
		old.Release(ctx)
		if leases, waits := c.Leases(), c.Waits(); len(leases) != 1 || len(waits) != 0 {
			t.Errorf("afterwards %+v, %+v", leases, waits)
		}
	})
	var none *rowlock.Client
	if none.Leases() != nil || none.Waits() != nil || none.Name() != "" {
		t.Error("a nil Client has leases")
	}
}

// TestObserverOptions: what is wrong with them is said by New.
func TestObserverOptions(t *testing.T) {
	o := new(rowlock.Observer)
	for text, options := range map[string]rowlock.Options{
		"observer 2 of 2 is nil":         {Observers: []*rowlock.Observer{o, nil}},
		"observers 1 and 2 are the same": {Observers: []*rowlock.Observer{o, o}},
		"the Name has 300 bytes":         {Name: strings.Repeat("n", 300)},
	} {
		if _, err := rowlock.New(memory.New(), options); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}

// TestUpTo: the part before the separator.
func TestUpTo(t *testing.T) {
	for key, want := range map[string]string{"import/42": "import", "report": "report", "": "", "/x": ""} {
		if got := rowlock.UpTo("/")(key); got != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
	}
}
