package promrowlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/unit"
	"github.com/rowlock/rowlock/internal/words"
)

// Lister lists keys: a *rowlock.Client, or a Store of mysqllock or mongolock.
type Lister interface {
	List(ctx context.Context, prefix, after string, limit int) ([]rowlock.Info, error)
}

// DBOptions configures a DBCollector. The zero value is good.
type DBOptions struct {
	// Prefixes are of the keys to count, each a value of the label prefix, where bytes that are no
	// UTF-8 are \xNN. At most 200. A key with two of them counts twice. Default: one, "", for all keys.
	Prefixes []string

	// MaxKeys is how many keys of a prefix are read at most, in the order of their bytes; where
	// there are more rowlock_db_truncated is 1. Default 10 000.
	MaxKeys int

	// Timeout bounds the reads of one collection. Default 5s.
	Timeout time.Duration

	// MaxAge is for how long an answer serves other collections too. Default 5s; negative: none.
	MaxAge time.Duration

	// ConstLabels are on every metric.
	ConstLabels prometheus.Labels
}

const (
	maxPrefixes = 200
	page        = 500 // keys of one read

	defaultMaxKeys = 10_000
	defaultTimeout = 5 * time.Second
	defaultMaxAge  = 5 * time.Second
)

// DBCollector collects what the database knows of keys, whoever has them. Register it in one
// program of those that share a database: each collection reads the keys, by plain reads that
// disturb no lock. It is safe for concurrent use.
type DBCollector struct {
	l Lister
	o DBOptions

	keys, wanted, oldest, truncated, up *prometheus.Desc

	mu   sync.Mutex
	at   time.Time
	last []prometheus.Metric
}

// NewDBCollector makes a collector of what l lists. Bad options are an error that matches
// rowlock.ErrInvalid.
func NewDBCollector(l Lister, o DBOptions) (*DBCollector, error) {
	switch {
	case l == nil:
		return nil, fmt.Errorf("promrowlock: %w: the Lister is nil", rowlock.ErrInvalid)
	case len(o.Prefixes) > maxPrefixes:
		return nil, fmt.Errorf("promrowlock: %w: %d prefixes: use at most %d", rowlock.ErrInvalid, len(o.Prefixes), maxPrefixes)
	case o.MaxKeys < 0:
		return nil, fmt.Errorf("promrowlock: %w: MaxKeys %d: use a positive number, or 0 for %d", rowlock.ErrInvalid, o.MaxKeys, defaultMaxKeys)
	case unit.Check("Timeout", o.Timeout, unit.Least) != nil:
		return nil, fmt.Errorf("promrowlock: %w: %w", rowlock.ErrInvalid, unit.Check("Timeout", o.Timeout, unit.Least))
	case unit.Check("MaxAge", o.MaxAge, unit.Least) != nil:
		return nil, fmt.Errorf("promrowlock: %w: %w", rowlock.ErrInvalid, unit.Check("MaxAge", o.MaxAge, unit.Least))
	case o.Timeout < 0:
		return nil, fmt.Errorf("promrowlock: %w: Timeout %v: use a positive time, or 0 for %v", rowlock.ErrInvalid, o.Timeout, defaultTimeout)
	}
	for i, p := range o.Prefixes {
		if same := slices.IndexFunc(o.Prefixes, func(other string) bool { return words.Text(other) == words.Text(p) }); same < i {
			return nil, fmt.Errorf("promrowlock: %w: the prefix %q is there twice, as a label: %q: leave one out", rowlock.ErrInvalid, p, words.Text(p))
		}
	}
	if len(o.Prefixes) == 0 {
		o.Prefixes = []string{""}
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = defaultMaxKeys
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxAge == 0 {
		o.MaxAge = defaultMaxAge
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, o.ConstLabels)
	}
	return &DBCollector{
		l: l, o: o,
		keys:      desc("rowlock_db_keys", "Keys that the database has, by state: held, kept by MinHold, pinned by an open transaction, free.", "prefix", "state"),
		wanted:    desc("rowlock_db_wanted_keys", "Keys that are held and that another program waits for.", "prefix"),
		oldest:    desc("rowlock_db_oldest_hold_seconds", "How long the oldest hold has been held, by the clocks of the database and of this program; 0: none is.", "prefix"),
		truncated: desc("rowlock_db_truncated", "1: there are more keys than were read.", "prefix"),
		up:        desc("rowlock_db_up", "1: the database answered."),
	}, nil
}

// Describe implements prometheus.Collector.
func (d *DBCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.keys, d.wanted, d.oldest, d.truncated, d.up} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *DBCollector) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || time.Since(d.at) >= d.o.MaxAge {
		d.last, d.at = d.read(), time.Now()
	}
	for _, m := range d.last {
		to <- m
	}
}

// states are the values of the label state.
var states = []string{"held", "kept", "pinned", "free"}

func stateOf(i rowlock.Info) string {
	switch {
	case i.Pinned:
		return "pinned"
	case i.Kept:
		return "kept"
	case i.Held:
		return "held"
	}
	return "free"
}

func (d *DBCollector) read() (all []prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), d.o.Timeout)
	defer cancel()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...))
	}
	up := 1.0
	for _, bytes := range d.o.Prefixes {
		n, err := d.count(ctx, bytes)
		if err != nil {
			up = 0
			continue // what was not read is no number
		}
		prefix := words.Text(bytes)
		for _, s := range states {
			gauge(d.keys, n.keys[s], prefix, s)
		}
		gauge(d.wanted, n.wanted, prefix)
		gauge(d.oldest, n.oldest.Seconds(), prefix)
		gauge(d.truncated, n.truncated, prefix)
	}
	gauge(d.up, up)
	return all
}

// counts are the numbers of a prefix.
type counts struct {
	keys              map[string]float64 // by state
	wanted, truncated float64
	oldest            time.Duration
}

func (d *DBCollector) count(ctx context.Context, prefix string) (n counts, err error) {
	n.keys = make(map[string]float64)
	after := ""
	for left := d.o.MaxKeys; ; {
		limit := min(page, left+1) // one more, to see whether there is one
		infos, err := d.l.List(ctx, prefix, after, limit)
		if err != nil {
			return n, err
		}
		for _, i := range infos {
			if left == 0 {
				n.truncated = 1
				return n, nil
			}
			left--
			after = i.Key
			state := stateOf(i)
			n.keys[state]++
			if state == "held" {
				if i.Waiting > 0 {
					n.wanted++
				}
				if !i.Since.IsZero() {
					n.oldest = max(n.oldest, time.Since(i.Since))
				}
			}
		}
		if len(infos) < limit {
			return n, nil
		}
	}
}
