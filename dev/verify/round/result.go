package round

import (
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/check"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// Result is what came of a round.
type Result struct {
	Seed       uint64
	Kind       testenv.Kind
	Begin      time.Time
	Folder     string // of its history; removed if the round was clean
	Spaces     map[string]Count
	Faults     map[string]*FaultStats // by name
	Violations []check.Violation
	Seconds    float64  // of the work
	Broken     error    // a fault could not be undone: the server should be started anew
	NotRun     []string // faults that need what this system or build does not have
}

// Count is the numbers of a space.
type Count struct {
	Operations int // acquires, renewals, releases, commits, writes
	Answered   int // those of them that a server answered: neither failed, nor unknown, nor done by the client alone
	Grants     int // acquires that got a lease
	Violations int
}

// FaultStats is what the faults of one name did.
type FaultStats struct {
	Injected int

	// Of those during which there was no other:
	Gaps     []time.Duration            // the longest time without a grant to anybody, from its begin on
	Database []time.Duration            // the same of durable writes of one row, on new connections, beside the locks
	Of       map[string][]time.Duration // the same of grants by space
	Slowest  map[string][]time.Duration // the same of the program of the space to which it was the longest
	Lost     int                        // leases that ended by themselves meanwhile: their holders had the signal
	Early    int                        // those of them that ended while they were trusted, because the database said that the hold is gone
	Held     int                        // leases that were there when it began
	Errors   map[string]int             // what callers were told meanwhile, without what differs each time
}

// NewFaultStats are those of a fault that was not injected yet.
func NewFaultStats() *FaultStats {
	return &FaultStats{Errors: map[string]int{}, Of: map[string][]time.Duration{}, Slowest: map[string][]time.Duration{}}
}

// Sum is the numbers of all spaces.
func (r *Result) Sum() (c Count) {
	for _, s := range r.Spaces {
		c.Operations += s.Operations
		c.Answered += s.Answered
		c.Grants += s.Grants
	}
	c.Violations = len(r.Violations)
	return c
}

// Injected is how many faults there were.
func (r *Result) Injected() (n int) {
	for _, f := range r.Faults {
		n += f.Injected
	}
	return n
}

// Line is the round in a line.
func (r *Result) Line() string {
	c := r.Sum()
	return fmt.Sprintf("seed %#x: %d faults, %s operations, %s answered by a server, %s grants, %d violations",
		r.Seed, r.Injected(), thousands(c.Operations), thousands(c.Answered), thousands(c.Grants), c.Violations)
}

// thousands writes 31204 as 31 204.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// Judge checks the history in a folder.
func Judge(folder string) ([]check.Violation, error) {
	r := Result{Folder: folder}
	err := r.judge()
	return r.Violations, err
}

// judge loads the history, checks and counts it.
func (r *Result) judge() error {
	events, err := history.Load(r.Folder)
	if err != nil {
		return err
	}
	meta, err := history.LoadMeta(r.Folder)
	if err != nil {
		return err
	}
	if r.Violations = check.Run(events, check.ForRound(meta)); len(r.Violations) > 0 {
		if err := check.Report(r.Folder, r.Violations, events); err != nil {
			return err
		}
	}
	r.count(events)
	return nil
}

var operations = []history.Kind{history.Acquire, history.Renew, history.Release, history.Commit, history.Write, history.Once, history.Locked}

// count takes the numbers from the events.
func (r *Result) count(events []history.Event) {
	r.Spaces, r.Faults = map[string]Count{}, map[string]*FaultStats{}
	served := serviceOf(events)
	var failed []history.Event
	for _, e := range events {
		if e.Error != "" && (e.Result == history.Failed || e.Result == history.Unknown) {
			failed = append(failed, e)
		}
		if !slices.Contains(operations, e.Kind) {
			continue
		}
		c := r.Spaces[e.Space]
		c.Operations++
		if e.Kind == history.Acquire && e.Result == history.OK {
			c.Grants++
		}
		r.Spaces[e.Space] = c
	}
	for _, v := range r.Violations {
		c := r.Spaces[v.Space]
		c.Violations++
		r.Spaces[v.Space] = c
	}
	for space, n := range answered(events) {
		c := r.Spaces[space]
		c.Answered = n
		r.Spaces[space] = c
	}
	leases := livesOf(events)
	var faults []history.Event
	for _, e := range events {
		if e.Kind == history.Fault {
			faults = append(faults, e)
		}
	}
	for i, e := range faults {
		f := r.Faults[e.Key]
		if f == nil {
			f = NewFaultStats()
			r.Faults[e.Key] = f
		}
		f.Injected++
		if !alone(faults, i) {
			continue
		}
		f.Gaps = append(f.Gaps, served.anybody.gap(e.Begin, e.End))
		f.Database = append(f.Database, served.database.gap(e.Begin, e.End))
		for space, times := range served.in {
			if len(times.at) > 0 {
				f.Of[space] = append(f.Of[space], times.gap(e.Begin, e.End))
				f.Slowest[space] = append(f.Slowest[space], served.slowest(space, e.Begin, e.End))
			}
		}
		held, lost, early := leases.during(e)
		f.Held, f.Lost, f.Early = f.Held+held, f.Lost+lost, f.Early+early
		for _, o := range failed {
			if o.End < e.Begin || o.End > e.End {
				continue
			}
			if text := brief(o.Error); text != "" {
				f.Errors[text]++
			}
		}
	}
}

// alone reports whether no other fault was there at the time of one.
func alone(faults []history.Event, i int) bool {
	for j, other := range faults {
		if j != i && other.Begin < faults[i].End && faults[i].Begin < other.End {
			return false
		}
	}
	return true
}
