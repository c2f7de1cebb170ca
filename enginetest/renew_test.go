package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// TestTenThousandLeases: N5, at most 20 statements in a third of the TTL, however
// the leases were spread when they were taken.
func TestTenThousandLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		leases, _ := many(t, c, tenth(10_000), false)
		time.Sleep(time.Minute) // they gather
		before := len(f.seen("renew"))
		time.Sleep(10 * time.Minute)
		if n := len(f.seen("renew")) - before; n > 20*60 {
			t.Errorf("%d statements in 60 thirds of the TTL", n)
		}
		for _, l := range leases {
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
		}
	})
}

// TestAStallLosesNoLease: the server answers nothing for five seconds; no lease is
// lost, because each still has trust when it comes back.
func TestAStallLosesNoLease(t *testing.T) {
	for name, v := range map[string]func(left time.Duration) verdict{
		"late replies": func(left time.Duration) verdict { return verdict{slow: left} },
		"cut off":      func(time.Duration) verdict { return verdict{err: errors.New("connection lost")} },
		"no replies":   func(time.Duration) verdict { return verdict{hang: true} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c := newClient(t, f)
				leases, _ := many(t, c, tenth(2000), true)
				time.Sleep(time.Minute)
				over := time.Now().Add(5 * time.Second)
				f.set(func(call) verdict {
					if left := time.Until(over); left > 0 {
						return v(left)
					}
					return verdict{}
				})
				time.Sleep(2 * time.Minute)
				for _, l := range leases {
					if l.Err() != nil {
						t.Fatal(l.Err())
					}
				}
			})
		})
	}
}

// TestRenewalsTakeTurns: few renewals are under way, however many are due, so that
// few connections do.
func TestRenewalsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		many(t, c, 5000, true)
		const slow = 90 * time.Millisecond
		f.set(on("renew", verdict{slow: slow}))
		before := len(f.seen("renew"))
		time.Sleep(2 * time.Minute)
		calls := f.seen("renew")[before:]
		flights := f.Limits().InFlight
		for i := flights; i < len(calls); i++ {
			if apart := calls[i].at - calls[i-flights].at; apart < slow {
				t.Fatalf("renewal %d of %d left %v after the one %d before it, which took %v", i, len(calls), apart, flights, slow)
			}
		}
	})
}

// TestP15_StuckRenewals: renewals that get no answer delay the others by 100 ms, and
// a lease that has little time by nothing.
func TestP15_StuckRenewals(t *testing.T) {
	for _, with := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { stuckRenewals(t, with) })
	}
}

// stuckRenewals is its body. A lease that has little time may be among them: its renewals
// leave beside those that are stuck, and those that wait would leave after one of them.
func stuckRenewals(t *testing.T, withShort bool) {
	f := newFaultStore()
	c := newClient(t, f)
	leases, _ := many(t, c, 5000, false)
	var short *rowlock.Lease
	if withShort {
		short = acquire(t, c, "short", rowlock.TTL(400*time.Millisecond))
	}
	time.Sleep(time.Minute)
	var mu sync.Mutex
	sent := make(map[string]time.Duration)
	stuck := make(map[string]bool)
	var began time.Duration
	f.set(func(c call) verdict {
		if c.op != "renew" || len(c.keys) == 1 {
			return verdict{}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(sent) == 0 {
			began = c.at
		}
		hang := len(sent) < f.Limits().InFlight*f.Limits().Batch
		for _, key := range c.keys {
			if _, again := sent[key]; !again {
				sent[key], stuck[key] = c.at-began, hang
			}
		}
		return verdict{hang: hang}
	})
	time.Sleep(12 * time.Second)
	f.set(nil)
	for key, after := range sent {
		if !stuck[key] && after > 150*time.Millisecond {
			t.Fatalf("P15: the renewal of %q left %v after those that are stuck", key, after)
		}
	}
	if len(sent) != len(leases) {
		t.Errorf("%d of %d leases were renewed", len(sent), len(leases))
	}
	if withShort && short.Err() != nil {
		t.Errorf("P15: %v", short.Err())
	}
	time.Sleep(time.Minute)
	for _, l := range leases {
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
	}
}

// TestP2_TenThousandSignals: while the server hangs for good, each of many leases
// of different TTLs is told at its own trust deadline, not before and not after.
func TestP2_TenThousandSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		leases, ttls := many(t, c, tenth(10_000), true)
		time.Sleep(time.Minute)
		f.set(on("renew", verdict{hang: true}))
		hung := time.Now()
		late := make(chan string, len(leases))
		for i, l := range leases {
			go func() {
				<-l.Done()
				held := time.Since(hung)
				if held > ttls[i]-ttls[i]/10 || held < ttls[i]/2 || reason(l.Err()) != rowlock.ReasonExpired {
					late <- fmt.Sprintf("%v: TTL %v, signal %v after the server hung", l.Err(), ttls[i], held)
				} else {
					late <- ""
				}
			}()
		}
		for range leases {
			if s := <-late; s != "" {
				t.Fatal(s)
			}
		}
		f.set(nil)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestP26_PartOfABatchFails: of a batch of renewals some are acknowledged and some not.
// The former are good for a TTL; only the latter go again, soon, and for as long as
// they are trusted.
func TestP26_PartOfABatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, failing, tries = 1000, 10, 5
		f := newFaultStore()
		late := func(key string) bool {
			var n int
			_, err := fmt.Sscanf(key, "k%d", &n)
			return err == nil && n < failing
		}
		f.set(failRenewals(func(key string, n int) bool { return key == "never" || late(key) && n < tries }))
		c := newClient(t, f)
		var held []*rowlock.Lease
		for i := range leases {
			held = append(held, acquire(t, c, fmt.Sprint("k", i)))
		}
		never := acquire(t, c, "never")
		start := f.Store.Now()
		time.Sleep(2 * time.Minute)
		for _, l := range held {
			if l.Err() != nil {
				t.Error(l.Err())
			}
		}
		if reason(never.Err()) != rowlock.ReasonExpired {
			t.Errorf("a lease that was never renewed: %v", never.Err())
		}
		first := make(map[string][]time.Duration)
		for _, c := range f.seen("renew") {
			for _, k := range c.keys {
				first[k] = append(first[k], c.at-start)
			}
		}
		for k, at := range first {
			switch {
			case k == "never":
				if len(at) < 10 {
					t.Errorf("%d tries of a renewal that fails", len(at))
				}
			case late(k):
				if d := at[tries] - at[0]; d > tries*time.Second+time.Second {
					t.Errorf("%q was acknowledged only %v after its first try", k, d)
				}
			default:
				if most := 2 * 60 / 10 * 2; len(at) > most {
					t.Errorf("%q was renewed %d times in two minutes, want at most %d", k, len(at), most)
				}
			}
		}
	})
}

// TestP26_LeastTrustGoesFirst: of the batches that are due the one that ends first
// leaves first, also in a 32-bit program, where 2.7 s are more nanoseconds than an int
// has.
func TestP26_LeastTrustGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		f.limits = func(l *driver.Limits) { l.InFlight = 1 } // batches leave one after the other
		c := newClient(t, f)
		f.set(on("renew", verdict{slow: 10 * time.Millisecond}))
		for i := range 20 { // which batch is found first is up to a map
			late, early := acquire(t, c, fmt.Sprint("late", i)), acquire(t, c, fmt.Sprint("early", i), rowlock.TTL(27*time.Second))
			before := len(f.seen("renew"))
			time.Sleep(9*time.Second + time.Millisecond*100) // a third of 27 s; the other is taken along
			sent := f.seen("renew")[before:]
			if len(sent) != 2 || sent[0].keys[0] != early.Key() || sent[1].keys[0] != late.Key() {
				t.Fatalf("P26: renewals of %v, want that of the TTL of 27s and then that of 30s", sent)
			}
			late.Release(context.Background())
			early.Release(context.Background())
		}
	})
}
