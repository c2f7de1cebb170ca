package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/defaults"
	"github.com/rowlock/rowlock/internal/unit"
)

// Severity says how bad a finding is. A larger one is worse.
type Severity uint8

const (
	// OK: looked at, and good.
	OK Severity = iota

	// Info: good to know, and nothing to do.
	Info

	// Skipped: it could not be looked at, most often for want of a privilege.
	Skipped

	// Warn: locks work, but something is slower, or fails later than it should, or is less safe after a fault.
	Warn

	// Fail: locks do not work, or a promise of the library does not hold here.
	Fail
)

var severityNames = [...]string{OK: "ok", Info: "info", Skipped: "skipped", Warn: "warn", Fail: "fail"}

// String is ok, info, skipped, warn or fail.
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// MarshalText is String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText; any other text is an error.
func (s *Severity) UnmarshalText(text []byte) error {
	for i, name := range severityNames {
		if name == string(text) {
			*s = Severity(i)
			return nil
		}
	}
	return fmt.Errorf("doctor: severity %q: use one of %s", text, strings.Join(severityNames[:], ", "))
}

// Finding is the answer to one question about the database.
type Finding struct {
	ID       string   `json:"id"`       // RL1xx or RL2xx, of the table
	Severity Severity `json:"severity"` // the worst of an ID counts; an ID may have several findings, one for each table or session
	Title    string   `json:"title"`    // what was looked at
	Value    string   `json:"value"`    // what was seen
	Advice   string   `json:"advice,omitempty"`
	Command  string   `json:"command,omitempty"` // one that mends it; empty where none does
}

// Quantiles are of the times that some samples took. All are 0 where nothing was measured.
type Quantiles struct{ P50, P99, Max time.Duration }

// QuantilesOf sorts the samples. The 99th percentile of fewer than 100 is their maximum.
func QuantilesOf(samples []time.Duration) (q Quantiles) {
	if len(samples) == 0 {
		return q
	}
	slices.Sort(samples)
	at := func(percent int) time.Duration { return samples[min(len(samples)*percent/100, len(samples)-1)] }
	return Quantiles{P50: at(50), P99: at(99), Max: samples[len(samples)-1]}
}

// Options say what a Doctor looks at. The zero value is good.
type Options struct {
	// ReadOnly: only what reads. No lock is taken and so nothing is measured but the clock, KILL and GET_LOCK are not
	// tried, and privileges to write are looked up rather than tried.
	ReadOnly bool

	// Samples is how often each latency is measured: 30 by default, at most 10000.
	Samples int

	// TTL is that of the program's locks, to be compared with what is measured: 30 s by default, as rowlock's.
	TTL time.Duration

	// Failover is how long the database may take to name a new primary. By default 7 s for Group Replication, for MongoDB
	// electionTimeoutMillis and 2 s where the user may see that, and 0 for all others: set it where a failover takes longer.
	Failover time.Duration

	// Programs is how many programs use the locks, each with connections of its own: 1 by default.
	Programs int

	// Connections is how many each of them has, of MySQL: by default those that the options of this Store allow.
	Connections int

	// OldTransaction is how long somebody's transaction may be open before it is found: 60 s by default.
	OldTransaction time.Duration

	// Migrate: whether the user may create tables too.
	Migrate bool

	// URI is the address that the program uses, of MongoDB: what it asks for is looked at, and nothing of it is shown. Empty:
	// it is not looked at.
	URI string

	// Ignore are IDs that are not looked at.
	Ignore []string
}

const (
	defaultSamples = 30
	mostSamples    = 10_000
	defaultOld     = time.Minute
)

// Fill puts the defaults in and checks the rest against a table; stores call it. Its error matches rowlock.ErrInvalid.
func (o Options) Fill(table []Entry) (Options, error) {
	if o.Samples < 0 || o.Samples > mostSamples {
		return o, fmt.Errorf("%w: doctor: Samples is %d: use 1 to %d, or 0 for %d", driver.ErrInvalid, o.Samples, mostSamples, defaultSamples)
	}
	if o.TTL < 0 || o.Failover < 0 {
		return o, fmt.Errorf("%w: doctor: TTL is %v and Failover %v: neither can be negative", driver.ErrInvalid, o.TTL, o.Failover)
	}
	for _, err := range [...]error{unit.Check("TTL", o.TTL, unit.Least), unit.Check("Failover", o.Failover, unit.Least), unit.Check("OldTransaction", o.OldTransaction, unit.Least)} {
		if err != nil {
			return o, fmt.Errorf("%w: doctor: %w", driver.ErrInvalid, err)
		}
	}
	if o.OldTransaction < 0 {
		return o, fmt.Errorf("%w: doctor: OldTransaction is %v: use 1s or more", driver.ErrInvalid, o.OldTransaction)
	}
	if o.Programs < 0 || o.Connections < 0 {
		return o, fmt.Errorf("%w: doctor: Programs is %d and Connections %d: neither can be negative", driver.ErrInvalid, o.Programs, o.Connections)
	}
	for _, id := range o.Ignore {
		if !slices.ContainsFunc(table, func(e Entry) bool { return e.ID == id }) {
			return o, fmt.Errorf("%w: doctor: Ignore has %q, which is no finding of this database: use the likes of %s", driver.ErrInvalid, id, table[0].ID)
		}
	}
	o.Samples = cmp.Or(o.Samples, defaultSamples)
	o.TTL = cmp.Or(o.TTL, defaults.TTL)
	o.Programs = cmp.Or(o.Programs, 1)
	o.OldTransaction = cmp.Or(o.OldTransaction, defaultOld)
	return o, nil
}

// Report is what a Doctor found. It is not safe for use while a Doctor adds to it.
type Report struct {
	Server   string // what the server says it is
	Strategy string // how locks are kept there
	Findings []Finding

	Statement Quantiles // of a statement that does nothing
	Commit    Quantiles // of taking a lock
	Renewal   Quantiles // of renewing it

	Skew      time.Duration // how far the database's clock is ahead of ours. Locks do not use ours
	SkewError time.Duration // at most so much more or less

	SaneTTL time.Duration // the shortest TTL that rides out what was measured and a failover; 0: nothing was measured

	table   []Entry
	ignored []string
}

// New makes an empty report for the findings of a table; stores call it.
func New(table []Entry, o Options) *Report { return &Report{table: table, ignored: o.Ignore} }

// Add adds a finding with the texts that the table has for its ID and severity; stores call it. with are pairs: what stands
// for {name} in these texts. An ID of Options.Ignore is not added.
func (r *Report) Add(id string, s Severity, value string, with ...string) {
	if r.Ignores(id) {
		return
	}
	f := Finding{ID: id, Severity: s, Value: value}
	for _, e := range r.table {
		if e.ID == id {
			f.Title = e.Title
			v := e.verdict(s)
			f.Advice, f.Command = fill(v.Advice, with), fill(v.Command, with)
		}
	}
	r.Findings = append(r.Findings, f)
}

// Ignores reports whether Options.Ignore has the ID.
func (r *Report) Ignores(id string) bool { return slices.Contains(r.ignored, id) }

// fill puts values for names in braces.
func fill(text string, with []string) string {
	for i := 0; i+1 < len(with); i += 2 {
		text = strings.ReplaceAll(text, "{"+with[i]+"}", with[i+1])
	}
	return text
}

// Sort orders the findings by ID, and those of one ID as they were added.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return strings.Compare(a.ID, b.ID) })
}

// Of are the findings with an ID.
func (r *Report) Of(id string) (found []Finding) {
	for _, f := range r.Findings {
		if f.ID == id {
			found = append(found, f)
		}
	}
	return found
}

// Worst is OK, Warn or Fail: what is good to know or was skipped counts as good.
func (r *Report) Worst() Severity {
	worst := OK
	for _, f := range r.Findings {
		if f.Severity >= Warn {
			worst = max(worst, f.Severity)
		}
	}
	return worst
}

// The exit codes of plugins for Nagios and its like.
const (
	ExitOK      = 0
	ExitWarn    = 1
	ExitFail    = 2
	ExitUnknown = 3 // could not look
)

// Exit is the exit code for a program that shows the report: ExitOK, ExitWarn or ExitFail by the worst finding. strict: a
// warning counts as a failure, and where nothing is wrong but something was skipped the code is ExitUnknown.
func (r *Report) Exit(strict bool) int {
	skipped := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Skipped })
	switch worst := r.Worst(); {
	case worst == Fail, worst == Warn && strict:
		return ExitFail
	case worst == Warn:
		return ExitWarn
	case skipped && strict:
		return ExitUnknown
	}
	return ExitOK
}

// MarshalJSON writes times in milliseconds. The names of the fields stay as they are.
func (r *Report) MarshalJSON() ([]byte, error) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	type quantiles struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	}
	of := func(q Quantiles) quantiles { return quantiles{ms(q.P50), ms(q.P99), ms(q.Max)} }
	return json.Marshal(struct {
		Server    string    `json:"server"`
		Strategy  string    `json:"strategy"`
		Worst     Severity  `json:"worst"`
		Findings  []Finding `json:"findings"`
		Statement quantiles `json:"statement_ms"`
		Commit    quantiles `json:"commit_ms"`
		Renewal   quantiles `json:"renewal_ms"`
		Skew      float64   `json:"skew_ms"`
		SkewError float64   `json:"skew_error_ms"`
		SaneTTL   float64   `json:"sane_ttl_ms"`
	}{r.Server, r.Strategy, r.Worst(), append([]Finding{}, r.Findings...), of(r.Statement), of(r.Commit), of(r.Renewal), ms(r.Skew), ms(r.SkewError), ms(r.SaneTTL)})
}

// Clock is Skew in words.
func (r *Report) Clock() string {
	skew, where := r.Skew, "ahead of"
	if skew < 0 {
		skew, where = -skew, "behind"
	}
	return fmt.Sprintf("%s %s ours, ± %s", roughly(skew), where, roughly(r.SkewError))
}
