package enginetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestStandsBy: who stands by in Lead or Every is told from who waits to go on, and a term from a lease.
func TestStandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFaultStore()
		a, b := newClient(t, f), newClient(t, f)
		ended := make(chan error)
		for _, c := range []*rowlock.Client{a, b} {
			go func() {
				ended <- rowlock.Lead(ctx, c, "leader", func(ctx context.Context, _ *rowlock.Lease) error {
					<-ctx.Done()
					return nil
				})
			}()
			go func() {
				ended <- rowlock.Every(ctx, c, "job", time.Hour, func(ctx context.Context, _ *rowlock.Lease) error {
					<-ctx.Done()
					return nil
				})
			}()
			synctest.Wait()
		}
		lease, err := a.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := b.Acquire(ctx, "k")
			ended <- err
		}()
		time.Sleep(time.Minute)
		for _, l := range a.Leases() {
			if l.Leads != (l.Key == "leader") {
				t.Errorf("%q leads: %v", l.Key, l.Leads)
			}
		}
		waits := b.Waits()
		for _, w := range waits {
			if w.StandsBy != (w.Key != "k") {
				t.Errorf("who waits for %q stands by: %v", w.Key, w.StandsBy)
			}
		}
		if len(a.Leases()) != 3 || len(waits) != 3 {
			t.Errorf("%d leases and %d waits, want 3 each", len(a.Leases()), len(waits))
		}
		cancel()
		for range 5 {
			if err := <-ended; err == nil {
				t.Error("ended without an error")
			}
		}
		_ = lease.Release(t.Context())
	})
}

// TestEnding: the trust of a lease that MaxHold is about to end runs out, and Held says that this is why.
func TestEnding(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []rowlock.Option
		from time.Duration // the lease is ending from the renewal before that; below 0: never
	}{
		"of no MaxHold":         {nil, -1},
		"of two TTLs":           {[]rowlock.Option{rowlock.MaxHold(time.Minute)}, 30 * time.Second},
		"not of whole renewals": {[]rowlock.Option{rowlock.MaxHold(65 * time.Second)}, 40 * time.Second},
		"of one TTL":            {[]rowlock.Option{rowlock.MaxHold(30 * time.Second)}, 0},
		"of readers":            {[]rowlock.Option{rowlock.MaxHold(time.Minute), rowlock.Shared()}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, newFaultStore())
				lease, err := c.Acquire(t.Context(), "k", tc.opts...)
				if err != nil {
					t.Fatal(err)
				}
				for at := 5 * time.Second; at < 100*time.Second && lease.Err() == nil; at += 10 * time.Second {
					time.Sleep(at - c.Leases()[0].For)
					if lease.Err() != nil {
						break
					}
					l := c.Leases()[0]
					if want := tc.from >= 0 && at > tc.from; l.Ending != want {
						t.Errorf("after %v: ending %v, want %v", at, l.Ending, want)
					}
					if share := float64(l.Left) / float64(l.Trust); !l.Ending && share < 0.6 {
						t.Errorf("after %v: %.2f of its trust is left, and it is not ending", at, share)
					}
				}
			})
		})
	}
}
