package promrowlock

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/words"
)

// vectors are the metrics that events feed.
func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.acquire, m.hold, m.renewal, m.trust, m.calls, m.renewals, m.lost}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(to)
	}
	for _, d := range []*prometheus.Desc{
		m.held, m.waiting, m.undos, m.oldestHold, m.oldestTerm, m.oldestWait, m.leastTrust, m.late, m.statements, m.dropped, m.info,
	} {
		to <- d
	}
}

// state is what the clients of one name are and have now.
type state struct {
	counters
	held, waiting, undos int
	least                float64
	holds, terms, waits  map[string]float64 // the oldest, by lock
	stores               map[string]bool
}

// Collect implements prometheus.Collector. It asks the clients, never the database.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(to)
	}
	for client, s := range m.states() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{client}, labels...)...)
		}
		counter := func(d *prometheus.Desc, v float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, client)
		}
		counter(m.late, s.late)
		counter(m.statements, s.statements)
		counter(m.dropped, s.dropped)
		if len(s.stores) == 0 { // all are closed
			continue
		}
		gauge(m.held, float64(s.held))
		gauge(m.waiting, float64(s.waiting))
		gauge(m.undos, float64(s.undos))
		gauge(m.leastTrust, s.least)
		for d, ages := range map[*prometheus.Desc]map[string]float64{m.oldestHold: s.holds, m.oldestTerm: s.terms, m.oldestWait: s.waits} {
			for lock, age := range ages {
				gauge(d, age, lock)
			}
		}
		for store := range s.stores {
			gauge(m.info, 1, version(), store)
		}
	}
}

// states asks the clients, by name.
func (m *Metrics) states() map[string]*state {
	m.mu.Lock()
	clients := append([]*rowlock.Client(nil), m.clients...)
	all := make(map[string]*state)
	for name, n := range m.ended {
		all[name] = newState()
		all[name].counters = n
	}
	m.mu.Unlock()
	for _, c := range clients {
		client := words.Text(c.Name())
		s := all[client]
		if s == nil {
			s = newState()
			all[client] = s
		}
		stats := c.Stats()
		s.add(stats)
		s.held += stats.Held
		s.waiting += stats.Waiting
		s.undos += stats.Unresolved
		s.stores[storeName(c)] = true
		for _, l := range c.Leases() {
			lock := m.lock(client, l.Name)
			if l.Leads {
				m.leads(client, lock)
				s.terms[lock] = max(s.terms[lock], l.For.Seconds())
			} else {
				s.holds[lock] = max(s.holds[lock], l.For.Seconds())
			}
			if !l.NoRenew && !l.Ending && l.Trust > 0 {
				s.least = min(s.least, float64(l.Left)/float64(l.Trust))
			}
		}
		for _, w := range c.Waits() {
			if w.StandsBy {
				continue
			}
			lock := m.lock(client, w.Name)
			s.waits[lock] = max(s.waits[lock], w.For.Seconds())
		}
	}
	// A lock that was seen and is free now is 0: a series that ends keeps an alert as it was.
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.known {
		if s := all[id[0]]; s != nil {
			s.holds[id[1]] += 0
			s.waits[id[1]] += 0
		}
	}
	for id := range m.led {
		if s := all[id[0]]; s != nil {
			s.terms[id[1]] += 0
		}
	}
	return all
}

// leads notes that a client leads by a lock.
func (m *Metrics) leads(client, lock string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.led[[2]string{client, lock}] = true
}

func newState() *state {
	return &state{least: 1, holds: make(map[string]float64), terms: make(map[string]float64), waits: make(map[string]float64), stores: make(map[string]bool)}
}
