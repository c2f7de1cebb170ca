package promrowlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowlock/rowlock"
)

// value is that of the series of a lock; false: there is none.
func value(t *testing.T, c prometheus.Collector, metric, lock string) (float64, bool) {
	t.Helper()
	for _, m := range gather(t, c)[metric].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "lock" && l.GetValue() == lock {
				return m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

// TestLeadersAreQuiet: who leads and who stands by, in Lead and in Every, does so for as long as it should, and
// is no hold or wait that is long. A wait of a caller, and a job of Every that hangs, are.
func TestLeadersAreQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a, store, leads := newLocks(t, Options{})
		observer, stands := New(Options{})
		b, err := rowlock.New(store, rowlock.Options{Name: "jobs", KeyName: rowlock.UpTo("/"), Observers: []*rowlock.Observer{observer}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.WithoutCancel(ctx))
		until := func(ctx context.Context, _ *rowlock.Lease) error {
			<-ctx.Done()
			return nil
		}
		ended := make(chan error)
		for _, c := range []*rowlock.Client{a, b} {
			go func() { ended <- rowlock.Lead(ctx, c, "leader", until) }()
			go func() { ended <- rowlock.Every(ctx, c, "job", time.Hour, until) }()
			synctest.Wait()
		}
		lease := acquire(t, a, "k")
		go func() {
			_, err := b.Acquire(ctx, "k")
			ended <- err
		}()
		time.Sleep(7200 * time.Second)
		for _, w := range []struct {
			of           *Metrics
			metric, lock string
			want         float64
			there        bool
		}{
			{leads, "rowlock_oldest_hold_seconds", "leader", 0, true},
			{leads, "rowlock_oldest_hold_seconds", "job", 7200, true},
			{leads, "rowlock_oldest_hold_seconds", "k", 7200, true},
			{leads, "rowlock_oldest_term_seconds", "leader", 7200, true},
			{leads, "rowlock_oldest_term_seconds", "k", 0, false},
			{stands, "rowlock_oldest_wait_seconds", "leader", 0, true},
			{stands, "rowlock_oldest_wait_seconds", "job", 0, true},
			{stands, "rowlock_oldest_wait_seconds", "k", 7200, true},
			{stands, "rowlock_oldest_term_seconds", "leader", 0, false},
		} {
			if got, there := value(t, w.of, w.metric, w.lock); got != w.want || there != w.there {
				t.Errorf("%s of %q: %v (there: %v), want %v (%v)", w.metric, w.lock, got, there, w.want, w.there)
			}
		}
		cancel()
		for range 5 {
			<-ended
		}
		_ = lease.Release(context.WithoutCancel(ctx))
		if got, there := value(t, leads, "rowlock_oldest_term_seconds", "leader"); got != 0 || !there {
			t.Errorf("a leader that has resigned: %v (there: %v), want 0", got, there)
		}
	})
}

// TestMaxHoldEndsQuietly: a lease that MaxHold ends has its trust run out, which is as it should be. One whose renewals
// fail has too, and that is not.
func TestMaxHoldEndsQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, m := newLocks(t, Options{})
		least := func() float64 { return gather(t, m)["rowlock_least_trust_ratio"].GetMetric()[0].GetGauge().GetValue() }
		lease := acquire(t, c, "k", rowlock.MaxHold(65*time.Second))
		var lost *rowlock.LostError
		for lease.Err() == nil {
			if got := least(); got < 0.6 {
				t.Errorf("%v of its trust is left after %v", got, c.Leases()[0].For)
			}
			time.Sleep(time.Second)
		}
		if !errors.As(lease.Err(), &lost) || lost.Reason != rowlock.ReasonMaxHold {
			t.Errorf("it ended by %v", lease.Err())
		}
	})
}

// TestLinesOfALock: what one more lock costs, and that buckets can be chosen.
func TestLinesOfALock(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		most int
	}{
		{Options{}, 27},
		{Options{AcquireBuckets: []float64{1}, HoldBuckets: []float64{2, 1, 2}}, 18},
	} {
		synctest.Test(t, func(t *testing.T) {
			const locks = 100
			c, _, m := newLocks(t, tc.o)
			lines := func() int {
				r := prometheus.NewPedanticRegistry()
				if err := r.Register(m); err != nil {
					t.Fatal(err)
				}
				answer := httptest.NewRecorder()
				promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
				return bytes.Count(answer.Body.Bytes(), []byte("\n"))
			}
			before := lines()
			for i := range locks {
				acquire(t, c, fmt.Sprint(i)).Release(t.Context())
			}
			time.Sleep(time.Second)
			if each := (lines() - before) / locks; each > tc.most || each < 10 {
				t.Errorf("a lock has %d lines, want at most %d", each, tc.most)
			}
		})
	}
}
