// Package target compares what was measured with what is wanted.
package target

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
)

// Target is one of the numbers that the library must reach.
type Target struct {
	Number  string
	Servers []string // none: all
	Sides   []string // none: the library's own
	Case    string   // how the case begins
	Metric  string
	Most    bool    // it is a bound above: at most Want; otherwise at least
	Want    float64 // the number to reach
	Disk    disk    // for which it is wanted
	// Fail is where -check fails. It leaves room for a busy machine, a short run and
	// a slow disk: it is to catch what broke, not what became a little slower. 0: it
	// is no ratio, or too noisy, so it never fails.
	Fail   float64
	Reason string // what Want or Fail stands for
}

// disk says for which disks a number is wanted: where a sync costs next to nothing the
// floor is the trips of two statements, elsewhere it is two syncs.
type disk uint8

const (
	anyDisk disk = iota
	fast         // a sync takes less than fastSync
	slow
)

// fastSync is the time of a sync, in ms, below which a disk is fast.
const fastSync = 0.5

// Outcome is a target with one measurement that it is about.
type Outcome struct {
	Target
	result.Measurement
}

// Reached reports whether the median is as wanted. What is void is not.
func (o Outcome) Reached() bool { return o.Void == "" && o.within(o.Want) }

// Broken reports whether the median is far off. What is void says nothing.
func (o Outcome) Broken() bool { return o.Void == "" && o.Fail != 0 && !o.within(o.Fail) }

func (o Outcome) within(bound float64) bool {
	if o.Most {
		return o.Median() <= bound
	}
	return o.Median() >= bound
}

// Wanted is the bound, for people.
func (o Outcome) Wanted() string {
	if o.Most {
		return fmt.Sprintf("≤ %.4g", o.Want)
	}
	return fmt.Sprintf("≥ %.4g", o.Want)
}

// Judge finds the measurements of every target.
func Judge(f *result.File) (found []Outcome) {
	for _, t := range Table {
		var about []Outcome
		for _, m := range f.Measurements {
			if t.about(m) && t.fits(f.Machine) {
				about = append(about, Outcome{t, *m})
			}
		}
		slices.SortStableFunc(about, func(a, b Outcome) int {
			return slices.Index(lab.Databases, a.Server) - slices.Index(lab.Databases, b.Server)
		})
		found = append(found, about...)
	}
	return found
}

func (t Target) about(m *result.Measurement) bool {
	return m.Number == t.Number && m.Metric == t.Metric && strings.HasPrefix(m.Case, t.Case) &&
		has(t.Servers, m.Server) && has(t.Sides, m.Side)
}

func (t Target) fits(m result.Machine) bool {
	isFast := m.SlowSync == "" && m.FsyncP50 < fastSync
	return t.Disk == anyDisk || (t.Disk == fast) == isFast
}

func has(list []string, one string) bool {
	for _, x := range list {
		if x == one {
			return true
		}
	}
	return len(list) == 0
}

// Check is an error that names every target whose ratio is far off.
func Check(f *result.File) error {
	var broken []string
	for _, o := range Judge(f) {
		if o.Broken() {
			broken = append(broken, fmt.Sprintf("  %s %s %s %s: %s is %.3g, wanted %s, fails at %.4g (%s)",
				o.Measurement.Number, o.Server, o.Side, o.Measurement.Case, o.Measurement.Metric, o.Median(), o.Wanted(), o.Fail, o.Reason))
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("far below the numbers:\n%s", strings.Join(broken, "\n"))
	}
	return nil
}
