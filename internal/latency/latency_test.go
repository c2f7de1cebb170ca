package latency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/latency"
	"github.com/rowlock/rowlock/memory"
)

// slow is a store whose renewals are not finished in time, so many times each.
type slow struct {
	*memory.Store
	each, left int
	takes      time.Duration
	lasting    bool
}

func (s *slow) Renew(ctx context.Context, h []driver.Hold) ([]driver.Result, error) {
	time.Sleep(s.takes)
	if s.left > 0 {
		s.left--
		return nil, &driver.Error{NotApplied: true, Lasting: s.lasting, Err: errors.New("the server did not finish it in time")}
	}
	s.left = s.each
	return s.Store.Renew(ctx, h)
}

// measure is a report of the latency of a store.
func measure(t *testing.T, s driver.Store) *doctor.Report {
	t.Helper()
	o, err := doctor.Options{Samples: 3, TTL: 30 * time.Second}.Fill(doctor.MySQL())
	if err != nil {
		t.Fatal(err)
	}
	r := doctor.New(doctor.MySQL(), o)
	l := latency.Of{Works: "RL163", Slow: "RL161", Short: "RL162", Statement: func(context.Context) error { return nil }, Forget: func(string) {}}
	if err := l.Measure(t.Context(), s, o, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLatencyOfASlowServer: a renewal that the server does not finish in time is one that takes longer, not one of which
// nothing is known; a server that never does so in a third of the TTL is not measured.
func TestLatencyOfASlowServer(t *testing.T) {
	for _, c := range []struct {
		name    string
		store   slow
		want    doctor.Severity
		renewal time.Duration
	}{
		{"in time", slow{takes: 50 * time.Millisecond}, doctor.OK, 50 * time.Millisecond},
		{"at the third time", slow{takes: 50 * time.Millisecond, each: 2, left: 2}, doctor.OK, 150 * time.Millisecond},
		{"seldom", slow{takes: 50 * time.Millisecond, each: 35, left: 35}, doctor.Warn, 1800 * time.Millisecond},
		{"never", slow{takes: 50 * time.Millisecond, left: 1 << 20}, doctor.Skipped, 0},
		{"refused", slow{left: 1, lasting: true}, doctor.Skipped, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.store.Store = memory.New()
				r := measure(t, &c.store)
				found := r.Of("RL161")
				works := doctor.OK
				if c.want == doctor.Skipped {
					works = doctor.Fail
				}
				if f := r.Of("RL163"); len(f) != 1 || f[0].Severity != works {
					t.Errorf("a lock can be taken: %+v, want %v", f, works)
				}
				if len(found) != 1 || found[0].Severity != c.want || r.Renewal.P50 < c.renewal {
					t.Errorf("%+v, renewal %v; want %v and %v or more", found, r.Renewal.P50, c.want, c.renewal)
				}
				if c.want != doctor.Skipped && r.Renewal.P50 > 2*c.renewal {
					t.Errorf("renewal %v", r.Renewal.P50)
				}
			})
		})
	}
}
