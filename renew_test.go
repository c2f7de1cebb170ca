package rowlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// many takes n leases, with TTLs of 20, 25, … 40 s in turn if mixed.
func many(t *testing.T, c *rowlock.Client, n int, mixed bool) (leases []*rowlock.Lease, ttls []time.Duration) {
	t.Helper()
	for i := range n {
		ttl := 30 * time.Second
		if mixed {
			ttl = time.Duration(20+5*(i%5)) * time.Second
		}
		leases = append(leases, acquire(t, c, fmt.Sprint("k", i), rowlock.TTL(ttl)))
		ttls = append(ttls, ttl)
		time.Sleep(time.Millisecond) // they are taken over ten seconds
	}
	return leases, ttls
}

// TestTenThousandLeases: N5, at most 20 statements in a third of the TTL, however
// the leases were spread when they were taken.
func TestTenThousandLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient2(t, f)
		leases, _ := many(t, c, 10_000, false)
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
				c := newClient2(t, f)
				leases, _ := many(t, c, 2000, true)
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

// TestP2_TenThousandSignals: while the server hangs for good, each of many leases
// of different TTLs is told at its own trust deadline, not before and not after.
func TestP2_TenThousandSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient2(t, f)
		leases, ttls := many(t, c, 10_000, true)
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
