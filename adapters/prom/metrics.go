package promrowlock

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/words"
)

// Options configures the metrics. The zero value is good.
type Options struct {
	// MaxLocks is how many values the label lock has at most; those that come later are _other.
	// Default 100.
	MaxLocks int

	// AcquireBuckets and HoldBuckets are the upper bounds, in seconds, of the buckets of rowlock_acquire_seconds and
	// rowlock_hold_seconds. Each bucket is a series for each lock and outcome, so the defaults are few, from 5 ms to a
	// minute and from 50 ms to an hour. Order and repeats do not matter.
	AcquireBuckets, HoldBuckets []float64

	// TraceID is the trace that a context belongs to, for exemplars of rowlock_acquire_seconds
	// and rowlock_hold_seconds; empty: none. Default: no exemplars.
	TraceID func(ctx context.Context) string

	// ConstLabels are on every metric.
	ConstLabels prometheus.Labels
}

const (
	defaultMaxLocks = 100
	otherLocks      = "_other"
)

// Metrics are those of the clients that have its observer. It is a prometheus.Collector, safe
// for concurrent use.
type Metrics struct {
	o Options

	// A new metric is a field here. It is made in New, fed here or in collect.go, and named in vectors, Describe and Collect; a
	// test asks for its panel in observability/grafana.json.

	acquire, hold, renewal, trust, calls *prometheus.HistogramVec
	renewals, lost                       *prometheus.CounterVec

	held, waiting, undos, oldestHold, oldestTerm, oldestWait, leastTrust *prometheus.Desc
	late, statements, dropped, info                                      *prometheus.Desc

	mu      sync.Mutex
	clients []*rowlock.Client
	ended   map[string]counters // of clients that are closed, by name
	locks   map[string]bool     // values of the label lock
	known   map[[2]string]bool  // client and lock whose losses are at 0 or above
	led     map[[2]string]bool  // client and lock that it has led
}

// counters are what a client counts by itself.
type counters struct{ late, statements, dropped float64 }

// New makes an observer, for rowlock.Options.Observers, and the metrics that it feeds, for a
// prometheus.Registerer.
func New(o Options) (*rowlock.Observer, *Metrics) {
	if o.MaxLocks <= 0 {
		o.MaxLocks = defaultMaxLocks
	}
	m := &Metrics{o: o, ended: make(map[string]counters), locks: make(map[string]bool), known: make(map[[2]string]bool), led: make(map[[2]string]bool)}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets, ConstLabels: o.ConstLabels,
		}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: o.ConstLabels}, labels)
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, o.ConstLabels)
	}
	m.acquire = histogram("rowlock_acquire_seconds", "How long callers waited for a key, by outcome.",
		buckets(o.AcquireBuckets, .005, .02, .1, .5, 5, 60), "client", "lock", "outcome")
	m.hold = histogram("rowlock_hold_seconds", "How long leases were held, by how they ended.",
		buckets(o.HoldBuckets, .05, .5, 5, 60, 600, 3600), "client", "lock", "end")
	m.renewal = histogram("rowlock_renewal_seconds", "How long renewals took.", callBuckets, "client", "result")
	m.trust = histogram("rowlock_renewal_trust_used_ratio", "Share of a lease's trust that was used when its renewal was acknowledged; 0.37 is healthy.",
		[]float64{.2, .35, .4, .5, .6, .7, .75, .8, .9, 1}, "client")
	m.calls = histogram("rowlock_store_call_seconds", "How long calls of the store took.", callBuckets, "client", "op", "result")
	m.renewals = counter("rowlock_renewals_total", "Renewals of leases, by result.", "client", "result")
	m.lost = counter("rowlock_leases_lost_total", "Leases that ended before their release.", "client", "lock", "reason")
	m.held = desc("rowlock_leases_held", "Leases held now.", "client")
	m.waiting = desc("rowlock_acquires_waiting", "Callers that wait for a key now.", "client")
	m.undos = desc("rowlock_undos_pending", "Attempts and releases whose outcome is not known yet.", "client")
	m.oldestHold = desc("rowlock_oldest_hold_seconds", "How long the oldest of the leases held now has been held, those of leaders left out; 0: none is.", "client", "lock")
	m.oldestTerm = desc("rowlock_oldest_term_seconds", "How long the client has led, by Lead; 0: it does not.", "client", "lock")
	m.oldestWait = desc("rowlock_oldest_wait_seconds", "How long the caller has waited that has waited longest, those that stand by in Lead and Every left out; 0: nobody waits.", "client", "lock")
	m.leastTrust = desc("rowlock_least_trust_ratio", "Share of its trust that is left to the lease with the least, those that MaxHold is about to end left out; 1: no lease is renewed.", "client")
	m.late = desc("rowlock_late_releases_total", "Releases that the database did not answer in time.", "client")
	m.statements = desc("rowlock_statements_total", "Statements sent by the store, for all its clients.", "client")
	m.dropped = desc("rowlock_events_dropped_total", "Events that observers took too slowly; what counts events is too low by them.", "client")
	m.info = desc("rowlock_client_info", "A client and its store.", "client", "version", "store")
	return m.observer(), m
}

// buckets are those that are asked for, in order, or else the defaults.
func buckets(asked []float64, defaults ...float64) []float64 {
	if len(asked) == 0 {
		return defaults
	}
	return slices.Compact(slices.Sorted(slices.Values(asked)))
}

var callBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

const (
	ok     = "ok"
	failed = "failed"
	lost   = "lost"
)

func result(err error) string {
	if err != nil {
		return failed
	}
	return ok
}

func (m *Metrics) observer() *rowlock.Observer {
	return &rowlock.Observer{
		ClientStart: m.clientStart,
		ClientEnd:   m.clientEnd,
		AcquireStart: func(ctx context.Context, e rowlock.AcquireStart) context.Context {
			m.lock(e.Client, e.Name) // its losses are at 0 before there can be one
			return ctx
		},
		AcquireEnd: func(ctx context.Context, e rowlock.AcquireEnd) {
			m.observe(ctx, m.acquire.WithLabelValues(words.Text(e.Client), m.lock(e.Client, e.Name), e.Outcome()), e.Waited.Seconds())
		},
		LeaseEnd: func(ctx context.Context, e rowlock.LeaseEnd) {
			name, end := m.lock(e.Client, e.Name), e.End()
			m.observe(ctx, m.hold.WithLabelValues(words.Text(e.Client), name, end), e.Held.Seconds())
			if e.Err != nil {
				m.lost.WithLabelValues(words.Text(e.Client), name, end).Inc()
			}
		},
		Renewed: func(e rowlock.Renewed) {
			r := result(e.Err)
			if errors.Is(e.Err, rowlock.ErrLost) {
				r = lost
			}
			m.renewals.WithLabelValues(words.Text(e.Client), r).Inc()
			m.renewal.WithLabelValues(words.Text(e.Client), r).Observe(e.Took.Seconds())
			if e.Err == nil {
				m.trust.WithLabelValues(words.Text(e.Client)).Observe(e.TrustUsed())
			}
		},
		Called: func(e rowlock.Called) {
			m.calls.WithLabelValues(words.Text(e.Client), e.Op, result(e.Err)).Observe(e.Took.Seconds())
		},
	}
}

// observe observes v, with the trace of ctx as its exemplar.
func (m *Metrics) observe(ctx context.Context, by prometheus.Observer, v float64) {
	if m.o.TraceID != nil {
		// The client library panics at an exemplar that is too long.
		if id := words.Text(m.o.TraceID(ctx)); id != "" && utf8.RuneCountInString(id)+len("trace_id") <= prometheus.ExemplarMaxRunes {
			by.(prometheus.ExemplarObserver).ObserveWithExemplar(v, prometheus.Labels{"trace_id": id})
			return
		}
	}
	by.Observe(v)
}

// lock is the value of the label lock for a name. The first time for a client it makes the
// series of its losses, all at 0: without that increase() would miss the first loss.
func (m *Metrics) lock(client, name string) string {
	client, name = words.Text(client), words.Text(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.locks[name] {
		if len(m.locks) >= m.o.MaxLocks {
			name = otherLocks
		} else {
			m.locks[name] = true
		}
	}
	if id := [2]string{client, name}; !m.known[id] {
		m.known[id] = true
		m.losses(client, name)
	}
	return name
}

// losses makes the series of the losses of a lock, those that there are not yet at 0.
func (m *Metrics) losses(client, name string) {
	for _, r := range rowlock.Reasons() {
		m.lost.WithLabelValues(client, name, string(r))
	}
}

func (m *Metrics) clientStart(c *rowlock.Client) {
	m.mu.Lock()
	m.clients = append(m.clients, c)
	m.mu.Unlock()
	client := words.Text(c.Name())
	m.losses(client, "") // of no lock yet, which has no oldest hold either
	for _, r := range []string{ok, failed, lost} {
		m.renewals.WithLabelValues(client, r)
	}
	m.trust.WithLabelValues(client)
}

// clientEnd keeps what the client counted: a counter never falls.
func (m *Metrics) clientEnd(c *rowlock.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, o := range m.clients {
		if o == c {
			m.clients = append(m.clients[:i:i], m.clients[i+1:]...)
			client := words.Text(c.Name())
			sum := m.ended[client]
			sum.add(c.Stats())
			m.ended[client] = sum
			return
		}
	}
}

func (n *counters) add(s rowlock.Stats) {
	n.late += float64(s.LateReleases)
	n.statements += float64(s.Statements)
	n.dropped += float64(s.DroppedEvents)
}

// version is that of the library in this program.
var version = sync.OnceValue(func() string {
	const path = "github.com/rowlock/rowlock"
	info, found := debug.ReadBuildInfo()
	if found {
		for _, d := range append(info.Deps, &info.Main) {
			if d.Path == path {
				return d.Version
			}
		}
	}
	return "unknown"
})

func storeName(c *rowlock.Client) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", c.Store()), "*")
}
