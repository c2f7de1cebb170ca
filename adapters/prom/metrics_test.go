package promrowlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// newLocks is a client with metrics, and its store.
func newLocks(t *testing.T, o Options) (*rowlock.Client, *memory.Store, *Metrics) {
	t.Helper()
	store := memory.New()
	observer, m := New(o)
	c, err := rowlock.New(store, rowlock.Options{Name: "jobs", KeyName: rowlock.UpTo("/"), Observers: []*rowlock.Observer{observer}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, store, m
}

// acquire gets a key, or ends the test.
func acquire(t *testing.T, c *rowlock.Client, key string, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	l, err := c.Acquire(context.Background(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// compare fails the test unless these metrics are as written.
func compare(t *testing.T, c prometheus.Collector, want string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestMetricsOfAClient: what one client has now, and what it did.
func TestMetricsOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, _, m := newLocks(t, Options{})
		l := acquire(t, c, "import/1")
		time.Sleep(25 * time.Second)
		if _, err := c.TryAcquire(ctx, "import/1"); !errors.Is(err, rowlock.ErrHeld) {
			t.Fatal(err)
		}
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		go c.Acquire(waiting, "import/1")
		time.Sleep(2 * time.Second)
		compare(t, m, `
			# HELP rowlock_leases_held Leases held now.
			# TYPE rowlock_leases_held gauge
			rowlock_leases_held{client="jobs"} 1
			# HELP rowlock_acquires_waiting Callers that wait for a key now.
			# TYPE rowlock_acquires_waiting gauge
			rowlock_acquires_waiting{client="jobs"} 1
			# HELP rowlock_oldest_hold_seconds How long the oldest of the leases held now has been held, those of leaders left out; 0: none is.
			# TYPE rowlock_oldest_hold_seconds gauge
			rowlock_oldest_hold_seconds{client="jobs",lock="import"} 27
			# HELP rowlock_oldest_wait_seconds How long the caller has waited that has waited longest, those that stand by in Lead and Every left out; 0: nobody waits.
			# TYPE rowlock_oldest_wait_seconds gauge
			rowlock_oldest_wait_seconds{client="jobs",lock="import"} 2
			# HELP rowlock_least_trust_ratio Share of its trust that is left to the lease with the least, those that MaxHold is about to end left out; 1: no lease is renewed.
			# TYPE rowlock_least_trust_ratio gauge
			rowlock_least_trust_ratio{client="jobs"} 0.7407407407407407
			# HELP rowlock_renewals_total Renewals of leases, by result.
			# TYPE rowlock_renewals_total counter
			rowlock_renewals_total{client="jobs",result="failed"} 0
			rowlock_renewals_total{client="jobs",result="lost"} 0
			rowlock_renewals_total{client="jobs",result="ok"} 2
			# HELP rowlock_renewal_trust_used_ratio Share of a lease's trust that was used when its renewal was acknowledged; 0.37 is healthy.
			# TYPE rowlock_renewal_trust_used_ratio histogram
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.2"} 0
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.35"} 0
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.4"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.5"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.6"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.7"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.75"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.8"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="0.9"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="1"} 2
			rowlock_renewal_trust_used_ratio_bucket{client="jobs",le="+Inf"} 2
			rowlock_renewal_trust_used_ratio_sum{client="jobs"} 0.7407407407407407
			rowlock_renewal_trust_used_ratio_count{client="jobs"} 2
		`, "rowlock_leases_held", "rowlock_acquires_waiting", "rowlock_oldest_hold_seconds", "rowlock_oldest_wait_seconds",
			"rowlock_least_trust_ratio", "rowlock_renewals_total", "rowlock_renewal_trust_used_ratio")
		cancel()
		synctest.Wait()
		l.Release(ctx)
		time.Sleep(time.Second)
		for name, want := range map[string]float64{
			`rowlock_acquire_seconds outcome="granted"`:  1,
			`rowlock_acquire_seconds outcome="held"`:     1,
			`rowlock_acquire_seconds outcome="canceled"`: 1,
			`rowlock_hold_seconds end="released"`:        1,
			`rowlock_store_call_seconds op="renew"`:      2,
		} {
			metric, label, _ := strings.Cut(name, " ")
			if got := count(t, m, metric, label); got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	})
}

// count is how many observations the series of a histogram with this label have.
func count(t *testing.T, c prometheus.Collector, name, label string) (n float64) {
	t.Helper()
	for _, m := range gather(t, c)[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()) == label {
				n += float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return n
}

func gather(t *testing.T, c prometheus.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := make(map[string]*dto.MetricFamily)
	for _, f := range all {
		families[f.GetName()] = f
	}
	return families
}

// TestLossesBeginAtZero: the series of every reason is there, at 0, before there is a loss: for
// a client at once, for a lock with its first acquire.
func TestLossesBeginAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store, m := newLocks(t, Options{})
		losses := func() map[string]float64 {
			got := make(map[string]float64)
			for _, s := range gather(t, m)["rowlock_leases_lost_total"].GetMetric() {
				got[s.GetLabel()[1].GetValue()+" "+s.GetLabel()[2].GetValue()] = s.GetCounter().GetValue()
			}
			return got
		}
		if got := losses(); len(got) != len(rowlock.Reasons()) {
			t.Errorf("a new client has %v", got)
		}
		l := acquire(t, c, "report")
		if got := losses(); len(got) != 2*len(rowlock.Reasons()) || got["report taken"] != 0 {
			t.Errorf("after the first acquire: %v", got)
		}
		store.Expire("report")
		<-l.Done()
		time.Sleep(time.Second)
		if got := losses(); got["report taken"] != 1 || got["report expired"] != 0 {
			t.Errorf("after a loss: %v", got)
		}
	})
}

// TestLocksAreBounded: keys with many names have few labels.
func TestLocksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, m := newLocks(t, Options{MaxLocks: 5})
		for i := range 50 {
			acquire(t, c, fmt.Sprintf("lock%d/x", i))
		}
		names := make(map[string]bool)
		for _, s := range gather(t, m)["rowlock_oldest_hold_seconds"].GetMetric() {
			names[s.GetLabel()[1].GetValue()] = true
		}
		if len(names) != 6 || !names["_other"] || !names["lock0"] {
			t.Errorf("the values of lock are %v", names)
		}
	})
}

// TestClientsOfOneObserver: clients of one name are added up; the counters of one that is closed stay, its
// gauges go.
func TestClientsOfOneObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		observer, m := New(Options{})
		open := func(name string) *rowlock.Client {
			c, err := rowlock.New(memory.New(), rowlock.Options{Name: name, Observers: []*rowlock.Observer{observer}})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		a, b, other := open("jobs"), open("jobs"), open("other")
		acquire(t, a, "k")
		acquire(t, b, "k")
		held := func() map[string]float64 {
			got := make(map[string]float64)
			for _, s := range gather(t, m)["rowlock_leases_held"].GetMetric() {
				got[s.GetLabel()[0].GetValue()] = s.GetGauge().GetValue()
			}
			return got
		}
		if got := held(); len(got) != 2 || got["jobs"] != 2 || got["other"] != 0 {
			t.Errorf("held %v", got)
		}
		statements := func() (n float64) {
			for _, s := range gather(t, m)["rowlock_statements_total"].GetMetric() {
				n += s.GetCounter().GetValue()
			}
			return n
		}
		before := statements()
		for _, c := range []*rowlock.Client{a, b, other} {
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		if got := held(); len(got) != 0 {
			t.Errorf("held by closed clients: %v", got)
		}
		if after := statements(); after < before || before < 2 {
			t.Errorf("%v statements, after Close %v", before, after)
		}
	})
}

// TestExemplars: an acquire has the trace of its caller as exemplar.
func TestExemplars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type trace struct{}
		c, _, m := newLocks(t, Options{TraceID: func(ctx context.Context) string {
			id, _ := ctx.Value(trace{}).(string)
			return id
		}})
		l, err := c.Acquire(context.WithValue(context.Background(), trace{}, "7f"), "k")
		if err != nil {
			t.Fatal(err)
		}
		l.Release(context.Background())
		time.Sleep(time.Second)
		for _, name := range []string{"rowlock_acquire_seconds", "rowlock_hold_seconds"} {
			id := ""
			for _, b := range gather(t, m)[name].GetMetric()[0].GetHistogram().GetBucket() {
				for _, l := range b.GetExemplar().GetLabel() {
					id = l.GetName() + "=" + l.GetValue()
				}
			}
			if id != "trace_id=7f" {
				t.Errorf("%s has the exemplar %q", name, id)
			}
		}
	})
}

// TestLint: the names are as Prometheus wants them.
func TestLint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, m := newLocks(t, Options{ConstLabels: prometheus.Labels{"region": "eu"}})
		acquire(t, c, "k").Release(context.Background())
		time.Sleep(time.Second)
		d, err := NewDBCollector(c, DBOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, collector := range []prometheus.Collector{m, d} {
			problems, err := testutil.CollectAndLint(collector)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	})
}
