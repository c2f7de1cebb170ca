package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// TestP2_SignalBeforeTheNextGrant: whatever happens to the renewals, the moment
// at which another client gets the key finds Err set and Done closed, and not
// earlier than the trust allows.
func TestP2_SignalBeforeTheNextGrant(t *testing.T) {
	broken := errors.New("connection refused")
	for name, v := range map[string]verdict{
		"hang":               {hang: true},
		"hang, applied once": {hang: true, apply: true},
		"fail":               {err: broken},
		"slower than TTL":    {slow: 2 * time.Minute},
		"delayed":            {delay: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				holder := newClient(t, f)
				other := newClient(t, f.Store, rowlock.Options{})
				start := time.Now()
				l := acquire(t, holder, "k")
				f.set(func(c call) verdict {
					if c.op == "renew" && (c.n == 0 || v.hang == false || !v.apply) {
						return v
					}
					if c.op == "renew" {
						return verdict{hang: true}
					}
					return verdict{}
				})
				next := acquire(t, other, "k") // as soon as the database lets it
				if l.Err() == nil {
					t.Error("Err is nil although another holds the key")
				}
				select {
				case <-l.Done():
				default:
					t.Error("Done is open although another holds the key")
				}
				if got := reason(l.Err()); got != rowlock.ReasonExpired {
					t.Errorf("reason %q", got)
				}
				if held := time.Since(start); held < 30*time.Second {
					t.Errorf("the key was free after %v, before its TTL", held)
				}
				if next.Token() <= l.Token() {
					t.Error("token went back")
				}
				f.set(nil)
				next.Release(context.Background())
			})
		})
	}
}

// TestP2_TrustCountsFromTheStart: a renewal whose reply was slow extends trust
// from its start, not from the reply.
func TestP2_TrustCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		start := time.Now()
		f.set(func(call call) verdict {
			switch {
			case call.op == "renew" && call.n == 0:
				return verdict{slow: 4 * time.Second}
			case call.op == "renew":
				return verdict{hang: true}
			}
			return verdict{}
		})
		l := acquire(t, c, "k")
		<-l.Done()
		if got, want := time.Since(start), 10*time.Second+27*time.Second; got != want {
			t.Errorf("trusted for %v, want %v: renewal at 10s + TTL - margin", got, want)
		}
	})
}

// TestP2_FrozenProcess: after standing still, the first look at Err knows, before
// any timer has run.
func TestP2_FrozenProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		ctx := l.Context(context.Background())
		f.freeze(31 * time.Second)
		if err := ctx.Err(); err == nil {
			t.Error("the lease's context does not know")
		}
		if !errors.Is(context.Cause(ctx), rowlock.ErrLost) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if got := reason(l.Err()); got != rowlock.ReasonExpired {
			t.Errorf("Err %v", l.Err())
		}
		l = acquire(t, newClient(t, memory.New(), rowlock.Options{}), "k")
		if l.Err() != nil {
			t.Error("a lease of another store was hit")
		}
	})
}

// TestP2_DoneWithoutALook: Done closes although nobody asks, at most a second (or
// half a margin) after the process runs again.
func TestP2_DoneWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		synctest.Wait() // the client sleeps until the renewal
		f.freeze(time.Hour)
		start := time.Now()
		<-l.Done()
		if d := time.Since(start); d > time.Second {
			t.Errorf("Done closed %v after the freeze", d)
		}
	})
}

// TestP2_NoRevival: a renewal that is acknowledged after the trust deadline does
// not bring the lease back, and the hold it extended is taken back.
func TestP2_NoRevival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k", rowlock.NoRenew())
		f.set(on("renew", verdict{slow: 29 * time.Second}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := l.Renew(ctx); !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("Renew = %v", err)
		}
		if !errors.Is(l.Err(), rowlock.ErrLost) {
			t.Errorf("Err = %v", l.Err())
		}
		f.set(nil)
		time.Sleep(4 * time.Second) // the margin passes before the undo
		if i, _ := c.Inspect(ctx, "k"); i.Held {
			t.Errorf("the lost hold stays: %+v", i)
		}
	})
}

// TestP2_AHangingRenewalDelaysNoOther: the signal of a lease with a short TTL comes
// in time while the batch of another hangs.
func TestP2_AHangingRenewalDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		f.set(on("renew", verdict{hang: true}))
		start := time.Now()
		slow := acquire(t, c, "slow", rowlock.TTL(time.Hour))
		fast := acquire(t, c, "fast", rowlock.TTL(time.Second))
		<-fast.Done()
		if d := time.Since(start); d != 900*time.Millisecond {
			t.Errorf("signal after %v", d)
		}
		if slow.Err() != nil {
			t.Error("the long lease is lost too")
		}
	})
}

// TestP2_AcknowledgedAfterAFreeze: the process stood still past the trust deadline
// while a renewal was on its way. Its acknowledgement does not bring the lease
// back, even if nobody had looked meanwhile.
func TestP2_AcknowledgedAfterAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		f.set(func(c call) verdict {
			if c.op == "renew" && c.n == 0 {
				f.freeze(18 * time.Second) // from 10s to 28s: past the deadline at 27s
			}
			return verdict{}
		})
		time.Sleep(12 * time.Second)
		if got := reason(l.Err()); got != rowlock.ReasonExpired {
			t.Errorf("Err = %v", l.Err())
		}
		f.set(nil)
	})
}

func TestReasonsOfALoss(t *testing.T) {
	ctx := context.Background()
	for want, cause := range map[rowlock.Reason]func(*faultStore, *rowlock.Client, *rowlock.Lease){
		rowlock.ReasonForced: func(f *faultStore, _ *rowlock.Client, _ *rowlock.Lease) { f.ForceRelease(ctx, "k") },
		rowlock.ReasonTaken:  func(f *faultStore, _ *rowlock.Client, _ *rowlock.Lease) { f.Expire("k") },
		rowlock.ReasonRemoved: func(f *faultStore, _ *rowlock.Client, _ *rowlock.Lease) {
			f.ForceRelease(ctx, "k")
			time.Sleep(time.Millisecond)
			f.Reap(ctx, 0)
		},
		rowlock.ReasonExpired: func(f *faultStore, _ *rowlock.Client, _ *rowlock.Lease) { f.set(on("renew", verdict{hang: true})) },
		rowlock.ReasonMaxHold: func(*faultStore, *rowlock.Client, *rowlock.Lease) {},
		rowlock.ReasonClosed:  func(_ *faultStore, c *rowlock.Client, _ *rowlock.Lease) { c.Close(ctx) },
	} {
		t.Run(string(want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				l := acquire(t, c, "k", rowlock.MaxHold(time.Minute))
				held := l.Context(ctx)
				cause(f, c, l)
				<-held.Done()
				if got := reason(l.Err()); got != want {
					t.Errorf("reason %q, want %q (%v)", got, want, l.Err())
				}
				if !errors.Is(context.Cause(held), rowlock.ErrLost) {
					t.Errorf("cause of the context: %v", context.Cause(held))
				}
				if err := l.Release(ctx); reason(err) != want {
					t.Errorf("Release = %v", err)
				}
				synctest.Wait() // the renewer counts after it has told
				if s := c.Stats(); s.Losses != 1 || s.Held != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// TestMaxHold: the hold ends MaxHold after the grant, on both sides, however often
// it was renewed.
func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		a, b := newClient(t, f), newClient(t, f.Store, rowlock.Options{})
		start := time.Now()
		l := acquire(t, a, "k", rowlock.MaxHold(70*time.Second))
		<-l.Done()
		if d := time.Since(start); d != 67*time.Second {
			t.Errorf("trusted for %v, want MaxHold - margin", d)
		}
		acquire(t, b, "k").Release(context.Background())
		if d := time.Since(start); d > 71*time.Second {
			t.Errorf("free after %v", d)
		}
	})
}

func TestNoRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		start := time.Now()
		l := acquire(t, c, "k", rowlock.NoRenew())
		time.Sleep(20 * time.Second)
		if err := l.Renew(context.Background()); err != nil {
			t.Fatal(err)
		}
		<-l.Done()
		if d := time.Since(start); d != 47*time.Second {
			t.Errorf("held for %v, want 20s + TTL - margin", d)
		}
		if n := len(f.seen("renew")); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
}

// TestRenewalsAreBatched: leases of one TTL share statements, whenever they were
// taken.
func TestRenewalsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		var leases []*rowlock.Lease
		for i := range 900 {
			leases = append(leases, acquire(t, c, fmt.Sprint("k", i)))
			time.Sleep(time.Millisecond)
		}
		acquire(t, c, "other", rowlock.TTL(5*time.Second))
		time.Sleep(time.Minute)
		long := 0
		for _, call := range f.seen("renew") {
			if len(call.keys) > 1 {
				long++
			}
		}
		if long < 5 || long > 8 {
			t.Errorf("%d batches in a minute at a TTL of 30s", long)
		}
		for _, l := range leases {
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
		}
		if s := c.Stats(); s.Renewals < 900*5 || s.Held != 901 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestPartOfABatchIsLost: the answers of a batch hit their own leases.
func TestPartOfABatchIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		a, b, d := acquire(t, c, "a"), acquire(t, c, "b"), acquire(t, c, "c")
		f.ForceRelease(context.Background(), "b")
		time.Sleep(time.Minute)
		if a.Err() != nil || d.Err() != nil || reason(b.Err()) != rowlock.ReasonForced {
			t.Errorf("a: %v, b: %v, c: %v", a.Err(), b.Err(), d.Err())
		}
	})
}

// TestAStoreWithWrongAnswers: a store that breaks its contract loses no lease
// silently and panics nobody.
func TestAStoreWithWrongAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "k")
		f.set(func(call call) verdict {
			if call.op == "inspect" {
				return verdict{}
			}
			return verdict{answer: []driver.Result{{}, {}, {}}}
		})
		if err := l.Renew(context.Background()); err == nil || errors.Is(err, rowlock.ErrLost) {
			t.Errorf("Renew = %v", err)
		}
		if _, err := c.TryAcquire(context.Background(), "other"); err == nil {
			t.Error("TryAcquire = nil")
		}
		if err := l.Release(context.Background()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// TestLossNamesItsCause: where the store knows why a hold is gone the error has it.
func TestLossNamesItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := errors.New("its session has ended: bad connection")
		h := &logged{}
		f := newFaultStore()
		c := newClient(t, f, logTo(h))
		l := acquire(t, c, "k")
		f.set(on("renew", verdict{answer: []driver.Result{{Status: driver.Removed, Err: ended}}}))
		<-l.Done()
		if err := l.Err(); reason(err) != rowlock.ReasonRemoved || !errors.Is(err, ended) {
			t.Errorf("Err = %v", err)
		}
		synctest.Wait()
		if lines := h.lines("lease lost"); len(lines) != 1 || !strings.Contains(lines[0], ended.Error()) {
			t.Errorf("logged: %v", lines)
		}
	})
}
