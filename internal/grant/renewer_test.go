package grant

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

var errServer = errors.New("the server is gone")

// TestRenewals: at a third of the TTL; only an acknowledged one moves the deadline, counted
// from before it was sent.
func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		const slow = 2 * time.Second
		f.renew = func(driver.Hold) (driver.Result, error) {
			time.Sleep(slow)
			return driver.Result{Status: driver.Alive}, nil
		}
		g, l := f.add()
		wait(ttl/3 + slow - 1)
		if g.Deadline() != trust {
			t.Errorf("trusted until %v before the renewal was acknowledged", g.Deadline())
		}
		wait(1)
		synctest.Wait()
		if want := ttl/3 + trust; g.Deadline() != want || l.renews.Load() != 1 {
			t.Errorf("trusted until %v after it, want %v", g.Deadline(), want)
		}
		wait(ttl)
		if len(l.told()) != 0 || f.renewed.Load() != 4 {
			t.Errorf("%d renewals, ended %v", f.renewed.Load(), l.told())
		}
	})
}

// TestRenewalThatLeavesLess: what the store says is left counts, where that is less than the TTL; it never takes back
// what was trusted before.
func TestRenewalThatLeavesLess(t *testing.T) {
	const left = ttl - 5*time.Second
	for name, c := range map[string]struct{ left, want time.Duration }{
		"less than the TTL":    {left, ttl/3 + left - margin},
		"more than the TTL":    {2 * ttl, ttl/3 + trust},
		"not told":             {0, ttl/3 + trust},
		"less than is trusted": {ttl / 3, trust},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.renew = func(driver.Hold) (driver.Result, error) {
					return driver.Result{Status: driver.Alive, Left: c.left}, nil
				}
				g, _ := f.add()
				wait(ttl / 3)
				if f.renewed.Load() != 1 || g.Deadline() != c.want {
					t.Errorf("P2: trusted until %v after %d renewals, want %v", g.Deadline(), f.renewed.Load(), c.want)
				}
			})
		})
	}
}

// TestHeartbeats: where exclusive holds hang on sessions they are renewed each second; readers
// and slots, which hang on none, at a third of the TTL.
func TestHeartbeats(t *testing.T) {
	for mode, every := range map[driver.Mode]time.Duration{driver.Exclusive: time.Second, driver.Shared: ttl / 3, driver.Slot: ttl / 3} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.store.Limits.Heartbeat = true
			f.add(func(t *Terms) { t.Mode = mode })
			wait(ttl)
			if n := int(f.renewed.Load()); n != int(ttl/every) {
				t.Errorf("mode %v: %d renewals in %v, want one each %v", mode, n, ttl, every)
			}
		})
	}
}

// TestLosses: why a grant is lost, and when its user is told at the latest.
func TestLosses(t *testing.T) {
	for _, c := range []struct {
		name   string
		terms  func(*Terms)
		renew  func(driver.Hold) (driver.Result, error)
		reason Reason
		at     time.Duration
		cause  error
	}{
		{"renewals fail", nil, func(driver.Hold) (driver.Result, error) { return driver.Result{}, errServer }, Expired, trust, errServer},
		{"a renewal hangs", nil, func(driver.Hold) (driver.Result, error) {
			time.Sleep(time.Hour)
			return driver.Result{Status: driver.Alive}, nil
		}, Expired, trust, errUnanswered},
		{"nobody renews", noRenew, nil, Expired, trust, nil},
		{"another has the key", nil, func(driver.Hold) (driver.Result, error) { return driver.Result{Status: driver.Taken}, nil }, Taken, ttl / 3, nil},
		{"its row is gone", nil, func(driver.Hold) (driver.Result, error) { return driver.Result{Status: driver.Removed}, nil }, Removed, ttl / 3, nil},
		{"released by somebody", nil, func(driver.Hold) (driver.Result, error) { return driver.Result{Status: driver.Released}, nil }, Forced, ttl / 3, nil},
		{"MaxHold", func(t *Terms) { t.MaxHold = 45 * time.Second }, nil, MaxHold, 45*time.Second - margin, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				if c.renew != nil {
					f.renew = c.renew
				}
				g, l := f.add(func(t *Terms) {
					if c.terms != nil {
						c.terms(t)
					}
				})
				wait(c.at - 1)
				if len(l.told()) != 0 {
					t.Fatalf("told %v too early", l.told())
				}
				wait(time.Second) // the renewer checks at least so often
				synctest.Wait()
				if !slices.Equal(l.told(), []Reason{c.reason}) || !errors.Is(l.why(), c.cause) || c.cause == nil && l.why() != nil {
					t.Errorf("told %v, %v; want %v, %v", l.told(), l.why(), c.reason, c.cause)
				}
				if _, live := g.Live(); live || g.Deadline() > c.at && c.reason != Taken && c.reason != Removed && c.reason != Forced {
					t.Errorf("still trusted until %v", g.Deadline())
				}
			})
		})
	}
}

// TestLateAnswers: an acknowledgement moves the deadline forward only, and brings no grant
// back.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		g, l := f.add(noRenew)
		r := g.newRenewal(nil)
		wait(10 * time.Second)
		if err := g.Renew(t.Context()); err != nil || g.Deadline() != 10*time.Second+trust {
			t.Fatalf("%v, trusted until %v", err, g.Deadline())
		}
		r.Answered(driver.Result{Status: driver.Alive}, 5*time.Second, 10*time.Second) // sent before
		if g.Deadline() != 10*time.Second+trust {
			t.Errorf("an earlier renewal moved the deadline back to %v", g.Deadline())
		}
		late := g.newRenewal(nil)
		wait(trust)
		late.Answered(driver.Result{Status: driver.Alive}, 30*time.Second, 37*time.Second) // after the deadline
		g.Check()
		if !slices.Equal(l.told(), []Reason{Expired}) {
			t.Errorf("told %v", l.told())
		}
	})
}

// TestRenewByACaller: its context bounds the wait only; after the end nothing is sent.
func TestRenewByACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.renew = func(driver.Hold) (driver.Result, error) {
			time.Sleep(time.Second)
			return driver.Result{Status: driver.Alive}, nil
		}
		g, _ := f.add(noRenew)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := g.Renew(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("left: %v", err)
		}
		wait(time.Second)
		if g.Deadline() != trust { // sent at 0, as the attempt was
			t.Errorf("trusted until %v", g.Deadline())
		}
		if err := g.Renew(t.Context()); err != nil || g.Deadline() != 3*time.Second/2+trust {
			t.Errorf("%v, trusted until %v", err, g.Deadline())
		}
		g.End(Taken, nil)
		if err := g.Renew(t.Context()); err == nil || f.renewed.Load() != 2 {
			t.Errorf("after the end: %v, %d renewals", err, f.renewed.Load())
		}
	})
}
